"""The numbers that search is judged by: known mistakes give known numbers, and nothing is left behind."""

import json
import math
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.conf import settings as django_settings
from django.core.management import CommandError, call_command
from hypothesis import given
from hypothesis import strategies as st
from pymilvus import MilvusClient
from pytest_django.fixtures import Settings

from config.knowledge import KnowledgeSettings
from knowledge import evaluation, evaluation_cache, evaluation_run, evaluation_sets
from knowledge.encoders import Kind
from knowledge.evaluation import Outcome
from tests.fakes import DIMENSION, HashingEncoder
from tests.servers import free_port
from zhifu.errors import Invalid

PASSAGES = {
    "keyboard": ("键盘清洁", "清洁前先拔下键盘，用软毛刷清除键帽之间的灰尘。"),
    "returns": ("退货政策", "自签收之日起七天内，商品完好可以申请退货，运费由买家承担。"),
    "warranty": ("", "Every headset is under warranty for one year; water damage is not covered."),
    "invoice": ("发票", "付款后在订单详情里申请电子发票，一到两个工作日发到邮箱。"),
}
# The last is judged wrongly, so that not everything is right; the third has no answer here.
QUERIES = {
    "q1": "键盘怎么清洁",
    "q2": "headset warranty water damage",
    "q3": "你们周末营业吗",
    "q4": "怎么申请电子发票",
    "q5": "签收七天内申请退货",
}
QRELS = [("q1", "keyboard"), ("q2", "warranty", "2"), ("q2", "invoice", "0"), ("q4", "invoice"), ("q5", "keyboard")]


def lines(*rows: Any) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "small"
    made.mkdir()
    corpus = [{"id": key, "title": title, "text": text} for key, (title, text) in PASSAGES.items()]
    (made / "corpus.jsonl").write_text(lines(*corpus))
    (made / "queries.jsonl").write_text(lines(*({"id": key, "text": text} for key, text in QUERIES.items())))
    (made / "qrels.tsv").write_text("".join("\t".join(row) + "\n" for row in QRELS))
    return made


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "vectors.sqlite3"


@pytest.fixture
def run(folder: Path, cache: Path) -> Callable[..., str]:
    def run(*folders: Path, **options: Any) -> str:
        out = StringIO()
        options = {"cache": cache, "stderr": StringIO()} | options
        call_command("evaluate_retrieval", *map(str, folders or (folder,)), stdout=out, **options)
        return out.getvalue()

    return run


def collections() -> set[str]:
    # Of this test process alone: another one may be evaluating at the same server.
    names = MilvusClient(uri=django_settings.MILVUS_URL).list_collections()
    return {name for name in names if name.startswith(f"{django_settings.MILVUS_PREFIX}evaluation_")}


class CountingEncoder(HashingEncoder):
    """Says which texts it was asked for."""

    model = "counting"
    asked: list[str] = []

    def encode(self, texts: list[str], kind: str) -> np.ndarray:
        self.asked.extend(texts)
        return super().encode(texts, kind)


@pytest.fixture
def counting(settings: Settings) -> list[str]:
    settings.ENCODERS = {**settings.ENCODERS, "counting": f"{__name__}.CountingEncoder"}
    CountingEncoder.asked.clear()
    return CountingEncoder.asked


class Contrary:
    """A reranker that finds the passages best that hold the fewest of the question's characters."""

    threshold = 0.0

    def scores(self, query: str, texts: list[str], deadline: float) -> list[float]:
        return [1 - len(set(query) & set(text)) / len(set(query)) for text in texts]


# --- The numbers ---
RELEVANT = {"a": 1, "b": 1, "z": 0}


