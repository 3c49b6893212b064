"""The customer's addresses of their own memory."""

from collections.abc import Iterable

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from memory import queries, recalling, serializers, services
from memory.communication import FIELDS
from memory.recalling import Recollection
from zhifu.authentication import CustomerAuthentication, scope_of
from zhifu.pagination import PageQuery, answer_page
from zhifu.schema import answers


class MemoryView(APIView):
    """An address for customers only, about nobody but who asks."""

    authentication_classes = [CustomerAuthentication]
    permissions = dict.fromkeys(("GET", "POST", "PUT", "PATCH"), "memory:own")


class Memory(MemoryView):
    @extend_schema(responses=answers(200, serializers.MemoryOutput, 404, 503))
    def get(self, request: Request) -> Response:
        """What is remembered, and who said it when. 503 MEMORY_UNAVAILABLE: without Retry-After the content is lost,
        with it the store does not answer just now."""
        known = recalling.recall(queries.get_profile(scope_of(request)).customer_id)
        if known.failure is not None:
            raise known.failure
        return _answer(known)

    @extend_schema(
        request=serializers.ChangeInput, responses=answers(200, serializers.MemoryOutput, 400, 404, 409, 503)
    )
    def patch(self, request: Request) -> Response:
        """Set or remove what is remembered, by one's own hand. It ends what was said before: a wish that was just sent
        and not yet read is read no more."""
        body = serializers.ChangeInput(data=request.data)
        body.is_valid(raise_exception=True)
        wanted = dict(body.validated_data)
        changed = services.change_memory(
            scope=scope_of(request),
            changes={field: wanted[field] for field in FIELDS if field in wanted},
            expected_revision=wanted["expected_revision"],
        )
        return _answer(changed)


class Consent(MemoryView):
    @extend_schema(request=serializers.ConsentInput, responses=answers(200, serializers.MemoryOutput, 400, 404, 409))
    def put(self, request: Request) -> Response:
        """Allow or forbid remembering; what was remembered goes in either case."""
        body = serializers.ConsentInput(data=request.data)
        body.is_valid(raise_exception=True)
        return _answer(services.set_consent(scope=scope_of(request), **body.validated_data))


class Clear(MemoryView):
    @extend_schema(request=serializers.RevisionInput, responses=answers(200, serializers.MemoryOutput, 400, 404, 409))
    def post(self, request: Request) -> Response:
        """Forget everything; whether to remember from now on stays as it was."""
        body = serializers.RevisionInput(data=request.data)
        body.is_valid(raise_exception=True)
        return _answer(services.clear_memory(scope=scope_of(request), **body.validated_data))


class History(MemoryView):
    @extend_schema(
        operation_id="memory_history_list",
        parameters=[PageQuery],
        responses=answers(200, serializers.MemoryEventPage, 400, 404),
    )
    def get(self, request: Request) -> Response:
        """What happened to the memory, newest first: when, by whom or from which message, never what."""
        return answer_page(self, request, queries.history(scope_of(request)), serializers.MemoryEventOutput)


def _answer(known: Recollection) -> Response:
    body = {
        "profile": known.profile,
        "communication": known.communication,
        "origins": [known.origins[field] for field in _in_order(known.origins)],
        "expires_at": known.profile.value_expires_at if known.communication else None,
    }
    return Response(serializers.MemoryOutput(body).data, headers={"Cache-Control": "no-store"})


def _in_order(fields: Iterable[str]) -> list[str]:
    return sorted(fields, key=FIELDS.index)
