"""What the machine is worth: with any one of memory's guards taken out, it finds a history that breaks a promise.

Our own functions are patched here, and only here: that is what is tested. Each guard is taken out so that its promise
does break; where two guards cover each other, both go.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from django.conf import settings
from django.core.cache import caches

import memory.queries
from agents.models import AgentRun
from memory import content, extracting, jobs, profiles, recalling, services, store
from memory.communication import Communication
from memory.models import MemoryJob, MemoryProfile, PendingErasure
from memory.queries import Snapshot
from memory.recalling import Recollection
from tests.memory import machine
from tests.memory.machine import MemoryMachine, PromiseBroken
from zhifu import faults

pytestmark = [pytest.mark.django_db, pytest.mark.faults]

Patch = pytest.MonkeyPatch


class _Anything:
    """Equal to every snapshot."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


def _epochs_are_not_compared(patch: Patch) -> None:
    # At the claim. At the commit the revision would tell as well: see the next one.
    patch.setattr(jobs, "is_of_this_epoch", lambda profile, job: profile.consent)


def _commits_do_not_look_at_the_profile(patch: Patch) -> None:
    # Epoch and revision cover each other here: every decision moves both.
    patch.setattr(extracting, "is_as_claimed", lambda profile, job: True)


def _stalled_workers_go_on(patch: Patch) -> None:
    # The lease is looked at under the lock and again by the UPDATE that ends the job.
    def write(job: MemoryJob, **values: Any) -> None:
        MemoryJob.objects.filter(pk=job.pk).update(**values)

    patch.setattr(jobs, "holds", lambda job, lease_token: True)
    patch.setattr(MemoryJob, "_update_held", write)


def _erasing_leaves_no_tombstone(patch: Patch) -> None:
    def erase(key: str) -> None:
        with store._translated():
            caches["memory"].delete(key)

    patch.setattr(store, "erase", erase)


def _writing_replaces_a_tombstone(patch: Patch) -> None:
    def write(key: str, values: Mapping[str, str], *_: Any) -> bool:
        with store._translated():
            caches["memory"].set(key, json.dumps(dict(values)), settings.MEMORY_STORED.total_seconds())
        return True

    patch.setattr(store, "write", write)


def _content_is_written_without_a_record(patch: Patch) -> None:
    def stage(profile: MemoryProfile, epoch: int, wanted: Communication, *_: Any) -> str:
        key = store.new_key(profile.tenant_id, profile.customer_id, epoch)
        faults.point("memory.before_write")
        store.write(key, wanted.stored())
        faults.point("memory.after_write")
        return key

    patch.setattr(content, "stage", stage)
    _adopting_does_not_look(patch)


def _adopting_does_not_look(patch: Patch) -> None:
    def adopt(profile: MemoryProfile, key: str, now: datetime) -> None:
        PendingErasure.objects.filter(key=key).delete()
        content.let_go(profile)
        profile.value_key = key
        profile.value_expires_at = now + settings.MEMORY_READABLE

    patch.setattr(content, "adopt", adopt)


def _what_is_let_go_is_not_doomed(patch: Patch) -> None:
    def let_go(profile: MemoryProfile) -> None:
        profile.value_key = ""
        profile.value_expires_at = None

    patch.setattr(content, "let_go", let_go)


def _a_scan_finds_nothing(patch: Patch) -> None:
    patch.setattr(content, "orphans_among", lambda keys: [])


def _older_messages_count_too(patch: Patch) -> None:
    patch.setattr(extracting, "_is_older", lambda job, origin: False)


def _origins_outlive_a_clear(patch: Patch) -> None:
    def forget(profile: MemoryProfile) -> None:
        content.let_go(profile)
        profiles.begin_epoch(profile)

    patch.setattr(services, "_forget", forget)


def _answers_are_committed_whatever_moved(patch: Patch) -> None:
    # The check under the lock alone; the ones before it are only there to stop early.
    patch.setattr(memory.queries, "lock_snapshot", lambda customer_id: _Anything())