@pytest.mark.parametrize(
    ("ranking", "grades", "rank", "ndcg"),
    [
        (["a"], {"a": 1}, 1, 1.0),
        (["x", "a"], {"a": 1}, 2, 1 / math.log2(3)),
        ([], {"a": 1}, None, 0.0),
        (["x", "y"], {"a": 1}, None, 0.0),
        # A grade of 0 is read, and found not relevant.
        (["z", "a", "b"], RELEVANT, 2, (1 / math.log2(3) + 1 / 2) / (1 + 1 / math.log2(3))),
        # The better of two first or second: 3 + 1 / log2(3) is the best possible.
        (["b", "a"], {"a": 3, "b": 1}, 1, (1 + 3 / math.log2(3)) / (3 + 1 / math.log2(3))),
        (["x"] * 10 + ["a"], {"a": 1}, 11, 0.0),
        # Twelve are relevant, ten places are judged: all full is all right.
        (list("abcdefghij"), dict.fromkeys("abcdefghijkl", 1), 1, 1.0),
    ],
)
def test_a_ranking_is_judged_as_by_hand(
    ranking: list[str], grades: dict[str, int], rank: int | None, ndcg: float
) -> None:
    distinct = [f"{name}{place}" if name == "x" else name for place, name in enumerate(ranking)]
    assert evaluation.judge(distinct, grades) == Outcome(rank, pytest.approx(ndcg))


@pytest.mark.parametrize(
    ("rank", "expected"),
    [
        (1, [1, 1, 1, 1.0]),
        (2, [0, 1, 1, 1 / 2]),
        (5, [0, 1, 1, 1 / 5]),
        (6, [0, 0, 1, 1 / 6]),
        (10, [0, 0, 1, 1 / 10]),
        (11, [0, 0, 0, 0.0]),
        (None, [0, 0, 0, 0.0]),
    ],
)
def test_a_rank_makes_hits_and_a_reciprocal(rank: int | None, expected: list[float]) -> None:
    found = evaluation.means([Outcome(rank, 0.25)])
    assert list(found.values()) == [*expected, 0.25]
    assert list(found) == ["hit@1", "hit@5", "hit@10", "MRR@10", "nDCG@10"]


def test_a_query_that_nothing_answers_is_not_judged() -> None:
    with pytest.raises(ValueError, match="no document is relevant"):
        evaluation.judge(["a"], {"a": 0})


DOCUMENTS = st.lists(st.integers(0, 30).map(str), unique=True, max_size=30)
GRADES = st.dictionaries(st.integers(0, 30).map(str), st.integers(0, 3), min_size=1).filter(lambda g: any(g.values()))


@given(DOCUMENTS, GRADES)
def test_metrics_keep_their_bounds_and_hits_grow_with_k(ranking: list[str], grades: dict[str, int]) -> None:
    found = evaluation.means([evaluation.judge(ranking, grades)])
    assert found["hit@1"] <= found["hit@5"] <= found["hit@10"] <= 1
    assert found["hit@1"] <= found["MRR@10"] <= found["hit@10"]
    assert 0 <= found["nDCG@10"] <= 1 + 1e-9
    assert (found["nDCG@10"] > 0) == (found["hit@10"] > 0)


@given(GRADES)
def test_the_best_order_has_an_ndcg_of_one(grades: dict[str, int]) -> None:
    best = sorted(grades, key=lambda document: -grades[document])
    assert evaluation.judge(best, grades).ndcg == pytest.approx(1)


def ranks(*found: int | None) -> list[Outcome]:
    return [Outcome(rank, 0.0) for rank in found]


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict"),
    [
        ([1] * 100, [1] * 100, "tie"),
        ([1] * 100, [2] * 100, "better"),
        ([2] * 100, [1] * 100, "worse"),
        # 10 won and 9 lost of 100 prove nothing; 30 won and 5 lost do.
        ([1] * 10 + [2] * 9 + [1] * 81, [2] * 10 + [1] * 9 + [1] * 81, "tie"),
        ([1] * 30 + [2] * 5 + [1] * 65, [2] * 30 + [1] * 5 + [1] * 65, "better"),
    ],
)
def test_the_bootstrap_says_what_is_more_than_chance(ours: list[int], theirs: list[int], verdict: str) -> None:
    (found,) = evaluation.differences(ranks(*ours), {"other": ranks(*theirs)}, ["hit@1"])
    assert found.verdict == verdict
    assert found.low <= found.mean <= found.high
    assert found.mean == pytest.approx(np.mean(np.equal(ours, 1)) - np.mean(np.equal(theirs, 1)))


