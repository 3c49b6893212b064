"""`manage.py purge_memory`: what goes and what stays, by where it came from; and whether store and MySQL agree."""

import random
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from agents.models import AgentRun
from memory import content, purging, store
from memory.communication import FIELDS, Communication
from memory.models import EventKind, FieldOrigin, MemoryEvent, MemoryJob, MemoryProfile, PendingErasure
from tests.admin.estate import page, sign_in
from tests.conversations import talking
from tests.factories import Shop, make_customer
from tests.memory import outages, remembering
from tests.model_server import ModelServer
from tests.model_shapes import wishes
from zhifu import batches, faults
from zhifu.jobs import JobStatus
from zhifu.models import AuditEvent
from zhifu.transactions import database_now

CONCISE = wishes(response_style="concise", response_style_evidence="请用简洁的方式回复")
ENGLISH = wishes(language="en", language_evidence="请用英文回答")
NOBODY = "00000000-0000-4000-8000-000000000000"
WISH, SECOND_WISH = "以后请用简洁的方式回复", "以后请用英文回答"


def purge(*options: str) -> str:
    """Run the command and return what it said."""
    said = StringIO()
    call_command("purge_memory", *options, stdout=said)
    return said.getvalue()


def refused(*options: str) -> str:
    """Run the command, which must end with exit 1, and return why."""
    with pytest.raises(CommandError) as refusal:
        purge(*options)
    assert refusal.value.returncode == 1
    return str(refusal.value)


def learn_both(shop: Shop, model_server: ModelServer) -> tuple[MemoryJob, MemoryJob]:
    """Have a style learnt, then a language; return the jobs."""
    remembering.consent(shop)
    model_server.wish(CONCISE, ENGLISH)
    return remembering.learn(shop, WISH), remembering.learn(shop, SECOND_WISH)


def run_of(job: MemoryJob) -> AgentRun:
    return AgentRun.objects.get(trigger=job.message_id)


def state(shop: Shop) -> list[Any]:
    """Return everything that a purge could change."""
    rows = [MemoryProfile, FieldOrigin, MemoryEvent, MemoryJob, PendingErasure, AuditEvent]
    return [*[list(model.objects.order_by("pk").values()) for model in rows], remembering.keys_with_content()]


@pytest.mark.parametrize("name", ["pk", "public_id"])
@pytest.mark.parametrize("option", ["--job", "--run"])
def test_what_a_job_or_run_brought_goes_and_the_rest_stays_with_its_origin(
    shop: Shop, model_server: ModelServer, option: str, name: str
) -> None:
    style, language = learn_both(shop, model_server)
    before = remembering.read(shop)
    key = remembering.profile_of(shop).value_key
    row = style if option == "--job" else run_of(style)
    assert "Purged the memory of 1 customers." in purge(option, str(getattr(row, name)))
    after = remembering.read(shop)
    assert after["communication"] == remembering.NOTHING | {"language": "en"}
    assert after["origins"] == [origin for origin in before["origins"] if origin["field"] == "language"]
    assert after["origins"][0]["job_id"] == str(language.public_id)
    assert (after["epoch"], after["revision"]) == (before["epoch"] + 1, before["revision"] + 1)
    assert remembering.keys_of(shop) == {remembering.profile_of(shop).value_key} != {key}


def test_a_run_that_only_repeats_the_question_selects_it_too(shop: Shop, model_server: ModelServer) -> None:
    style, _ = learn_both(shop, model_server)
    first = run_of(style)
    again = AgentRun.objects.create(
        **{name: getattr(first, name) for name in ("tenant", "store", "customer", "conversation", "trigger")},
        retry_of=first,
    )
    purge("--run", str(again.public_id))
    assert remembering.remembered(shop) == {"language": "en"}


def test_the_history_and_the_trail_say_that_the_platform_did_it_and_name_the_fields(
    shop: Shop, model_server: ModelServer
) -> None:
    style, _ = learn_both(shop, model_server)
    purge("--job", str(style.pk))
    newest = remembering.history(shop)[0]
    assert (newest["kind"], newest["by"], newest["fields"]) == ("PURGED", "platform", ["response_style"])
    assert newest["job_id"] is None
    trail = AuditEvent.objects.get(action="memory.purge")
    profile = remembering.profile_of(shop)
    assert (trail.tenant_id, trail.actor_kind, trail.outcome) == (shop.tenant.pk, "platform", "OK")
    assert (trail.object_id, trail.data) == (str(profile.pk), {"fields": ["response_style"]})
    shown = sign_in(shop.member).get(page(profile)).content.decode()
    assert "平台清除" in shown


