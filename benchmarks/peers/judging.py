"""What every peer is judged by: the sets as the product exported them, and the product's own metrics."""

import argparse
import json
import logging
import time
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jieba
import numpy as np

from knowledge import evaluation
from knowledge.evaluation import Outcome

DEPTH = 30
HEADS = [*evaluation.METRICS, "p50 ms", "p95 ms"]


@dataclass(frozen=True)
class Exported:
    """A set as the product measured it: the same chunks, questions, vectors."""

    report: dict[str, Any]
    chunks: list[dict[str, Any]]
    queries: list[dict[str, str]]
    grades: dict[str, dict[str, int]]
    chunk_vectors: np.ndarray
    query_vectors: np.ndarray

    @property
    def known_vectors(self) -> dict[str, list[float]]:
        """Query -> its vector: embedding has no part in what either side is timed for."""
        return dict(zip((query["text"] for query in self.queries), self.query_vectors.tolist(), strict=True))


@dataclass(frozen=True)
class Measured:
    name: str
    outcomes: list[Outcome]
    seconds: list[float]


# A question -> the documents of the chunks found, best first.
Search = Callable[[str], Iterable[str]]
# Given a set, a peer makes its indexes.
Peer = Callable[[Exported], Search]


def plain(text: str) -> list[str]:
    """The words as jieba's first example cuts them."""
    return jieba.lcut(text)


def tended(text: str) -> list[str]:
    """The words with more care than most take: as jieba cuts them for a search engine, case and width ignored, and
    neither blanks nor punctuation among them."""
    words = jieba.lcut_for_search(unicodedata.normalize("NFKC", text).casefold())
    return [word for word in words if any(character.isalnum() for character in word)]


def main(description: str, peers: Mapping[str, Peer]) -> int:
    """Print both sides; return 1 when the product is worse in any number, beyond a tie of the paired bootstrap."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="what `manage.py evaluate_retrieval SET ... --export FOLDER` wrote")
    folder = parser.parse_args().folder
    if not (folder / "report.json").is_file():
        parser.error(f"{folder / 'report.json'} is missing: write it with manage.py evaluate_retrieval ... --export")
    jieba.setLogLevel(logging.WARNING)
    reports = json.loads((folder / "report.json").read_text("utf-8"))["sets"]
    worse = [line for report in reports for line in _compared(read(folder / report["name"], report), peers)]
    print("\n" + ("\n".join(["The product is worse in:", *worse]) if worse else "The product is worse in nothing."))
    return 1 if worse else 0


def read(folder: Path, report: dict[str, Any]) -> Exported:
    def lines(name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (folder / name).read_text("utf-8").split("\n")]

    return Exported(
        report=report,
        chunks=lines("chunks.jsonl"),
        queries=lines("queries.jsonl"),
        grades=json.loads((folder / "grades.json").read_text("utf-8")),
        chunk_vectors=np.load(folder / "chunks.npy"),
        query_vectors=np.load(folder / "queries.npy"),
    )


def _compared(exported: Exported, peers: Mapping[str, Peer]) -> list[str]:
    name = exported.report["name"]
    ours = [_of_the_product(exported, ranking) for ranking in exported.report["differences"]]
    theirs = [_measured(exported, peer, make) for peer, make in peers.items()]
    print(f"\n{name}: {len(exported.chunks)} chunks, {len(exported.queries)} queries")
    width = max(len(one.name) + 2 for one in (*ours, *theirs))
    print(" " * width + "".join(f"{head:>9}" for head in HEADS))
    for one in (*ours, *theirs):
        numbers = [f"{value:>9.3f}" for value in evaluation.means(one.outcomes).values()]
        times = [f"{value:>9.1f}" for value in evaluation.latency(one.seconds).values()]
        print(f"{one.name:<{width}}" + "".join(numbers + times))
    worse = []
    for one in ours:
        for other in theirs:
            for found in evaluation.differences(one.outcomes, {other.name: other.outcomes}, list(evaluation.METRICS)):
                interval = f"{found.mean:+.3f} [{found.low:+.3f}, {found.high:+.3f}]"
                line = f"{one.name} against {found.against}, {found.metric}: {interval} {found.verdict}"
                print(line)
                worse += [f"{name}: {line}"] if found.verdict == "worse" else []
    return worse


def _of_the_product(exported: Exported, ranking: str) -> Measured:
    rows = [row[ranking] for row in exported.report["per_query"]]
    outcomes = [Outcome(row["rank"], row["ndcg"]) for row in rows]
    return Measured(ranking, outcomes, [row["ms"] / 1000 for row in rows])


def _measured(exported: Exported, name: str, make: Peer) -> Measured:
    search = make(exported)
    # The first one warms up, as the product's does.
    list(search(exported.queries[0]["text"]))
    outcomes, seconds = [], []
    for query in exported.queries:
        started = time.perf_counter()
        found = search(query["text"])
        seconds.append(time.perf_counter() - started)
        # A document stands where its best chunk does.
        outcomes.append(evaluation.judge(dict.fromkeys(found), exported.grades[query["id"]]))
    return Measured(name, outcomes, seconds)
