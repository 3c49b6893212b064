"""The customer's addresses: conversations, messages, runs."""

from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from conversations import queries, serializers, services
from conversations.queries import MessageView
from zhifu.authentication import CustomerAuthentication, scope_of
from zhifu.pagination import PageQuery, answer_page
from zhifu.schema import answers


class CustomerView(APIView):
    """An address for customers only; whatever is not theirs is 404."""

    authentication_classes = [CustomerAuthentication]
    permissions = {"GET": "conversation:write", "POST": "conversation:write"}


class Conversations(CustomerView):
    @extend_schema(
        operation_id="conversations_list",
        parameters=[PageQuery],
        responses=answers(200, serializers.ConversationPage, 400, 404),
    )
    def get(self, request: Request) -> Response:
        """The customer's conversations with the store of the token, newest first."""
        conversations = queries.conversations(scope_of(request))
        return answer_page(self, request, conversations, serializers.ConversationOutput)

    @extend_schema(request=serializers.ConversationInput, responses=answers(201, serializers.ConversationOutput, 400))
    def post(self, request: Request) -> Response:
        """Begin a conversation with the store of the token."""
        serializers.ConversationInput(data=request.data).is_valid(raise_exception=True)
        conversation = services.create_conversation(scope=scope_of(request))
        return Response(serializers.ConversationOutput(conversation).data, status=201)


class OneConversation(CustomerView):
    @extend_schema(responses=answers(200, serializers.ConversationOutput, 404))
    def get(self, request: Request, conversation: UUID) -> Response:
        """One conversation."""
        found = queries.get_conversation(scope_of(request), conversation)
        return Response(serializers.ConversationOutput(found).data)


class Messages(CustomerView):
    @extend_schema(
        operation_id="conversations_messages_list",
        parameters=[serializers.MessageQuery],
        responses=answers(200, serializers.MessagePage, 400, 404),
    )
    def get(self, request: Request, conversation: UUID) -> Response:
        """Messages in order: questions with the state of their run, answers with their sources."""
        wanted = serializers.MessageQuery(data=request.query_params.dict())
        wanted.is_valid(raise_exception=True)
        scope = scope_of(request)
        found = queries.get_conversation(scope, conversation)
        size = wanted.validated_data["page_size"]
        views = queries.messages_after(scope, found, wanted.validated_data["after"], size + 1)
        page = views[:size]
        next_after = page[-1].message.sequence if len(views) > size else None
        return Response(serializers.MessagePage({"results": page, "next_after": next_after}).data)

    @extend_schema(request=serializers.MessageInput, responses=answers(202, serializers.AcceptedOutput, 400, 404, 409))
    def post(self, request: Request, conversation: UUID) -> Response:
        """Say something; the answer comes as a later message of the list."""
        body = serializers.MessageInput(data=request.data)
        body.is_valid(raise_exception=True)
        message, run = services.accept_message(
            scope=scope_of(request), conversation_id=conversation, **body.validated_data
        )
        accepted = {"message": MessageView(message, run, None, None), "run": run}
        return Response(serializers.AcceptedOutput(accepted).data, status=202)


class OneRun(CustomerView):
    @extend_schema(responses=answers(200, serializers.RunOutput, 404))
    def get(self, request: Request, run: UUID) -> Response:
        """One run, with its answer once there is one."""
        return Response(serializers.RunOutput(queries.get_run(scope_of(request), run)).data)


class CancelRun(CustomerView):
    @extend_schema(request=None, responses=answers(200, serializers.RunOutput, 404, 409))
    def post(self, request: Request, run: UUID) -> Response:
        """Stop a run that has not ended; its message stays without an answer."""
        scope = scope_of(request)
        services.cancel_run(scope=scope, run_id=run)
        return Response(serializers.RunOutput(queries.get_run(scope, run)).data)
