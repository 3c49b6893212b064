"""`manage.py evaluate_retrieval FOLDER ...`: how well search finds what was judged, each leg alone and both together.

What the numbers mean is said in `knowledge/evaluation.py`, what a folder holds in `knowledge/evaluation_sets.py`.
"""

import json
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
from knowledge import evaluation, evaluation_cache, evaluation_run, evaluation_sets
from knowledge.encoders import Encoder, get_encoder
from knowledge.evaluation_run import SetReport
from zhifu.errors import Failure, Invalid

_NAME = 28


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
            self._handle(folders, options)
        except Failure as failure:
            raise CommandError(_why(failure)) from failure

    def _handle(self, folders: list[Path], options: dict[str, Any]) -> None:
        # Everything that can be wrong with what was asked for, before what takes minutes.
        if options["limit"] is not None and options["limit"] < 1:
            raise Invalid("--limit is at least 1.")
        if options["json"] and not options["json"].resolve().parent.is_dir():
            raise Invalid(f"--json: there is no folder {options['json'].resolve().parent}: make it first.")
        variants = _variants(options["compare"])
        encoder = get_encoder(options["encoder"])
        sets = [evaluation_sets.read_folder(folder).limited(options["limit"]) for folder in folders]
        if len({one.name for one in sets}) < len(sets):
            raise Invalid("Two folders have the same name, and a report knows sets by name: rename one.")
        cache = options["cache"] or settings.VAR_PATH / "embeddings" / f"{encoder.model}-{encoder.revision}.sqlite3"
        reports = []
        with evaluation_cache.opened(cache, encoder.dimension) as vectors:
            for judged in sets:
                prepared = evaluation_run.prepare(
                    judged, encoder, vectors, first_chunks=options["first_chunks"], bars=self._bars(judged.name)
                )
                report = evaluation_run.evaluate(prepared, encoder, variants, bars=self._bars(judged.name))
                self._print(report)
                reports.append(report)
        self._write(reports, encoder, options)

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
            "depth": evaluation_run.DEPTH,
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


def _variants(compared: list[str]) -> dict[str, KnowledgeSettings]:
    """Return name -> settings: those in force, or one for each of `compared`. Raises Invalid for what is no setting."""
    if not compared:
        return _in_force()
    if len(set(compared)) < 2:
        raise Invalid("--compare takes at least two different settings: fusion=rrf fusion=convex.")
    return {changes: _changed(changes) for changes in compared}


def _in_force() -> dict[str, KnowledgeSettings]:
    config = _known(knowledge_settings())
    variants = {f"fused, {config.fusion}": config.model_copy(update={"rerank": ""})}
    return variants | ({f"reranked, {config.rerank}": config} if config.rerank else {})


def _changed(changes: str) -> KnowledgeSettings:
    values = dict(change.partition("=")[::2] for change in changes.split(","))
    try:
        return _known(KnowledgeSettings(**(knowledge_settings().model_dump() | values)))
    except ValidationError as error:
        problem = error.errors()[0]
        known = ", ".join(KnowledgeSettings.model_fields)
        raise Invalid(
            f"--compare {changes}: {problem['loc'][0]}: {problem['msg']}. "
            f"Write NAME=VALUE, several joined by commas; the names are {known}."
        ) from error


def _known(config: KnowledgeSettings) -> KnowledgeSettings:
    if config.rerank and config.rerank not in settings.RERANKERS:
        raise Invalid(f"没有名为 {config.rerank} 的重排模型 / This installation has no reranker {config.rerank}.")
    return config


def _why(failure: Failure) -> str:
    if failure.code != "MILVUS_UNAVAILABLE":
        return failure.message
    return f"{failure.message} ({settings.MILVUS_URL or settings.VAR_PATH / 'milvus.log'})"
