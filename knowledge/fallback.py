"""Keyword search in the database, for when the vector store or the embedder is out of reach.

The same rows a search may show, found by how many of the query's keywords they hold. Always marked as degraded.
"""

import functools
import logging
import operator
import re
import threading
from collections import Counter
from collections.abc import Mapping
from typing import Any

from django.db.models import Case, Q, QuerySet, Value, When
from django.db.models.functions import Lower

from knowledge import queries, words
from knowledge.filters import NO_FILTERS, Filters
from knowledge.models import KnowledgeChunk
from knowledge.results import Passage
from zhifu.scope import Scope

MAX_KEYWORDS = 12
MAX_KEYWORD = 64
_SHORTEST_NUMBER = 3
# Repeated text and full collections are dropped after reading: so many rows are read for each wanted one.
_ROWS_PER_RESULT = 5
_WIDE = {code: code + 0xFEE0 for code in range(0x21, 0x7F)}
_WORD = re.compile(r"[0-9a-z]+(?:[-_./][0-9a-z]+)*|[^\W_]+")
# What asks but says nothing about the matter.
_CHINESE_STOP_WORDS = """
的 了 是 在 我 你 您 他 她 它 们 我们 你们 这 那 这个 那个 和 与 或 也 都 就 还 又 把 被 对 给 从 到 向 比
吗 呢 吧 啊 呀 嘛 怎么 怎样 怎么样 如何 什么 哪 哪个 哪些 哪里 为什么 多少 几 谁 请 请问 麻烦 能 能否 可以 可不可以 会
要 想 想要 需要 应该 有 没有 不 不能 一个 一下 一些 最近 现在 知道 告诉 帮 帮忙 问 问题 关于
"""
_ENGLISH_STOP_WORDS = """
a an the is are was were be been do does did can could may might will would shall should i you he she it we they my your
his her its our their this that these those of to in on at by for from with about as and or not no if what which who
whom whose when where why how please tell me us there have has had
"""
_STOP_WORDS = frozenset(f"{_CHINESE_STOP_WORDS} {_ENGLISH_STOP_WORDS}".split())


def keywords(query: str) -> list[str]:
    """Return the words of a query that say something: cut by jieba, width and case ignored. Its order and article
    numbers come first, then the longest.

    At most MAX_KEYWORDS, each at most MAX_KEYWORD characters; none when the query holds no word.
    """
    found: dict[str, None] = {}
    for word in _WORD.findall(words.folded(query)):
        # A number or a Latin word stays whole: cut in pieces it would be found everywhere.
        pieces = [word] if word.isascii() else _cut(word)
        found |= dict.fromkeys(piece[:MAX_KEYWORD] for piece in pieces if piece.strip() and piece not in _STOP_WORDS)
    # A short number is in every longer one: 5 in 15, 5 in 2025.
    found = {word: None for word in found if not (word.isdecimal() and len(word) < _SHORTEST_NUMBER)} or found
    # Numbers first, then longer words, which say more; among equals the order of the query.
    numbers = _numbers(query)
    return sorted(found, key=lambda word: (word in numbers, len(word)), reverse=True)[:MAX_KEYWORDS]


def read_dictionary() -> None:
    """Do now what the first search of a process would otherwise have to wait for."""
    with _loading:
        _tokenizer()


def search(
    scope: Scope, query: str, *, top_k: Mapping[str, int], limit: int, filters: Filters = NO_FILTERS
) -> tuple[list[Passage], bool]:
    """Return live passages of the collections in `top_k` that hold keywords of the query, and whether there were more.

    Ordered by how many keywords each holds, order and article numbers before all else; then the newer first. No score.
    """
    wanted = keywords(query)
    if not wanted:
        return [], False
    rows = list(_matching(scope, wanted, _numbers(query), list(top_k), filters)[: limit * _ROWS_PER_RESULT])
    seen: set[str] = set()
    taken: Counter[str] = Counter()
    passages: list[Passage] = []
    for passage in map(queries.passage_of, rows):
        essence = words.essence(passage.text)
        if essence in seen:
            continue
        seen.add(essence)
        if taken[passage.collection] < top_k[passage.collection] and len(passages) < limit:
            taken[passage.collection] += 1
            passages.append(passage)
    return passages, len(seen) > len(passages)


def _matching(
    scope: Scope, wanted: list[str], numbers: frozenset[str], collections: list[str], filters: Filters
) -> QuerySet[KnowledgeChunk, dict[str, Any]]:
    held = [
        Case(When(_holds(word), then=Value(len(wanted) if word in numbers else 1)), default=Value(0)) for word in wanted
    ]
    hits: Any = functools.reduce(operator.add, held)
    return (
        queries.live_chunks(scope, filters)
        .filter(document_version__collection__in=collections)
        .alias(lower_text=Lower("text"), lower_title=Lower("document_version__title"))
        .alias(hits=hits)
        .filter(hits__gt=0)
        .order_by("-hits", "-document_version__live_from", "id")
    )


def _numbers(query: str) -> frozenset[str]:
    """Return the order and article numbers of a query as they are among its keywords."""
    return frozenset(code.lstrip("#") for code in words.codes(query))


def _holds(word: str) -> Q:
    """Return the condition that text or title hold `word`; a Latin word or a number also in the wide form that Chinese
    keyboards give."""
    # `contains` passes each form as a parameter and escapes % _ and \ in it.
    wide = word.translate(_WIDE)
    forms = dict.fromkeys((word, wide, wide.upper())) if word.isascii() else (word,)
    fields = ("lower_text", "lower_title")
    return functools.reduce(operator.or_, [Q((f"{field}__contains", form)) for field in fields for form in forms])


@functools.cache
def _tokenizer() -> Any:
    # Reading its dictionary takes most of a second: only in processes that search, and then once.
    import jieba

    # It brings a handler of its own and says at each start how it loads.
    jieba.setLogLevel(logging.WARNING)
    tokenizer = jieba.Tokenizer()
    tokenizer.initialize()
    return tokenizer


_loading = threading.Lock()


def _cut(word: str) -> list[str]:
    # All callers meet here when an outage begins; a cache alone would let each of them read it.
    with _loading:
        tokenizer = _tokenizer()
    return list(tokenizer.cut(word))
