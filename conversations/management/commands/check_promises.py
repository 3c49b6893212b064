"""`manage.py check_promises`: the promises as queries over database, memory store and Milvus; exit 1 on a violation."""

from argparse import ArgumentParser
from itertools import islice
from typing import Any

from django.core.management import BaseCommand, CommandError

from conversations import promises
from conversations.violations import Check
from zhifu.errors import Failure


class Command(BaseCommand):
    help = "Check the promises P1 to P4, P6 and P7 on what is stored; exit 1 when one is broken."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--show", type=int, default=10, help="violations to print per check (10)")

    def handle(self, *args: Any, show: int, **options: Any) -> None:
        broken = [check.promise for check in promises.CHECKS if not self._is_kept(check, show)]
        if broken:
            raise CommandError(f"Broken: {', '.join(sorted(set(broken)))}.", returncode=1)
        self.stdout.write("All promises are kept.")

    def _is_kept(self, check: Check, show: int) -> bool:
        try:
            violations = check.find()
            first = list(islice(violations, show))
            more = sum(1 for _violation in violations)
        except Failure as failure:
            self._say(check, f"cannot be checked: {failure.message}")
            return False
        self._say(check, f"{len(first) + more} violations" if first else "kept")
        for violation in first:
            self.stdout.write(f"      {violation.row}: {violation.what}")
        if more:
            self.stdout.write(f"      and {more} more (--show)")
        return not first

    def _say(self, check: Check, verdict: str) -> None:
        self.stdout.write(f"{check.promise}  {check.question:<55} {verdict}")
        self.stdout.flush()
