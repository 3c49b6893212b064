"""The numbers that a model is judged by: known mistakes give known numbers, and the built-in model passes the gate."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from pytest_django.fixtures import Settings

from config.models import UsagePurpose, UsageRecord
from memory import evaluation
from memory.evaluation import Message, Spent
from tests.factories import Shop
from tests.model_server import ModelServer
from tests.model_shapes import refusal, wishes
from tests.servers import free_port
from zhifu import errors

HERE = Path(__file__).parent
WISH = "以后请用英文回复我"
ENGLISH = wishes(language="en", language_evidence=WISH)


def message(text: str = WISH, kind: str = "lasting", variety: str = "zh-Hans", **labelled: str) -> Message:
    return Message(text, variety, kind, labelled)


def write(path: Path, *messages: Message) -> Path:
    lines = (json.dumps(vars(one), ensure_ascii=False) for one in messages)
    path.write_text("\n".join(lines), "utf-8")
    return path


def run(path: Path, **options: Any) -> str:
    out = StringIO()
    call_command("evaluate_extraction", str(path), stdout=out, stderr=StringIO(), **options)
    return out.getvalue()


def refuses(request: Any) -> Any:
    raise refusal(503, "away")


# One wish right, one wrong, one missed, one invented, one kept empty, one unread.
KNOWN = [
    message(language="en"),
    message("以后用英文，以后简短点", language="ja", response_style="concise"),
    message("Text me from now on", variety="en", contact_channel="sms"),
    message("请把发票发到邮箱", kind="delivery"),
    message("键盘怎么清洁？", kind="product_question"),
    message("以后发短信", contact_channel="sms"),
]


@pytest.fixture
def known_mistakes(model_server: ModelServer) -> None:
    model_server.wish(
        ENGLISH,
        wishes(language="en", language_evidence="以后用英文"),
        wishes(),
        wishes(contact_channel="email", contact_channel_evidence="发到邮箱"),
        wishes(contact_channel="email", contact_channel_evidence="键盘"),
        *["words"] * 3,
    )


@pytest.mark.usefixtures("known_mistakes")
def test_known_mistakes_give_the_known_numbers(shop: Shop) -> None:
    done: list[int] = []
    report = evaluation.evaluate(KNOWN, tenant_id=shop.tenant.pk, progress=done.append)
    tallies = report.tallies()
    assert (tallies["all"].labelled, tallies["all"].found, tallies["all"].right) == (4, 3, 1)
    assert (tallies["all"].precision, tallies["all"].recall, tallies["all"].must_not) == (1 / 3, 0.25, 0.5)
    assert (tallies["field language"].precision, tallies["field language"].recall) == (0.5, 0.5)
    assert (tallies["field response_style"].precision, tallies["field response_style"].recall) == (None, 0.0)
    assert (tallies["field contact_channel"].precision, tallies["field contact_channel"].recall) == (0.0, 0.0)
    assert tallies["variety en"].recall == 0.0
    assert (tallies["kind delivery"].must_not, tallies["kind product_question"].must_not) == (0.0, 1.0)
    assert tallies["kind lasting"].must_not is None
    assert report.failures == {"EXTRACTION_UNREADABLE": 1}
    assert [reading.message.kind for reading in report.broken] == ["delivery"]
    assert report.spent == Spent(calls=8, input_tokens=8 * 11, output_tokens=8 * 7)
    assert done == [1, 2, 3, 4, 5, 6]


@pytest.mark.usefixtures("known_mistakes", "db")
def test_the_command_prints_and_writes_them(tmp_path: Path) -> None:
    said = run(write(tmp_path / "known.jsonl", *KNOWN), json=tmp_path / "out.json")
    assert "failed    1 EXTRACTION_UNREADABLE" in said
    assert "remembered {'contact_channel': 'email'} of: 请把发票发到邮箱" in said
    written = json.loads((tmp_path / "out.json").read_text("utf-8"))
    assert written["tallies"]["all"]["right"] == 1
    assert [row["found"] for row in written["readings"]][:3] == [{"language": "en"}, {"language": "en"}, {}]
    assert written["readings"][5]["failure"] == "EXTRACTION_UNREADABLE"
    assert UsageRecord.objects.filter(purpose=UsagePurpose.EVALUATION, tenant__name="演示商家").count() == 8


@pytest.mark.usefixtures("db")
def test_only_the_first_ones_are_read_when_limited(model_server: ModelServer, tmp_path: Path) -> None:
    model_server.wish(ENGLISH)
    said = run(write(tmp_path / "m.jsonl", *KNOWN), limit=1)
    assert "messages  1, of which 1 were read" in said
    assert len(model_server.requests) == 1


@pytest.mark.django_db(transaction=True)
def test_several_at_once_are_read_as_one_after_the_other(shop: Shop, model_server: ModelServer) -> None:
    model_server.wish(*[lambda request: ENGLISH] * 9)
    report = evaluation.evaluate([message(language="en")] * 9, tenant_id=shop.tenant.pk, workers=3)
    assert report.tallies()["all"].recall == 1.0
    assert report.spent.calls == len(model_server.requests) == 9


@pytest.mark.usefixtures("db")
def test_an_endpoint_that_is_not_there_is_named(settings: Settings, tmp_path: Path) -> None:
    settings.CHAT_MODEL, settings.CHAT_BASE_URL = "some-model", f"http://127.0.0.1:{free_port()}/v1"
    with pytest.raises(CommandError, match=r"not available.*some-model at http://127\.0\.0\.1"):
        run(write(tmp_path / "m.jsonl", *KNOWN))
    assert UsageRecord.objects.count() == 1


@pytest.mark.usefixtures("db")
def test_a_key_that_is_refused_is_named(model_server: ModelServer, tmp_path: Path) -> None:
    model_server.wish(lambda request: (_ for _ in ()).throw(refusal(401, "no")))
    with pytest.raises(CommandError, match="HTTP 401"):
        run(write(tmp_path / "m.jsonl", *KNOWN))


def test_an_endpoint_that_goes_away_is_given_up_and_one_that_stumbles_is_not(
    shop: Shop, model_server: ModelServer
) -> None:
    model_server.wish(ENGLISH, *[refuses] * 4, ENGLISH)
    report = evaluation.evaluate([message(language="en")] * 6, tenant_id=shop.tenant.pk)
    assert report.failures == {"MODEL_UNAVAILABLE": 4}
    assert report.tallies()["all"].recall == 1.0
    model_server.wish(ENGLISH, *[refuses] * 5, ENGLISH)
    with pytest.raises(errors.Unavailable):
        evaluation.evaluate([message(language="en")] * 7, tenant_id=shop.tenant.pk)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "Line 2: .*no JSON"),
        ("[]", "Line 2: .*kind, text, variety, wishes"),
        ('{"text": "x", "variety": "en", "kind": "k"}', "Line 2: .*keys"),
        ('{"text": "", "variety": "en", "kind": "k", "wishes": {}}', "Line 2: .*strings"),
        ('{"text": "x", "variety": "en", "kind": "k", "wishes": []}', "Line 2: .*object"),
        ('{"text": "x", "variety": "en", "kind": "k", "wishes": {"language": "en-US"}}', "Line 2: .*en-US"),
        ('{"text": "x", "variety": "en", "kind": "k", "wishes": {"name": "John"}}', "Line 2: .*name"),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, line: str, why: str) -> None:
    path = write(tmp_path / "m.jsonl", message(language="en"))
    path.write_text(f"{path.read_text('utf-8')}\n{line}\n", "utf-8")
    with pytest.raises(CommandError, match=why):
        run(path)


def test_a_file_that_is_not_there_or_empty_is_named(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="cannot be read"):
        run(tmp_path / "no.jsonl")
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(CommandError, match="holds no messages"):
        run(tmp_path / "empty.jsonl")
    with pytest.raises(CommandError, match="at least 1"):
        run(tmp_path / "no.jsonl", workers=0)


@pytest.mark.parametrize(
    ("name", "must_not"), [("labelled_messages", 100), ("held_out_messages", 50), ("unseen_messages", 75)]
)
def test_the_built_in_model_remembers_nothing_wrongly_and_misses_little(
    shop: Shop, settings: Settings, name: str, must_not: int
) -> None:
    settings.CHAT_MODEL = "offline"
    messages = evaluation.read_file(HERE / f"{name}.jsonl")
    report = evaluation.evaluate(messages, tenant_id=shop.tenant.pk)
    overall = report.tallies()["all"]
    assert report.failures == {}
    assert report.broken == []
    assert overall.empty == sum(not message.wishes for message in messages) >= must_not
    assert overall.recall >= 0.9
    assert overall.precision >= 0.95
