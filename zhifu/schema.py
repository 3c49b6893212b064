"""How our authentications and answers appear in the OpenAPI schema."""

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension

from zhifu.problems import MEDIA_TYPE
from zhifu.serializers import ProblemOutput


def answers(status: int, output: Any, *problems: int) -> dict[Any, Any]:
    """Return what an address answers: `output`, and problem+json for 401, 403 and `problems`."""
    return {status: output} | {(problem, MEDIA_TYPE): ProblemOutput for problem in sorted((401, 403, *problems))}


class _Bearer(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # as below
    target_class: str | None = None
    description = ""

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "description": self.description}


class CustomerScheme(_Bearer):  # type: ignore[no-untyped-call]  # registration in drf-spectacular is untyped
    target_class = "zhifu.authentication.CustomerAuthentication"
    name = "customer"
    description = "A customer token, minted with a store key; 30 minutes."


class StaffScheme(_Bearer):  # type: ignore[no-untyped-call]  # as above
    target_class = "zhifu.authentication.StaffAuthentication"
    name = "staff"
    description = "A staff JWT from /openapi/v1/auth/token; 5 minutes."


class StoreKeyScheme(_Bearer):  # type: ignore[no-untyped-call]  # as above
    target_class = "zhifu.authentication.StoreKeyAuthentication"
    name = "storeKey"
    description = "A store key (`zk_...`): made in the admin, kept on the merchant's server."
