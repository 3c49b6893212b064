"""`manage.py evaluate_retrieval FOLDER ...`: how well search finds what was judged, each leg alone and both together.

What the numbers mean is said in `knowledge/evaluation.py`, what a folder holds in `knowledge/evaluation_sets.py`.
"""

import json
import signal
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO, cast

from django.conf import settings
from django.core.management import BaseCommand, CommandError
from pydantic import ValidationError
from tqdm import tqdm

from config.knowledge import KnowledgeSettings, knowledge_settings
from knowledge import evaluation, evaluation_cache, evaluation_run, evaluation_sets, reranking, retrieval
from knowledge.encoders import Encoder, get_encoder
from knowledge.evaluation_run import SetReport
from zhifu.errors import Failure, Invalid

_NAME = 28
# What shells say of a program that Ctrl-C ended.
_INTERRUPTED = 130
# Of the settings, those that act on the order, which is all that is judged here.
_COMPARABLE = ("fusion", "dense_weight", "rerank")


class Command(BaseCommand):
    help = "Measure search on judged sets, in a collection of its own that is dropped at the end."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("folders", type=Path, nargs="+", help="each with corpus.jsonl, queries.jsonl, qrels.tsv")
        parser.add_argument(
            "--encoder", default=settings.ENCODER, help=f"one of settings.ENCODERS ({settings.ENCODER})"
        )
        parser.add_argument("--cache", type=Path, help="where vectors are kept (var/embeddings/MODEL-REVISION.sqlite3)")
        parser.add_argument(
            "--compare",
            nargs="+",
            default=[],
            metavar="NAME=VALUE",
            help="settings side by side: fusion=rrf fusion=convex",
        )
        parser.add_argument("--limit", type=int, help="ask only so many queries of each set, from the first on")
        parser.add_argument("--first-chunks", action="store_true", help="only the first chunk of each passage")
        parser.add_argument("--json", type=Path, help="also write everything there, query by query")
        parser.add_argument(
            "--export", type=Path, help="a folder for chunks, vectors and report, as benchmarks/peers reads"
        )

    def handle(self, *args: Any, folders: list[Path], **options: Any) -> None:
        try:
            with _interrupted_once():
                self._handle(folders, options)
        except Failure as failure:
            raise CommandError(_why(failure)) from failure
        except KeyboardInterrupt as end:
            message = "已中断 / Interrupted: no report is written. What was embedded is kept."
            raise CommandError(message, returncode=_INTERRUPTED) from end

    def _handle(self, folders: list[Path], options: dict[str, Any]) -> None:
        # Everything that can be wrong with what was asked for, before what takes minutes.
        if options["limit"] is not None and options["limit"] < 1:
            raise Invalid("--limit is at least 1.")
        if options["json"]:
            _check_writable("--json", options["json"])
        variants = _variants(options["compare"])
        encoder = get_encoder(options["encoder"])
        sets = [evaluation_sets.read_folder(folder).limited(options["limit"]) for folder in folders]
        if len({one.name for one in sets}) < len(sets):
            raise Invalid("Two folders have the same name, and a report knows sets by name: rename one.")
        if options["export"]:
            _make_folders(options["export"], [one.name for one in sets])
        cache = options["cache"] or settings.VAR_PATH / "embeddings" / evaluation_cache.file_name(encoder)
        reports = []
        with evaluation_cache.opened(cache, encoder) as vectors:
            for judged in sets:
                prepared = evaluation_run.prepare(
                    judged, encoder, vectors, first_chunks=options["first_chunks"], bars=self._bars(judged.name)
                )
                report = evaluation_run.evaluate(prepared, encoder, variants, bars=self._bars(judged.name))
                self._print(report)
                reports.append(report)
        try:
            self._write(reports, encoder, options)
        except OSError as error:
            raise Invalid(f"写不了报告 / The report could not be written: {error}.") from error

    def _bars(self, name: str) -> evaluation_run.Bars:
        # Unwrapped: Django's wrapper would end each step of a bar with a new line.
        stderr = cast("TextIO", self.stderr._out)

        @contextmanager
        def bar(what: str, total: int) -> Iterator[Callable[[int], object]]:
            with tqdm(total=total, desc=f"{name}: {what}", file=stderr, disable=not total) as shown:
                yield shown.update

        return bar

    def _write(self, reports: list[SetReport], encoder: Encoder, options: dict[str, Any]) -> None:
        everything = {
            "model": encoder.model,
            "revision": encoder.revision,
            "first_chunks": options["first_chunks"],
            "depth": retrieval.DEPTH,
            "resamples": evaluation.RESAMPLES,
            "sets": [report.as_dict() for report in reports],
        }
        text = json.dumps(everything, ensure_ascii=False, indent=1)
        if options["json"]:
            options["json"].write_text(text, "utf-8")
        if options["export"]:
            for report in reports:
                evaluation_run.export(report.prepared, options["export"] / report.prepared.judged.name)
            (options["export"] / "report.json").write_text(text, "utf-8")

    def _print(self, report: SetReport) -> None:
        judged = report.prepared.judged
        left_out = f" ({judged.unjudged} without a relevant passage left out)" if judged.unjudged else ""
        self.stdout.write(
            f"\n{judged.name}: {len(judged.passages)} passages in {len(report.prepared.chunks)} chunks, "
            f"{len(judged.queries)} queries{left_out}"
        )
        heads = [*evaluation.METRICS, "p50 ms", "p95 ms"]
        width = max(_NAME, *(len(one.name) + 2 for one in report.rankings))
        self.stdout.write(" " * width + "".join(f"{head:>9}" for head in heads))
        for one in report.rankings:
            numbers = "".join(f"{value:>9.3f}" for value in evaluation.means(one.outcomes).values())
            times = "".join(f"{value:>9.1f}" for value in evaluation.latency(one.seconds).values())
            self.stdout.write(f"{one.name:<{width}}{numbers}{times}")
        for name, differences in report.differences.items():
            for found in differences:
                interval = f"{found.mean:+.3f} [{found.low:+.3f}, {found.high:+.3f}]"
                self.stdout.write(f"{name} against {found.against}, {found.metric}: {interval} {found.verdict}")