def test_the_interval_of_the_bootstrap_is_that_of_theory_and_the_same_each_time() -> None:
    each = np.asarray([1.0] * 60 + [0.0] * 40)
    mean, low, high = evaluation.paired_bootstrap(each)
    # The normal interval of a share: 1.96 * sqrt(0.6 * 0.4 / 100).
    assert (mean, low, high) == pytest.approx((0.6, 0.504, 0.696), abs=0.011)
    assert evaluation.paired_bootstrap(each) == (mean, low, high)


def test_each_metric_is_compared_with_the_leg_that_is_best_in_it() -> None:
    legs = {"dense": ranks(1, 9, 9, None), "BM25": ranks(2, 2, 3, 3)}
    against = {one.metric: one.against for one in evaluation.differences(ranks(1, 1, 1, 1), legs)}
    assert against == {"hit@1": "dense", "hit@5": "BM25", "MRR@10": "BM25"}


# --- The whole command ---
def test_known_mistakes_give_the_known_numbers(run: Callable[..., str], tmp_path: Path) -> None:
    said = run(json=tmp_path / "out.json")
    assert "small: 4 passages in 4 chunks, 4 queries (1 without a relevant passage left out)" in said
    (small,) = json.loads((tmp_path / "out.json").read_text())["sets"]
    assert list(small["rankings"]) == ["dense", "BM25", "fused, convex"]
    for found in small["rankings"].values():
        # Three of four are first; of the fourth, the passage judged right is another than the one that answers.
        assert found["metrics"]["hit@1"] == 0.75
        assert found["latency_ms"]["p95"] >= found["latency_ms"]["p50"] > 0
    assert [row["BM25"]["rank"] for row in small["per_query"]] == [1, 1, 1, None]
    assert small["per_query"][3]["dense"]["rank"] > 1
    assert [row["id"] for row in small["per_query"]] == ["q1", "q2", "q4", "q5"]
    assert {one["verdict"] for one in small["differences"]["fused, convex"]} == {"tie"}
    assert "fused, convex against dense, hit@1: +0.000 [+0.000, +0.000] tie" in said


def test_nothing_stays_in_the_vector_store(run: Callable[..., str]) -> None:
    before = collections()
    run()
    assert collections() == before


@pytest.mark.parametrize("stage", ["writing", "asking"])
@pytest.mark.parametrize("ends", [KeyboardInterrupt, RuntimeError])
def test_nothing_stays_when_it_ends_early(folder: Path, cache: Path, stage: str, ends: type[BaseException]) -> None:
    before, meanwhile = collections(), set()

    @contextmanager
    def bars(what: str, total: int) -> Any:
        meanwhile.update(collections())
        if what == stage:
            raise ends
        yield lambda done: None

    encoder = HashingEncoder()
    with evaluation_cache.opened(cache, encoder) as vectors:
        prepared = evaluation_run.prepare(evaluation_sets.read_folder(folder), encoder, vectors)
    with pytest.raises(ends):
        evaluation_run.evaluate(prepared, encoder, {"fused": KnowledgeSettings()}, bars=bars)
    assert len(meanwhile - before) == 1
    assert collections() == before


