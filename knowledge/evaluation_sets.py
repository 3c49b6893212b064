"""Judged sets: a folder with corpus.jsonl {"id", "title", "text"}, queries.jsonl {"id", "text"} and qrels.tsv
(query, TAB, passage [, TAB, grade]); a grade of 0 is not relevant, none is 1."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from knowledge import chunking
from zhifu.errors import Invalid

_FILES = ("corpus.jsonl", "queries.jsonl", "qrels.tsv")
_GRADE_DIGITS = 4


@dataclass(frozen=True)
class Passage:
    id: str
    title: str
    text: str


@dataclass(frozen=True)
class Query:
    id: str
    text: str


@dataclass(frozen=True)
class JudgedSet:
    """Queries that at least one passage answers, `grades`: query -> passage -> grade; `unjudged` were left out."""

    name: str
    passages: list[Passage]
    queries: list[Query]
    grades: dict[str, dict[str, int]]
    unjudged: int

    def limited(self, queries: int | None) -> "JudgedSet":
        """Return the set with so many of its queries, from the first on."""
        return replace(self, queries=self.queries[:queries])


def read_folder(folder: Path) -> JudgedSet:
    """Return the set of a folder. Raises Invalid, which names file and line, for anything that is not as it must be."""
    for name in _FILES:
        if not (folder / name).is_file():
            raise Invalid(f"缺少文件 / {folder / name} is missing; a set needs {', '.join(_FILES)}.")
    corpus, asked, qrels = (folder / name for name in _FILES)
    passages = [Passage(*_texts(row, ("id", "title", "text"), at)) for row, at in _rows(corpus)]
    queries = [Query(*_texts(row, ("id", "text"), at)) for row, at in _rows(asked)]
    grades = _grades(qrels, _distinct(queries, asked), _distinct(passages, corpus))
    judged = [query for query in queries if any(grades.get(query.id, {}).values())]
    if not judged:
        raise Invalid(f"没有一个问题有答案 / No query of {folder} has a relevant passage: see {qrels}.")
    return JudgedSet(folder.resolve().name, passages, judged, grades, unjudged=len(queries) - len(judged))


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    """Yield each line that is not blank, and where it is. Only line ends count: a text may hold U+2028 as it is."""
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"文件读不了 / {path} cannot be read as UTF-8: {error}.") from error
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield line.rstrip("\r"), f"{path}, line {number}"


def _rows(path: Path) -> Iterator[tuple[dict[str, Any], str]]:
    for line, at in _lines(path):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise Invalid(f"不是 JSON / {at}: this is no JSON ({error}).") from error
        if not isinstance(row, dict):
            raise Invalid(f"不是 JSON 对象 / {at}: this is no JSON object.")
        yield row, at


def _texts(row: dict[str, Any], names: tuple[str, ...], at: str) -> list[str]:
    """Return the values of a row; only a title may be blank, or not there."""
    found = []
    for name in names:
        value = row.get(name, "" if name == "title" else None)
        if not isinstance(value, str) or (name != "title" and chunking.is_blank(value)):
            raise Invalid(f"字段不对 / {at}: {name} must be a text that is not empty.")
        if any("\ud800" <= character <= "\udfff" for character in value):
            raise Invalid(f"字符无效 / {at}: {name} holds half a surrogate pair.")
        found.append(value)
    return found


def _distinct(found: list[Passage] | list[Query], path: Path) -> set[str]:
    known: set[str] = set()
    for one in found:
        if one.id in known:
            raise Invalid(f"编号重复 / {path}: the id {one.id} is there twice.")
        known.add(one.id)
    return known


def _grades(path: Path, queries: set[str], passages: set[str]) -> dict[str, dict[str, int]]:
    grades: dict[str, dict[str, int]] = {}
    for line, at in _lines(path):
        query, passage, grade = _judgement(line, at)
        for found, known, kind in ((query, queries, "query"), (passage, passages, "passage")):
            if found not in known:
                raise Invalid(f"编号不存在 / {at}: there is no {kind} {found}; a qrels.tsv has no header.")
        if passage in grades.setdefault(query, {}):
            raise Invalid(f"重复判断 / {at}: this passage is judged twice for the query {query}.")
        grades[query][passage] = grade
    return grades


def _judgement(line: str, at: str) -> tuple[str, str, int]:
    parts = line.split("\t")
    grade = parts[2] if len(parts) == 3 else "1"
    if len(parts) not in (2, 3) or not grade.isascii() or not grade.isdigit() or len(grade) > _GRADE_DIGITS:
        raise Invalid(
            f"格式不对 / {at}: write query, TAB, passage, and if you like TAB and a grade (0, 1, 2 ... 9999)."
        )
    return parts[0], parts[1], int(grade)