def test_when_nothing_is_left_everything_goes_and_no_key_remains(shop: Shop, model_server: ModelServer) -> None:
    remembering.consent(shop)
    model_server.wish(CONCISE)
    job = remembering.learn(shop, WISH)
    purge("--job", str(job.pk))
    profile = remembering.profile_of(shop)
    assert (profile.value_key, profile.value_expires_at, profile.consent) == ("", None, True)
    assert not profile.origins.exists()
    assert remembering.keys_of(shop) == set()
    assert not PendingErasure.objects.exists()


def test_what_customers_set_themselves_is_no_job_and_no_run(shop: Shop, model_server: ModelServer) -> None:
    style, _ = learn_both(shop, model_server)
    remembering.change(shop, response_style="detailed", contact_channel="phone")
    for options in (("--job", str(style.pk)), ("--run", str(run_of(style).pk))):
        assert "Purged the memory of 0 customers." in purge(*options)
    assert set(remembering.remembered(shop)) == set(FIELDS)
    assert MemoryEvent.objects.filter(kind=EventKind.PURGED).count() == 0
    purge("--since", (database_now() - timedelta(hours=1)).isoformat())
    assert remembering.remembered(shop) == {}


def test_a_moment_selects_what_was_said_at_it_or_after(shop: Shop, model_server: ModelServer) -> None:
    style, language = learn_both(shop, model_server)
    moment = language.message.committed_at
    assert style.message.committed_at < moment
    assert "of 0 customers" in purge("--since", (moment + timedelta(microseconds=1)).isoformat())
    purge("--since", moment.isoformat())
    assert remembering.remembered(shop) == {"response_style": "concise"}


def test_selectors_narrow_each_other(shop: Shop, other_shop: Shop, model_server: ModelServer) -> None:
    style, language = learn_both(shop, model_server)
    later = language.message.committed_at.isoformat()
    for options in (
        ("--job", str(style.pk), "--since", later),
        ("--job", str(style.pk), "--run", str(run_of(language).pk)),
        ("--job", str(style.pk), "--tenant", str(other_shop.tenant.pk)),
    ):
        assert "of 0 customers" in purge(*options)
    assert remembering.remembered(shop) == {"response_style": "concise", "language": "en"}
    purge("--since", later, "--tenant", str(shop.tenant.public_id))
    assert remembering.remembered(shop) == {"response_style": "concise"}


@pytest.mark.parametrize("options", [[], ["--since", "2020-01-01T00:00:00Z"]])
def test_a_tenant_is_purged_and_the_other_is_untouched(shop: Shop, other_shop: Shop, options: list[str]) -> None:
    for each in (shop, other_shop):
        remembering.consent(each)
        remembering.change(each, language="ja", contact_channel="sms")
    theirs, their_keys = remembering.read(other_shop), remembering.keys_of(other_shop)
    purge("--tenant", str(shop.tenant.pk), *options)
    assert (remembering.remembered(shop), remembering.keys_of(shop)) == ({}, set())
    assert (remembering.read(other_shop), remembering.keys_of(other_shop)) == (theirs, their_keys)


def test_a_tenant_goes_whole_even_where_no_origin_explains_its_content(shop: Shop) -> None:
    remembering.consent(shop)
    remembering.change(shop, language="ja")
    FieldOrigin.objects.all().delete()
    purge("--tenant", str(shop.tenant.pk))
    assert remembering.profile_of(shop).value_key == ""
    assert remembering.keys_of(shop) == set()