@pytest.mark.processes
def test_nothing_stays_after_ctrl_c_pressed_again_and_again(folder: Path, cache: Path) -> None:
    queries = [{"id": f"q{number}", "text": f"键盘怎么清洁 {number}"} for number in range(1000)]
    (folder / "queries.jsonl").write_text(lines(*queries))
    (folder / "qrels.tsv").write_text("".join(f"{query['id']}\tkeyboard\n" for query in queries))
    before = collections()
    command = [sys.executable, "manage.py", "evaluate_retrieval", str(folder), "--cache", str(cache)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True)
    said = b""
    while b"asking: " not in said and process.poll() is None:
        said += process.stderr.read1()
    time.sleep(0.2)
    assert len(collections() - before) == 1, said[-2000:]
    until = time.monotonic() + 30
    while process.poll() is None and time.monotonic() < until:
        process.send_signal(signal.SIGINT)
        time.sleep(0.02)
    said = process.communicate(timeout=30)[1].decode()
    assert process.returncode == 130
    assert "Interrupted" in said
    assert "Traceback" not in said
    assert collections() == before


def test_a_second_run_embeds_nothing(run: Callable[..., str], counting: list[str]) -> None:
    first = run(encoder="counting")
    asked = list(counting)
    assert f"{PASSAGES['keyboard'][0]}\n{PASSAGES['keyboard'][1]}" in asked
    assert PASSAGES["warranty"][1] in asked
    assert QUERIES["q3"] not in asked
    second = run(encoder="counting")
    assert counting == asked
    assert first.splitlines()[2].split()[:6] == second.splitlines()[2].split()[:6]


def test_a_text_that_is_new_is_embedded_alone(run: Callable[..., str], folder: Path, counting: list[str]) -> None:
    run(encoder="counting")
    counting.clear()
    with (folder / "corpus.jsonl").open("a") as corpus:
        corpus.write(lines({"id": "new", "text": "周末照常营业。"}))
    run(encoder="counting")
    assert counting == ["周末照常营业。"]


def test_settings_side_by_side(run: Callable[..., str], tmp_path: Path) -> None:
    said = run(compare=["fusion=rrf", "fusion=convex,dense_weight=0.5"], json=tmp_path / "out.json")
    (small,) = json.loads((tmp_path / "out.json").read_text())["sets"]
    other = "fusion=convex,dense_weight=0.5"
    assert list(small["rankings"]) == ["dense", "BM25", "fusion=rrf", other]
    assert [one["against"] for one in small["differences"][other]][3:] == ["fusion=rrf"] * 3
    assert f"{other} against fusion=rrf, MRR@10: " in said


def test_a_reranker_has_the_last_word(run: Callable[..., str], settings: Settings, tmp_path: Path) -> None:
    settings.RERANKERS = {"contrary": f"{__name__}.Contrary"}
    settings.KNOWLEDGE = {"rerank": "contrary"}
    run(json=tmp_path / "out.json")
    (small,) = json.loads((tmp_path / "out.json").read_text())["sets"]
    assert list(small["rankings"])[2:] == ["fused, convex", "reranked, contrary"]
    assert small["rankings"]["fused, convex"]["metrics"]["hit@1"] == 0.75
    # What was first is last, and what was judged wrongly is right.
    assert [row["reranked, contrary"]["rank"] for row in small["per_query"]] == [4, 4, 4, 1]


def test_long_passages_are_found_by_their_best_chunk(run: Callable[..., str], folder: Path, tmp_path: Path) -> None:
    filler = "本店所有商品均为正品，欢迎选购。" * 40
    (folder / "corpus.jsonl").write_text(
        lines(
            {"id": "long", "title": "说明", "text": filler + "耳机进水不在保修范围内。"},
            {"id": "keyboard", "title": "说明", "text": filler},
        )
    )
    (folder / "queries.jsonl").write_text(lines({"id": "q", "text": "耳机进水保修吗"}))
    (folder / "qrels.tsv").write_text("q\tlong\n")
    run(json=tmp_path / "all.json")
    run(json=tmp_path / "first.json", first_chunks=True)
    (whole,) = json.loads((tmp_path / "all.json").read_text())["sets"]
    (first,) = json.loads((tmp_path / "first.json").read_text())["sets"]
    assert (whole["passages"], whole["chunks"], first["chunks"]) == (2, 4, 2)
    assert whole["per_query"][0]["BM25"]["rank"] == 1
    assert first["per_query"][0]["BM25"]["rank"] is None


