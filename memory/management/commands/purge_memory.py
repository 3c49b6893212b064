"""`manage.py purge_memory`: take back what should not have been remembered, and compare the store with MySQL."""

from argparse import ArgumentParser
from collections import Counter
from datetime import datetime
from typing import Any
from uuid import UUID

from django.core.management import BaseCommand, CommandError

from memory import content, purging, queries, store, verifying
from memory.models import MemoryJob
from memory.purging import Purge, Selection
from zhifu.errors import Failure
from zhifu.models import Tenant

# Customers between two lines that say how far it is.
_PROGRESS = 100
# What may go wrong without anything being wrong here.
_EXPECTED = {verifying.Kind.GONE}


class Command(BaseCommand):
    help = (
        "Take out of customers' memory what came from a job, from the message a run answered, was said since a moment, "
        "or is of a tenant; selectors narrow each other. Without one: erase what is pending and what nobody answers "
        "for. With --verify: compare the store with MySQL and change nothing. Exit 1 when something is left to do."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--job", metavar="JOB", help="what this memory job stored (UUID or id)")
        parser.add_argument("--run", metavar="RUN", help="what came from the message this run answered (UUID or id)")
        parser.add_argument("--since", metavar="MOMENT", help="said at or after, as 2026-11-30T08:00:00+08:00")
        parser.add_argument("--tenant", metavar="TENANT", help="of this tenant (UUID or id); alone: everything of it")
        parser.add_argument("--dry-run", action="store_true", help="say what would go, and change nothing")
        parser.add_argument("--verify", action="store_true", help="compare the store with MySQL, and change nothing")
        parser.add_argument("--show", type=int, default=20, help="rows to print (20)")

    def handle(self, *args: Any, show: int, **options: Any) -> None:
        selection = _selection(options)
        if options["verify"] and (selection is not None or options["dry_run"]):
            raise CommandError("--verify stands alone: it compares everything and changes nothing.")
        try:
            if options["verify"]:
                self._verify(show)
            elif options["dry_run"]:
                self._say_what_would_go(selection, show)
            elif selection is not None:
                self._purge(selection)
            else:
                self._erase()
        except store.MemoryUnavailable as failure:
            raise CommandError(f"The memory store does not answer: {failure.message}") from failure

    def _purge(self, selection: Selection) -> None:
        count, purged = selection.profiles().count(), 0
        for looked_at, profile in enumerate(purging.selected(selection), start=1):
            try:
                purged += purging.purge(profile.pk, selection)
            except Failure as failure:
                done = f"{purged} of {count} customers are purged, the others are as they were"
                raise CommandError(f"{done}; run the same command again to go on. {failure.message}") from failure
            if looked_at % _PROGRESS == 0:
                self._say(f"{looked_at} of {count} customers")
        self._say(f"Purged the memory of {purged} customers.")
        self._erase_pending()

    def _erase(self) -> None:
        self._erase_pending()
        self._say(f"Erased {content.erase_orphans()} contents that no row answered for.")

    def _erase_pending(self) -> None:
        self._say(f"Erased {content.erase_pending()} pending keys.")
        if left := purging.waiting():
            raise CommandError(
                f"The memory store does not answer: {left} keys are still to be erased. Nobody can read them; the "
                "sweeper erases them when it answers, or run this command again."
            )

    def _say_what_would_go(self, selection: Selection | None, show: int) -> None:
        if selection is None:
            orphans = sum(1 for _ in verifying.unanswered())
            self._say(f"Would erase {purging.waiting()} pending keys and {orphans} contents that no row answers for.")
            return
        customers, values = 0, 0
        for profile in purging.selected(selection):
            wanted = purging.plan(profile, selection)
            if customers < show:
                self._say(_in_words(wanted))
            customers, values = customers + 1, values + len(wanted.gone)
        if customers > show:
            self._say(f"and {customers - show} more customers (--show)")
        self._say(f"Would purge {values} values of {customers} customers.")

    def _verify(self, show: int) -> None:
        counts: Counter[verifying.Kind] = Counter()
        for difference in verifying.differences():
            counts[difference.kind] += 1
            if counts[difference.kind] <= show:
                self._say(f"{difference.kind}: {difference.where}")
        for kind in verifying.Kind:
            self._say(f"{kind:<45} {counts[kind]:>7}")
        if wrong := sum(count for kind, count in counts.items() if kind not in _EXPECTED):
            raise CommandError(
                f"{wrong} differences. Without options this command erases what no row answers for and what is overdue."
            )
        self._say("The store and the database agree.")

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()


def _in_words(wanted: Purge) -> str:
    going = ", ".join(sorted(wanted.gone)) or "content that nothing explains"
    stays = f"; {', '.join(sorted(wanted.staying))} stays" if wanted.staying else ""
    return f"customer {wanted.profile.customer.public_id}: {going} goes{stays}"


def _selection(options: dict[str, Any]) -> Selection | None:
    """Return what the options select, None when they select nothing. Raises CommandError for what does not exist."""
    named = {name: options[name] for name in ("job", "run", "since", "tenant") if options[name] is not None}
    if not named:
        return None
    return Selection(
        job_id=_job(named["job"]) if "job" in named else None,
        message_id=_question(named["run"]) if "run" in named else None,
        since=_moment(named["since"]) if "since" in named else None,
        tenant_id=_tenant(named["tenant"]) if "tenant" in named else None,
    )


def _job(text: str) -> int:
    job: MemoryJob | None = MemoryJob.objects.filter(**_by_name("job", text)).first()
    if job is None:
        raise CommandError(f"There is no memory job {text}.")
    _refuse_open(job)
    return job.pk


def _question(text: str) -> int:
    message_id = queries.question_of_run(_name("run", text))
    if message_id is None:
        raise CommandError(f"There is no run {text}.")
    for job in MemoryJob.objects.filter(message_id=message_id):
        _refuse_open(job)
    return message_id


def _refuse_open(job: MemoryJob) -> None:
    if job.is_open:
        raise CommandError(
            f"Memory job {job.pk} is {job.status}: it has stored nothing yet, and still may. Run this again when it "
            "has ended."
        )


def _tenant(text: str) -> int:
    tenant: Tenant | None = Tenant.objects.filter(**_by_name("tenant", text)).first()
    if tenant is None:
        raise CommandError(f"There is no tenant {text}.")
    return tenant.pk


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise CommandError(f"--since takes a moment such as 2026-11-30T08:00:00+08:00, not {text}.") from error
    if moment.tzinfo is None:
        raise CommandError(f"--since {text} does not say in which time zone: 2026-11-30T08:00:00+08:00, or ...Z.")
    return moment


def _by_name(option: str, text: str) -> dict[str, Any]:
    name = _name(option, text)
    return {"public_id" if isinstance(name, UUID) else "pk": name}


def _name(option: str, text: str) -> UUID | int:
    """Return what a person typed as the id or UUID of a row."""
    try:
        return int(text) if text.isdecimal() else UUID(text)
    except ValueError as error:
        raise CommandError(f"--{option} takes a UUID or an id, not {text}.") from error