def test_a_tenant_that_is_purged_learns_nothing_from_what_was_said_before(
    shop: Shop, other_shop: Shop, model_server: ModelServer
) -> None:
    remembering.consent(shop)
    remembering.consent(other_shop)
    model_server.wish(ENGLISH, ENGLISH)
    waiting, foreign = remembering.hear(shop, SECOND_WISH), remembering.hear(other_shop, SECOND_WISH)
    assert "1 customers" in purge("--tenant", str(shop.tenant.pk))
    assert remembering.work(waiting).status == JobStatus.CANCELLED
    assert remembering.work(foreign).status == JobStatus.COMPLETED
    assert remembering.remembered(shop) == {}
    assert remembering.remembered(other_shop) == {"language": "en"}
    assert "0 customers" in purge("--tenant", str(shop.tenant.pk))


def test_a_dry_run_says_what_would_go_and_changes_nothing(shop: Shop, model_server: ModelServer) -> None:
    style, _ = learn_both(shop, model_server)
    before = state(shop)
    said = purge("--job", str(style.pk), "--dry-run")
    assert f"customer {shop.customer.public_id}: response_style goes; language stays" in said
    assert "Would purge 1 values of 1 customers." in said
    assert "Would purge 2 values of 1 customers." in purge("--tenant", str(shop.tenant.pk), "--dry-run")
    assert state(shop) == before
    purge("--job", str(style.pk))
    assert state(shop) != before


def test_a_purge_ends_the_extraction_that_is_under_way(shop: Shop, model_server: ModelServer) -> None:
    style, _ = learn_both(shop, model_server)
    model_server.wish(wishes(contact_channel="sms", contact_channel_evidence="请用短信联系我"))
    job = remembering.hear(shop, "以后请用短信联系我")
    with faults.at("memory.after_model", lambda: purge("--job", str(style.pk))):
        remembering.work(job)
    assert (job.status, job.error_code) == (JobStatus.CANCELLED, "EPOCH_ENDED")
    assert remembering.remembered(shop) == {"language": "en"}
    talking.assert_promises_kept()


def test_a_purge_has_the_answer_under_way_asked_afresh(shop: Shop, model_server: ModelServer) -> None:
    style, _ = learn_both(shop, model_server)
    conversation = talking.begin(shop)
    talking.say(shop, conversation, "键盘怎么清洁？")
    (run,) = talking.runs(conversation)
    with faults.at("agents.before_commit", lambda: purge("--job", str(style.pk))):
        talking.work(conversation)
    first, fresh = talking.runs(conversation)
    assert (first.pk, first.status, first.error_code) == (run.pk, JobStatus.FAILED, "MEMORY_CHANGED")
    assert fresh.status == JobStatus.COMPLETED
    old, new = [prompt for prompt in remembering.prompts_of(model_server.requests) if "回复形式 Reply form" in prompt][
        -2:
    ]
    assert "response_style: concise" in old
    assert "response_style" not in new
    assert "language: en" in new
    talking.assert_promises_kept()


def test_the_message_that_was_purged_is_not_read_again(shop: Shop, model_server: ModelServer) -> None:
    style, _ = learn_both(shop, model_server)
    purge("--job", str(style.pk))
    asked = len(model_server.requests)
    assert remembering.work(style).status == JobStatus.COMPLETED
    assert len(model_server.requests) == asked
    assert remembering.remembered(shop) == {"language": "en"}


def test_what_stays_is_kept_no_longer_than_it_would_have_been(shop: Shop, model_server: ModelServer) -> None:
    style, _ = learn_both(shop, model_server)
    expires = database_now() + timedelta(days=2)
    MemoryProfile.objects.update(value_expires_at=expires)
    purge("--job", str(style.pk))
    profile = remembering.profile_of(shop)
    assert profile.value_expires_at == expires
    left = outages.raw().ttl(outages.full(profile.value_key))
    assert timedelta(days=2) < timedelta(seconds=left) <= timedelta(days=3)


@pytest.mark.parametrize("how", ["lost", "expired", "faded"])
def test_what_cannot_be_kept_goes_too(shop: Shop, model_server: ModelServer, how: str) -> None:
    style, language = learn_both(shop, model_server)
    key = remembering.profile_of(shop).value_key
    if how == "lost":
        outages.lose(key)
    elif how == "expired":
        MemoryProfile.objects.update(value_expires_at=database_now() - timedelta(seconds=1))
    else:
        FieldOrigin.objects.filter(job=language).update(stated_at=database_now() - timedelta(days=80))
    purge("--job", str(style.pk))
    profile = remembering.profile_of(shop)
    assert profile.value_key == ""
    assert not profile.origins.exists()
    assert remembering.history(shop)[0]["fields"] == ["language", "response_style"]
    assert remembering.keys_of(shop) == set()