def test_what_is_exported_is_what_was_measured(run: Callable[..., str], tmp_path: Path) -> None:
    run(export=tmp_path / "out", limit=2)
    chunks = [json.loads(line) for line in (tmp_path / "out/small/chunks.jsonl").read_text().split("\n")]
    assert chunks[0] == {"document": "keyboard", "position": 0, "text": "\n".join(PASSAGES["keyboard"])}
    vectors = np.load(tmp_path / "out/small/chunks.npy")
    assert vectors.shape == (4, DIMENSION)
    assert np.allclose(vectors[2], HashingEncoder().encode([chunks[2]["text"]], Kind.PASSAGE)[0])
    assert np.load(tmp_path / "out/small/queries.npy").shape == (2, DIMENSION)
    (small,) = json.loads((tmp_path / "out/report.json").read_text())["sets"]
    assert [row["id"] for row in small["per_query"]] == ["q1", "q2"]


def test_progress_is_shown(run: Callable[..., str]) -> None:
    shown = StringIO()
    run(stderr=shown)
    for what in ("embedding, passage", "embedding, query", "writing", "asking"):
        assert f"small: {what}: 100%" in shown.getvalue()


# --- What is not right ---
BAD_FILES = [
    ("corpus.jsonl", None, r"corpus\.jsonl is missing"),
    ("qrels.tsv", None, r"qrels\.tsv is missing"),
    ("corpus.jsonl", '{"id": "a", "text": "b"}\n{"id"', r"corpus\.jsonl, line 2: this is no JSON"),
    ("corpus.jsonl", "[1]\n", "line 1: this is no JSON object"),
    pytest.param("corpus.jsonl", "[" * 100_000, r"corpus\.jsonl, line 1: this is no JSON", id="bottomless"),
    ("corpus.jsonl", '{"id": "a", "text": " \\n"}\n', "line 1: text must be a text that is not empty"),
    ("corpus.jsonl", '{"id": 1, "text": "b"}\n', "line 1: id must be a text"),
    ("corpus.jsonl", '{"id": "a", "text": "\\ud800"}\n', "line 1: text holds half a surrogate pair"),
    ("corpus.jsonl", '{"id": "a", "text": "b"}\n{"id": "a", "text": "c"}\n', "the id a is there twice"),
    ("queries.jsonl", '{"id": "q1", "text": ""}\n', r"queries\.jsonl, line 1: text must be"),
    ("queries.jsonl", '{"id": "a", "text": "b"}\n\n{"id": "a", "text": "c"}\n', "the id a is there twice"),
    ("qrels.tsv", "query-id\tcorpus-id\tscore\n", "line 1: write query, TAB, passage"),
    ("qrels.tsv", "q1\tkeyboard\nq9\tkeyboard\n", "line 2: there is no query q9"),
    ("qrels.tsv", "q1\tnowhere\n", "line 1: there is no passage nowhere"),
    ("qrels.tsv", "q1 keyboard\n", "line 1: write query, TAB, passage"),
    ("qrels.tsv", "q1\tkeyboard\t-1\n", "line 1: write query, TAB, passage"),
    pytest.param("qrels.tsv", "q1\tkeyboard\nq2\tkeyboard\t" + "9" * 400, "line 2: write query.*9999", id="no float"),
    pytest.param("qrels.tsv", "q1\tkeyboard\t" + "9" * 5000, "line 1: write query.*9999", id="no int"),
    ("qrels.tsv", "q1\tkeyboard\nq1\tkeyboard\t2\n", "line 2: this passage is judged twice"),
    ("qrels.tsv", "", "No query of .* has a relevant passage"),
    ("qrels.tsv", "q1\tkeyboard\t0\n", "No query of .* has a relevant passage"),
    ("corpus.jsonl", b"\xff\xfe", "cannot be read as UTF-8"),
]


