"""`manage.py evaluate_extraction FILE`: how well the chat model of the ZHIFU_CHAT_* settings reads customers' wishes.

What the shares mean is said in `memory/evaluation.py`.
"""

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import BaseCommand, CommandError

from memory import evaluation
from memory.evaluation import Report
from zhifu.demo_shop import ensure_demo_shop
from zhifu.errors import Failure


class Command(BaseCommand):
    help = "Read a file of labelled messages with the chat model, and say how much of it is right."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, help='one JSON object a line: {"text", "variety", "kind", "wishes"}')
        parser.add_argument("--limit", type=int, help="read only so many messages, from the first on")
        parser.add_argument("--json", type=Path, help="also write everything there, message by message")
        parser.add_argument("--workers", type=int, default=1, help="messages read at once (1)")

    def handle(self, *args: Any, file: Path, limit: int | None, workers: int, **options: Any) -> None:
        if workers < 1 or (limit is not None and limit < 1):
            raise CommandError("--workers and --limit are at least 1.")
        try:
            messages = evaluation.read_file(file)[:limit]
            report = evaluation.evaluate(
                messages,
                tenant_id=ensure_demo_shop().tenant.pk,
                workers=workers,
                progress=lambda done: self._progress(done, len(messages)),
            )
        except Failure as failure:
            raise CommandError(self._why(failure)) from failure
        self._print(report)
        if options["json"]:
            options["json"].write_text(json.dumps(report.as_dict(), ensure_ascii=False, indent=1), "utf-8")

    def _why(self, failure: Failure) -> str:
        if failure.code != "MODEL_UNAVAILABLE":
            return failure.message
        status = failure.details.get("status", "")
        where = settings.CHAT_BASE_URL or "no ZHIFU_CHAT_BASE_URL"
        return f"{failure.message} ({settings.CHAT_MODEL} at {where}{f', HTTP {status}' if status else ''})"

    def _progress(self, done: int, total: int) -> None:
        self.stderr.write(f"\r{done}/{total}", ending="\n" if done == total else "")
        self.stderr.flush()

    def _print(self, report: Report) -> None:
        spent = report.spent
        self.stdout.write(f"model     {settings.CHAT_MODEL}")
        self.stdout.write(f"messages  {len(report.readings)}, of which {len(report.read)} were read")
        for code, count in sorted(report.failures.items()):
            self.stdout.write(f"failed    {count} {code}")
        tokens = f"{spent.input_tokens} + {spent.output_tokens} tokens"
        self.stdout.write(f"spent     {spent.calls} calls, {tokens}, {report.seconds:.1f} s\n")
        self.stdout.write(
            f"{'':<26}{'wishes':>7}{'found':>7}{'right':>7}{'precision':>11}{'recall':>8}{'must-not':>18}"
        )
        for name, tally in report.tallies().items():
            wishes = f"{tally.labelled:>7}{tally.found:>7}{tally.right:>7}"
            empty = f"{tally.kept_empty} of {tally.empty}" if tally.empty else ""
            shares = f"{_share(tally.precision):>11}{_share(tally.recall):>8}{empty:>12}{_share(tally.must_not):>6}"
            self.stdout.write(f"{name:<26}{wishes}{shares}")
        for reading in report.broken:
            self.stdout.write(f"\nremembered {reading.found} of: {reading.message.text}")


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