def test_with_the_store_down_nothing_is_half_done_and_the_command_can_be_run_again(
    shop: Shop, model_server: ModelServer
) -> None:
    style, _ = learn_both(shop, model_server)
    before = remembering.read(shop)
    with outages.away():
        why = refused("--job", str(style.pk))
    assert why.startswith("0 of 1 customers are purged, the others are as they were; run the same command again")
    assert remembering.read(shop) == before
    assert AuditEvent.objects.get(action="memory.purge").code == "MEMORY_UNAVAILABLE"
    purge("--job", str(style.pk))
    assert remembering.remembered(shop) == {"language": "en"}
    remembering.let_staging_expire()
    purge()
    assert remembering.keys_of(shop) == {remembering.profile_of(shop).value_key}
    assert not PendingErasure.objects.exists()


def test_what_goes_whole_needs_no_store_and_is_erased_when_it_is_back(shop: Shop) -> None:
    remembering.consent(shop)
    remembering.change(shop, language="ja")
    with outages.away():
        why = refused("--tenant", str(shop.tenant.pk))
        assert "1 keys are still to be erased" in why
        assert remembering.remembered(shop) == {}
    assert len(remembering.keys_of(shop)) == 1
    assert "Erased 1 pending keys." in purge()
    assert remembering.keys_of(shop) == set()


def test_a_memory_that_changes_under_the_purge_is_looked_at_again(shop: Shop, model_server: ModelServer) -> None:
    style, _ = learn_both(shop, model_server)
    moves = iter([lambda: remembering.change(shop, contact_channel="sms")])

    def move_once() -> None:
        for move in moves:
            move()

    with faults.at("memory.after_write", move_once):
        purge("--job", str(style.pk))
    assert remembering.remembered(shop) == {"language": "en", "contact_channel": "sms"}
    remembering.sweep()
    assert remembering.keys_of(shop) == {remembering.profile_of(shop).value_key}


def test_a_memory_that_never_rests_is_left_as_it_is_and_said_so(shop: Shop, model_server: ModelServer) -> None:
    style, _ = learn_both(shop, model_server)
    profile = MemoryProfile.objects.filter(customer=shop.customer)
    with faults.at("memory.after_write", lambda: profile.update(revision=profile.get().revision + 1)):
        why = refused("--job", str(style.pk))
    assert "keeps changing" in why
    assert remembering.remembered(shop) == {"response_style": "concise", "language": "en"}


def test_a_purge_goes_through_many_customers_in_batches_and_says_how_far_it_is(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "BATCH", 7)
    for number in range(205):
        profile = make_customer(shop.tenant, f"many {number}").memory_profile
        MemoryProfile.objects.filter(pk=profile.pk).update(consent=True, value_key=f"{shop.tenant.pk}:1:0:{number}")
        FieldOrigin.objects.create(
            profile=profile, field="language", source="user", confidence=1.0, stated_at=database_now()
        )
    said = purge("--tenant", str(shop.tenant.pk))
    assert [line for line in said.splitlines() if "customers" in line] == [
        "100 of 205 customers",
        "200 of 205 customers",
        "Purged the memory of 205 customers.",
    ]
    assert not MemoryProfile.objects.exclude(value_key="").exists()
    assert MemoryEvent.objects.filter(kind=EventKind.PURGED).count() == 205


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--job", "abc"], "--job takes a UUID or an id"),
        (["--run", "12-34"], "--run takes a UUID or an id"),
        (["--job", "987654321"], "There is no memory job"),
        (["--job", NOBODY], "There is no memory job"),
        (["--run", NOBODY], "There is no run"),
        (["--run", "987654321"], "There is no run"),
        (["--tenant", NOBODY], "There is no tenant"),
        (["--tenant", ""], "--tenant takes a UUID or an id"),
        (["--since", "yesterday"], "--since takes a moment"),
        (["--since", "2026-11-30T08:00:00"], "does not say in which time zone"),
        (["--since", "2026-11-30"], "does not say in which time zone"),
        (["--verify", "--dry-run"], "--verify stands alone"),
        (["--verify", "--since", "2026-11-30T08:00:00Z"], "--verify stands alone"),
    ],
)
def test_what_cannot_be_meant_is_refused_and_changes_nothing(shop: Shop, options: list[str], why: str) -> None:
    remembering.consent(shop)
    remembering.change(shop, language="ja")
    before = state(shop)
    assert why in refused(*options)
    assert state(shop) == before