@contextmanager
def _interrupted_once() -> Iterator[None]:
    """Heed the first Ctrl-C only: a second one would cut short the dropping of the collection."""

    def interrupt(_signal: int, _frame: object) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        # After a first one this process is ending: no other is heeded until it has.
        if signal.getsignal(signal.SIGINT) is interrupt:
            signal.signal(signal.SIGINT, before)


def _check_writable(option: str, path: Path) -> None:
    """Raise Invalid unless `path` is a file that can be written, or can become one; it is left as it is."""
    folder = path.resolve().parent
    if not folder.is_dir():
        raise Invalid(f"{option}: there is no folder {folder}: make it first.")
    if path.is_dir():
        raise Invalid(f"{option}: {path} is a folder: name a file in it.")
    was_there = path.exists()
    try:
        path.open("a").close()
        if not was_there:
            path.unlink()
    except OSError as error:
        raise Invalid(f"{option}: {path} cannot be written ({error.strerror}): name another.") from error


def _make_folders(export: Path, names: list[str]) -> None:
    for folder in (export, *(export / name for name in names)):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except FileExistsError as error:
            raise Invalid(f"--export: {folder} is a file: name a folder.") from error
        except OSError as error:
            raise Invalid(f"--export: {folder} cannot be made ({error.strerror}): name another.") from error
    _check_writable("--export", export / "report.json")


def _variants(compared: list[str]) -> dict[str, KnowledgeSettings]:
    """Return name -> settings: those in force, or one for each of `compared`. Raises Invalid for what is no setting."""
    if not compared:
        return _in_force()
    if len(set(compared)) < 2:
        raise Invalid("--compare takes at least two different settings: fusion=rrf fusion=convex.")
    variants = {changes: _changed(changes) for changes in compared}
    alike: dict[tuple[str, float | None, str], str] = {}
    for name, config in variants.items():
        weight = config.dense_weight if config.fusion == "convex" else None
        other = alike.setdefault((config.fusion, weight, config.rerank), name)
        if other != name:
            raise Invalid(f"--compare: {other} and {name} order alike: name settings that differ.")
    return variants


def _in_force() -> dict[str, KnowledgeSettings]:
    config = _known(knowledge_settings())
    variants = {f"fused, {config.fusion}": config.model_copy(update={"rerank": ""})}
    return variants | ({f"reranked, {config.rerank}": config} if config.rerank else {})


def _changed(changes: str) -> KnowledgeSettings:
    values = dict(change.partition("=")[::2] for change in changes.split(","))
    idle = [name for name in values if name in KnowledgeSettings.model_fields and name not in _COMPARABLE]
    if idle:
        raise Invalid(
            f"--compare {changes}: {idle[0]} does not act on the order, so there is nothing to compare; the names are "
            f"{', '.join(_COMPARABLE)}."
        )
    try:
        return _known(KnowledgeSettings(**(knowledge_settings().model_dump() | values)))
    except ValidationError as error:
        problem = error.errors()[0]
        raise Invalid(
            f"--compare {changes}: {problem['loc'][0]}: {problem['msg']}. "
            f"Write NAME=VALUE, several joined by commas; the names are {', '.join(_COMPARABLE)}."
        ) from error


def _known(config: KnowledgeSettings) -> KnowledgeSettings:
    """Return `config`, whose reranker, if it names one, is made now. Raises Broken for one that is unknown."""
    if config.rerank:
        reranking.get_reranker(config.rerank)
    return config


def _why(failure: Failure) -> str:
    if failure.code != "MILVUS_UNAVAILABLE":
        return failure.message
    return f"{failure.message} ({settings.MILVUS_URL or settings.VAR_PATH / 'milvus.log'})"