def _what_a_run_recalls_counts_as_what_it_began_with(patch: Patch) -> None:
    # Without consent the snapshot is None before and after: the checks see no difference.
    recall = recalling.recall

    def unnoticed(customer_id: int, run_id: int | None = None) -> Recollection:
        known = recall(customer_id, run_id)
        run = AgentRun.objects.filter(pk=run_id).first()
        if run is None or not run.messages:
            return known
        return replace(known, snapshot=Snapshot.from_dict(run.memory_snapshot))

    patch.setattr(recalling, "recall", unnoticed)


def _what_moves_while_it_is_read_is_not_read_again(patch: Patch) -> None:
    patch.setattr(recalling, "_stands", lambda found, run_id: True)


def _what_was_erased_while_it_was_read_counts_as_lost(patch: Patch) -> None:
    patch.setattr(recalling, "_note_loss", lambda seen, run_id: True)


def _expired_content_is_read(patch: Patch) -> None:
    patch.setattr(recalling, "is_readable", lambda profile, now: bool(profile.consent and profile.value_key))


def _a_store_that_is_away_counts_as_empty(patch: Patch) -> None:
    def read(profile: MemoryProfile) -> Communication:
        try:
            return Communication.from_stored(store.read(profile.value_key))
        except store.MemoryUnavailable:
            return Communication()

    patch.setattr(recalling, "read_content", read)


_EPOCH = "a job of an older epoch never ends COMPLETED"
_SETTLED = "a settled job never changes"
_OUTCOME = "a completed job says what it did"
_READ = "what is read is what may be"
_READABLE = "memory can be read"
_TOLD = "a prompt says what may be read"
_MOVED = "memory moves only with what happened"
_ORIGINS = "origins are those of this epoch's newest"
_KNOWN = "content is pointed to or pending"
_LEFT = "at rest only what is pointed to is left"
_ANSWER = "an answer is committed under the memory it was written with"
_ASKED = "nothing is asked with a memory that has moved"
_AWAY = "content that cannot be read is not passed off as none"

# Each with the promises of which one breaks first.
MUTATIONS: list[tuple[Callable[[Patch], None], tuple[str, ...]]] = [
    (_epochs_are_not_compared, (_EPOCH,)),
    (_commits_do_not_look_at_the_profile, (_EPOCH,)),
    (_stalled_workers_go_on, (_SETTLED, _MOVED, _READ, _ORIGINS)),
    (_erasing_leaves_no_tombstone, (_KNOWN,)),
    (_writing_replaces_a_tombstone, (_KNOWN,)),
    (_content_is_written_without_a_record, (_KNOWN,)),
    (_adopting_does_not_look, (_READABLE,)),
    (_what_is_let_go_is_not_doomed, (_KNOWN,)),
    (_a_scan_finds_nothing, (_KNOWN, _LEFT)),
    (_older_messages_count_too, (_READ, _OUTCOME, _ORIGINS)),
    (_origins_outlive_a_clear, (_ORIGINS,)),
    (_answers_are_committed_whatever_moved, (_ANSWER,)),
    (_what_a_run_recalls_counts_as_what_it_began_with, (_ASKED,)),
    (_what_moves_while_it_is_read_is_not_read_again, (_READ, _READABLE, _TOLD, _MOVED)),
    (_what_was_erased_while_it_was_read_counts_as_lost, (_READABLE,)),
    (_expired_content_is_read, (_READ, _READABLE, _TOLD)),
    (_a_store_that_is_away_counts_as_empty, (_AWAY,)),
]

# Found within seconds: these show in every run of the suite that the machine finds anything.
FOUND_SOON = (_older_messages_count_too, _origins_outlive_a_clear, _content_is_written_without_a_record)


@pytest.mark.parametrize(
    ("mutate", "promises"),
    [
        pytest.param(*mutation, id=mutation[0].__name__, marks=() if mutation[0] in FOUND_SOON else pytest.mark.deep)
        for mutation in MUTATIONS
    ],
)
def test_without_a_guard_the_machine_breaks_its_promise(
    monkeypatch: Patch, mutate: Callable[[Patch], None], promises: tuple[str, ...]
) -> None:
    mutate(monkeypatch)
    with pytest.raises(PromiseBroken) as broken:
        machine.search(MemoryMachine, histories=20, steps=30)
    assert str(broken.value).startswith(promises)