def test_a_job_that_has_not_ended_is_refused(shop: Shop) -> None:
    remembering.consent(shop)
    job = remembering.hear(shop, WISH)
    assert "it has stored nothing yet" in refused("--job", str(job.pk))
    assert "it has stored nothing yet" in refused("--run", str(run_of(job).pk))


def test_no_selection_is_ever_everything() -> None:
    with pytest.raises(ValueError, match="everything"):
        purging.Selection()


# --- without a selector ---
def test_without_a_selector_pending_keys_and_orphans_are_erased_now(shop: Shop) -> None:
    remembering.consent(shop)
    remembering.change(shop, language="ja")
    kept = remembering.profile_of(shop).value_key
    content.doom(content.stage(remembering.profile_of(shop), 9, Communication(language="en")))
    store.write(f"{shop.tenant.pk}:{shop.customer.pk}:1:orphan", {"language": "en"})
    assert len(remembering.keys_of(shop)) == 3
    assert "Would erase 1 pending keys and 1 contents" in purge("--dry-run")
    assert len(remembering.keys_of(shop)) == 3
    said = purge()
    assert "Erased 1 pending keys." in said
    assert "Erased 1 contents that no row answered for." in said
    assert remembering.keys_of(shop) == {kept}
    assert "Would erase 0 pending keys and 0 contents" in purge("--dry-run")


def test_a_key_that_is_too_long_for_a_row_is_erased_too(shop: Shop) -> None:
    outages.put("x" * 200, b'"x"')
    purge()
    assert remembering.keys_with_content() == set()
    assert not PendingErasure.objects.exists()


def test_content_about_to_come_into_force_is_left_alone(shop: Shop) -> None:
    key = content.stage(remembering.profile_of(shop), 1, Communication(language="en"))
    purge()
    assert remembering.keys_of(shop) == {key}


@pytest.mark.parametrize("options", [[], ["--verify"], ["--dry-run"]])
def test_without_a_store_the_command_says_so(shop: Shop, options: list[str]) -> None:
    with outages.away():
        assert refused(*options).startswith("The memory store does not answer")


# --- --verify ---
def verified() -> dict[str, int]:
    """Run the comparison, and return how many of each kind it counted."""
    said = StringIO()
    try:
        call_command("purge_memory", "--verify", stdout=said)
        agrees = True
    except CommandError as error:
        agrees = error.returncode != 1
    assert agrees == ("The store and the database agree." in said.getvalue())
    rows = [line.rsplit(maxsplit=1) for line in said.getvalue().splitlines()]
    return {row[0]: int(row[1]) for row in rows if row[0] in CLEAN}


CLEAN = {
    "content that no row answers for": 0,
    "key of another shape": 0,
    "erasure that is overdue": 0,
    "pointer to another tenant, customer or epoch": 0,
    "content that is gone": 0,
}


@pytest.fixture
def remembered(shop: Shop) -> MemoryProfile:
    remembering.consent(shop)
    remembering.change(shop, language="ja")
    remembering.sweep()
    assert verified() == CLEAN
    return remembering.profile_of(shop)


def test_verify_finds_content_that_no_row_answers_for(shop: Shop, remembered: MemoryProfile) -> None:
    key = f"{shop.tenant.pk}:{shop.customer.pk}:1:orphan"
    store.write(key, {"language": "en"})
    assert verified() == CLEAN | {"content that no row answers for": 1}
    with pytest.raises(CommandError, match="1 differences"):
        purge("--verify")
    assert remembering.keys_of(shop) == {key, remembered.value_key}
    purge()
    assert verified() == CLEAN


