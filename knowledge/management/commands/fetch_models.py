"""`manage.py fetch_models [NAME ...]`: bring the weights of bge-m3 and its reranker to this machine, once."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from knowledge import bge
from knowledge.model_files import Snapshot
from zhifu.errors import Failure

_KNOWN = {snapshot.name: snapshot for snapshot in (bge.M3, bge.RERANKER)}


class Command(BaseCommand):
    help = (
        "Bring the weights of bge-m3 and bge-reranker-v2-m3 (2.3 GB each) into ZHIFU_MODELS_DIR, from the commit the "
        "product is made for, and compare each file with it. What is there already is left alone; run it again after "
        "an interruption. A machine without a network takes a copy of that folder."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(_KNOWN)}; none: both")
        parser.add_argument("--endpoint", help="a mirror of the hub, https://...")
        parser.add_argument("--check", action="store_true", help="only read what is there again, file by file")

    def handle(self, *, names: list[str], endpoint: str | None, check: bool, **_: Any) -> None:
        unknown = [name for name in names if name not in _KNOWN]
        if unknown:
            raise CommandError(f"Unknown: {', '.join(unknown)}. There are {', '.join(_KNOWN)}.")
        for name in names or _KNOWN:
            self.stdout.write(f"{name} @ {_KNOWN[name].commit}")
            try:
                self._one(_KNOWN[name], endpoint, check)
            except Failure as failure:
                raise CommandError(failure.message) from failure

    def _one(self, snapshot: Snapshot, endpoint: str | None, check: bool) -> None:
        if check:
            snapshot.check()
        else:
            self._hub().fetch(snapshot, endpoint=endpoint, say=lambda line: self.stdout.write(f"  {line}"))
        self.stdout.write(self.style.SUCCESS(f"  complete: {snapshot.folder}"))

    def _hub(self) -> Any:
        try:
            from knowledge import model_hub
        except ImportError as error:
            raise CommandError("huggingface_hub is not installed here: pip install -r requirements.txt") from error
        return model_hub
