"""The tools a model may ask for: what each takes, needs and gives back. Running them is the executor's."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PositiveInt

from knowledge import queries, retrieval
from knowledge.results import Passage
from zhifu.scope import Scope

# Of a long document, what one reading shows; a search finds the rest.
_MOST_PASSAGES_READ = 12


def _as_list(value: Any) -> Any:
    """Read what models send for a list they leave out, or write as text."""
    if value in (None, "", {}):
        return []
    if isinstance(value, str) and value.startswith("["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return [value] if isinstance(value, str) else value


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid")


class SearchArguments(_Arguments):
    query: str = Field(
        min_length=1, max_length=2000, description="要查的内容，写完整的问题或关键词 / What to look for."
    )
    intents: Annotated[list[str], BeforeValidator(_as_list)] = Field(
        default_factory=list,
        max_length=4,
        description="可选：faq、product_inquiry、policy_explain；不确定就不填 / Optional; leave out when unsure.",
    )


class ReadArguments(_Arguments):
    source_id: UUID = Field(description="检索结果里的 source_id / The source_id of a search result.")
    version: PositiveInt = Field(description="检索结果里的 version / The version of that result.")


@dataclass(frozen=True)
class Found:
    """What a tool found. `total` counts what there was before it was cut to `passages`; `query` is what they are shown
    around, none: each is shown whole."""

    passages: tuple[Passage, ...]
    total: int
    truncated: bool
    query: str = ""
    degradation_reason: str = ""


@dataclass(frozen=True)
class Tool:
    """`reads_only`: running it again after a worker's death changes nothing. `run` takes the caller's scope, the
    validated arguments and a deadline (a moment of time.monotonic())."""

    name: str
    description: str
    permission: str
    arguments: type[BaseModel]
    reads_only: bool
    run: Callable[[Scope, Any, float], Found]


def tool_schemas(scope: Scope) -> list[dict[str, Any]]:
    """Return, in the OpenAI form, the tools this caller may use."""
    return [_schema(tool) for tool in TOOLS.values() if tool.permission in scope.permissions]


def _search(scope: Scope, arguments: SearchArguments, deadline: float) -> Found:
    result = retrieval.search(scope, arguments.query, intents=arguments.intents, deadline=deadline)
    return Found(
        passages=result.passages,
        total=result.total_candidates,
        truncated=result.truncated,
        query=arguments.query,
        degradation_reason=result.degradation_reason or "",
    )


def _read(scope: Scope, arguments: ReadArguments, deadline: float) -> Found:
    passages = queries.live_text(scope, arguments.source_id, arguments.version)
    return Found(
        passages=tuple(passages[:_MOST_PASSAGES_READ]),
        total=len(passages),
        truncated=len(passages) > _MOST_PASSAGES_READ,
    )


def _schema(tool: Tool) -> dict[str, Any]:
    parameters = tool.arguments.model_json_schema()
    parameters.pop("title", None)
    for field in parameters["properties"].values():
        field.pop("title", None)
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": parameters},
    }


TOOLS = {
    tool.name: tool
    for tool in (
        Tool(
            name="search_knowledge",
            description="在本店已发布的资料里检索。回答任何业务问题前先用它。/ Search the store's published material.",
            permission="knowledge:query",
            arguments=SearchArguments,
            reads_only=True,
            run=_search,
        ),
        Tool(
            name="read_document",
            description="片段不够用时，读检索到的资料的全文。/ Read a found document when its snippet is not enough.",
            permission="knowledge:query",
            arguments=ReadArguments,
            reads_only=True,
            run=_read,
        ),
    )
}