def test_verify_finds_keys_of_another_shape_and_does_not_print_them(remembered: MemoryProfile) -> None:
    outages.put("张三的地址", b'"x"')
    said = StringIO()
    with pytest.raises(CommandError):
        call_command("purge_memory", "--verify", stdout=said)
    assert "张三" not in said.getvalue()
    assert verified() == CLEAN | {"key of another shape": 1}
    purge()
    assert verified() == CLEAN


def test_verify_finds_erasures_that_nobody_made(shop: Shop, remembered: MemoryProfile) -> None:
    content.doom(content.stage(remembered, 9, Communication(language="en")))
    content.stage(remembered, 9, Communication(language="en"))
    assert verified() == CLEAN
    PendingErasure.objects.update(created_at=database_now() - timedelta(hours=1))
    assert verified() == CLEAN | {"erasure that is overdue": 1}
    PendingErasure.objects.exclude(staged_until=None).update(staged_until=database_now() - timedelta(hours=1))
    assert verified() == CLEAN | {"erasure that is overdue": 2}
    purge()
    assert verified() == CLEAN


@pytest.mark.parametrize("column", ["epoch", "value_key"])
def test_verify_finds_a_pointer_that_does_not_fit(shop: Shop, remembered: MemoryProfile, column: str) -> None:
    values = {"epoch": {"epoch": remembered.epoch + 1}, "value_key": {"value_key": f"{remembered.value_key}:x"}}
    MemoryProfile.objects.filter(pk=remembered.pk).update(**values[column])
    counts = verified()
    assert counts["pointer to another tenant, customer or epoch"] == 1


def test_verify_finds_a_pointer_to_another_customers_content(
    shop: Shop, other_shop: Shop, remembered: MemoryProfile
) -> None:
    remembering.consent(other_shop)
    MemoryProfile.objects.filter(customer=other_shop.customer).update(
        value_key=remembered.value_key, value_expires_at=remembered.value_expires_at, epoch=remembered.epoch
    )
    assert verified() == CLEAN | {"pointer to another tenant, customer or epoch": 1}


def test_verify_counts_what_the_store_has_lost_and_does_not_fail_for_it(shop: Shop, remembered: MemoryProfile) -> None:
    outages.lose(remembered.value_key)
    assert verified() == CLEAN | {"content that is gone": 1}
    assert f"content that is gone: profile {remembered.pk}" in purge("--verify")
    MemoryProfile.objects.update(value_expires_at=database_now() - timedelta(seconds=1))
    assert verified() == CLEAN


def test_verify_only_reads(shop: Shop, remembered: MemoryProfile) -> None:
    store.write(f"{shop.tenant.pk}:{shop.customer.pk}:1:orphan", {"language": "en"})
    content.doom(content.stage(remembered, 9, Communication(language="en")))
    PendingErasure.objects.update(created_at=database_now() - timedelta(hours=1))
    before = state(shop)
    refused("--verify")
    assert state(shop) == before


def test_verify_is_clean_after_thirty_random_decisions_of_two_customers(
    shop: Shop, other_shop: Shop, model_server: ModelServer
) -> None:
    chance = random.Random(20)  # noqa: S311  # no secret
    for each in (shop, other_shop):
        remembering.consent(each)
    for _ in range(30):
        _decide(chance.choice([shop, other_shop]), chance, model_server)
        if chance.random() < 0.5:
            remembering.sweep()
        counts = verified()
        assert counts == CLEAN
    talking.assert_promises_kept()
    purge()
    pointed = MemoryProfile.objects.exclude(value_key="").values_list("value_key", flat=True)
    assert remembering.keys_with_content() == set(pointed)


def _decide(shop: Shop, chance: random.Random, model_server: ModelServer) -> None:
    match chance.choice(["consent", "withdraw", "change", "clear", "learn", "purge"]):
        case "consent":
            remembering.consent(shop)
        case "withdraw":
            remembering.consent(shop, enabled=False)
        case "change":
            remembering.consent(shop)
            remembering.change(shop, language=chance.choice(["ja", "en", None]), contact_channel="sms")
        case "clear":
            remembering.clear(shop)
        case "learn":
            remembering.consent(shop)
            model_server.wish(CONCISE)
            remembering.learn(shop, WISH)
        case "purge":
            purge("--tenant", str(shop.tenant.pk), "--since", "2020-01-01T00:00:00Z")