@pytest.mark.parametrize(("name", "content", "says"), BAD_FILES)
def test_a_bad_file_is_refused_with_its_line(
    run: Callable[..., str], folder: Path, name: str, content: str | bytes | None, says: str
) -> None:
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(CommandError, match=says):
        run()


def test_a_text_may_hold_other_line_ends_and_the_file_a_mark(folder: Path) -> None:
    text = "第一行\u2028第二行\x85第三行"
    corpus = [{"id": key, "text": text} for key in PASSAGES]
    (folder / "corpus.jsonl").write_text("\ufeff" + lines(*corpus).replace("\n", "\r\n"))
    assert {passage.text for passage in evaluation_sets.read_folder(folder).passages} == {text}


def test_a_passage_that_the_product_refuses_is_named(run: Callable[..., str], folder: Path) -> None:
    with (folder / "corpus.jsonl").open("a") as corpus:
        corpus.write(lines({"id": "endless", "text": "本店所有商品均为正品。" * 4000}))
    with pytest.raises(CommandError, match=r"endless: .*at most 64 are allowed"):
        run()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"limit": 0}, "--limit is at least 1"),
        ({"encoder": "none"}, "no encoder none"),
        ({"json": Path("/nowhere/out.json")}, "there is no folder /nowhere"),
        ({"json": Path("/proc")}, "/proc is a folder: name a file"),
        ({"json": Path("/proc/out.json")}, "/proc/out.json cannot be written"),
        ({"export": Path(__file__)}, "test_evaluation.py is a file: name a folder"),
        ({"export": Path(__file__) / "deeper"}, "deeper cannot be made"),
        ({"export": Path("/proc/out")}, "/proc/out cannot be made"),
        ({"compare": ["similarity_threshold=0.1", "similarity_threshold=0.9"]}, "similarity_threshold does not act"),
        ({"compare": ["rerank=", "fusion=rrf,rerank_threshold=0.9"]}, "rerank_threshold does not act on the order"),
        ({"compare": ["fusion=convex", "dense_weight=0.75"]}, "fusion=convex and dense_weight=0.75 order alike"),
        ({"compare": ["fusion=rrf,dense_weight=0.1", "fusion=rrf,dense_weight=0.9"]}, "order alike"),
        ({"compare": ["fusion=rrf"]}, "at least two different settings"),
        ({"compare": ["fusion=rrf", "fusion=rrf"]}, "at least two different settings"),
        ({"compare": ["fusion=rrf", "fusion=best"]}, r"fusion=best: fusion: .*the names are .*fusion"),
        ({"compare": ["fusion=rrf", "fusoin=rrf"]}, r"fusoin=rrf: fusoin: .*the names are .*fusion"),
        ({"compare": ["fusion=rrf", "rerank=none"]}, "no reranker none"),
        ({"compare": ["fusion=rrf", "convex"]}, r"convex: convex: .*Write NAME=VALUE"),
    ],
)
def test_a_bad_option_is_refused_before_anything_is_embedded(
    run: Callable[..., str], cache: Path, options: dict[str, Any], says: str
) -> None:
    with pytest.raises(CommandError, match=says):
        run(**options)
    assert not cache.exists()


@pytest.mark.parametrize("taken", ["report.json", "small"])
def test_an_export_that_is_in_the_way_of_itself_is_refused(run: Callable[..., str], tmp_path: Path, taken: str) -> None:
    export = tmp_path / "out"
    export.mkdir()
    if taken == "small":
        (export / taken).write_text("a file")
    else:
        (export / taken).mkdir()
    with pytest.raises(CommandError, match=f"--export: .*{taken} is a f"):
        run(export=export)


def test_a_report_that_is_there_stays_when_nothing_is_measured(
    run: Callable[..., str], folder: Path, tmp_path: Path
) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text("what was measured before")
    (folder / "qrels.tsv").unlink()
    for report in (old, new):
        with pytest.raises(CommandError, match="qrels"):
            run(json=report)
    assert old.read_text() == "what was measured before"
    assert not new.exists()


