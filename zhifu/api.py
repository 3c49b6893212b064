"""Addresses of the house: tokens."""

from uuid import UUID

from django.conf import settings
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from zhifu import queries, serializers, services
from zhifu.authentication import StoreKeyAuthentication, scope_of
from zhifu.schema import answers


class CustomerTokens(APIView):
    """Mint a customer's token with a store key."""

    authentication_classes = [StoreKeyAuthentication]
    permissions = {"POST": "customer:token"}

    @extend_schema(
        request=serializers.CustomerTokenInput,
        responses=answers(201, serializers.CustomerTokenOutput, 400, 404),
    )
    def post(self, request: Request, store: UUID) -> Response:
        body = serializers.CustomerTokenInput(data=request.data)
        body.is_valid(raise_exception=True)
        scope = scope_of(request)
        customer, token = services.mint_customer_token(
            scope=scope, store=queries.get_store(scope, store), **body.validated_data
        )
        answer = {
            "access": token,
            "expires_in": settings.CUSTOMER_TOKEN_SECONDS,
            "customer_id": customer.public_id,
        }
        return Response(answer, status=201)