def test_a_disk_that_is_full_at_the_end_is_told(run: Callable[..., str]) -> None:
    with pytest.raises(CommandError, match="report could not be written"):
        run(json=Path("/dev/full"))


def test_two_folders_of_one_name_are_refused(run: Callable[..., str], folder: Path) -> None:
    with pytest.raises(CommandError, match="same name"):
        run(folder, folder)


def test_a_cache_of_another_dimension_is_refused(run: Callable[..., str], cache: Path) -> None:
    run()
    with sqlite3.connect(cache) as database:
        database.execute("update vectors set vector = x'00000000'")
    database.close()
    with pytest.raises(CommandError, match=f"not of {DIMENSION} dimensions.*--cache"):
        run()


class Retrained(HashingEncoder):
    """Of the same dimension, and of another space."""

    revision = "2"


@pytest.mark.parametrize("other", [Retrained, CountingEncoder])
def test_a_cache_of_another_model_is_refused(
    run: Callable[..., str], cache: Path, settings: Settings, other: type[HashingEncoder]
) -> None:
    run()
    settings.ENCODERS = {**settings.ENCODERS, other.__name__: f"{__name__}.{other.__name__}"}
    with pytest.raises(CommandError, match=f"holds vectors of hashing, revision 1, not of {other.model}.*--cache"):
        run(encoder=other.__name__)
    assert run()


def test_vectors_without_a_mark_are_those_of_whom_the_file_is_named_after(cache: Path) -> None:
    encoder = HashingEncoder()
    with evaluation_cache.opened(cache, encoder) as vectors:
        vectors.put(Kind.QUERY, ["一句"], [np.ones(DIMENSION, dtype=np.float32)])
    with sqlite3.connect(cache) as database:
        database.execute("drop table made_by")
    database.close()
    with pytest.raises(Invalid, match=r"rename it to hashing-1\.sqlite3"), evaluation_cache.opened(cache, encoder):
        pass
    named = cache.rename(cache.with_name("hashing-1.sqlite3"))
    with evaluation_cache.opened(named, encoder) as vectors:
        assert vectors.get(Kind.QUERY, "一句") is not None
    # From now on it is marked, whatever it is called.
    renamed = named.rename(cache)
    with evaluation_cache.opened(renamed, encoder) as vectors:
        assert vectors.get(Kind.QUERY, "一句") is not None
    with pytest.raises(Invalid, match="holds vectors of hashing"), evaluation_cache.opened(renamed, Retrained()):
        pass


def test_a_file_that_is_no_cache_is_refused_and_left_as_it_is(run: Callable[..., str], cache: Path) -> None:
    cache.write_text("something else, and long enough to have a header " * 10)
    with pytest.raises(CommandError, match=r"cannot be used as a cache.*--cache"):
        run()
    assert cache.read_text().startswith("something else")


def test_a_vector_store_that_is_not_there_is_named(run: Callable[..., str], settings: Settings) -> None:
    settings.MILVUS_URL = f"http://127.0.0.1:{free_port()}"
    settings.MILVUS_WRITE_TIMEOUT_SECONDS = 1.0
    with pytest.raises(CommandError, match=settings.MILVUS_URL):
        run()


def test_a_cache_keeps_queries_and_passages_apart(cache: Path) -> None:
    vector = np.arange(DIMENSION, dtype=np.float32)
    with evaluation_cache.opened(cache, HashingEncoder()) as vectors:
        vectors.put(Kind.QUERY, ["同一句"], [vector])
    with evaluation_cache.opened(cache, HashingEncoder()) as vectors:
        assert vectors.get(Kind.PASSAGE, "同一句") is None
        assert np.array_equal(vectors.get(Kind.QUERY, "同一句"), vector)
    larger = HashingEncoder()
    larger.dimension += 1
    with evaluation_cache.opened(cache, larger) as vectors, pytest.raises(Invalid):
        vectors.get(Kind.QUERY, "同一句")
