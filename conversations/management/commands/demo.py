"""`manage.py demo`: the whole product over HTTP, in one process, each claim checked as it is made."""

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.core.management import BaseCommand, CommandError, call_command
from django.core.servers.basehttp import ThreadedWSGIServer, WSGIRequestHandler
from django.db import connections
from django.utils import timezone

from zhifu import sweeping
from zhifu.demo_shop import MERCHANT, ensure_demo_shop
from zhifu.models import Store, StoreKey
from zhifu.wsgi import application

_WAIT_SECONDS = 60.0
_MEMORY = "/openapi/v1/memory"
_KEYBOARD = "键盘怎么清洁？"
_ENGLISH = "How many days do I have to return an item?"
_WARRANTY = "键盘保修多久？"
_WISH = "以后请用简洁的方式回复"

_DOCUMENTS = [
    (
        "键盘清洁说明",
        "product",
        "清洁键盘前，请先拔下数据线或关闭电源。用软毛刷清除键帽之间的灰尘，再用拧干的微湿软布擦拭表面。"
        "不要使用酒精以外的溶剂，也不要把水直接倒在键盘上。晾干后再接上电源。",
    ),
    (
        "Returns and refunds",
        "policy",
        "You have 15 days from delivery to return an item. Items must be unused and in their original packaging. "
        "The refund is made to the original payment method within 3 working days after we receive the item.",
    ),
    (
        "保修政策",
        "policy",
        "本店键盘和鼠标自签收之日起保修两年。人为损坏、进水和私自拆机不在保修范围内。保修时请提供订单编号。",
    ),
    ("发货时间", "faq", "工作日十六点前付款的订单当天发货，其余订单次日发货。偏远地区需要多等两到三天。"),
]
_KEYBOARD_CHANGED = (
    "清洁键盘前，请先拔下数据线或关闭电源。本型号的键帽可以拆下，用温水和中性清洁剂浸泡十分钟后晾干装回。"
    "主体部分只用干的软布擦拭，不要使用任何溶剂。"
)


class Command(BaseCommand):
    help = "Show the whole product in one process: publish, ask, change, revoke, remember, forget, check the promises."

    def handle(self, *args: Any, **options: Any) -> None:
        if not settings.TASKS_IN_PROCESS:
            raise CommandError("The demo runs tasks in its own process; run it without ZHIFU_BROKER_URL and .env.")
        started = time.monotonic()
        call_command("migrate", interactive=False, verbosity=0)
        with _Server() as url:
            self._tell(_Actors.of_a_new_store(url))
        self._title("7. 核对承诺 check_promises")
        call_command("check_promises", stdout=self.stdout)
        self.stdout.write(self.style.SUCCESS(f"\nDemo done in {time.monotonic() - started:.0f} s. Next: make run"))

    def _tell(self, actors: "_Actors") -> None:
        self._title("1. 商家发布资料 The merchant publishes")
        documents = [self._publish(actors, *document) for document in _DOCUMENTS]

        self._title("2. 客户提问 The customer asks")
        first = self._ask(actors, _KEYBOARD)
        _demand("软毛刷" in first["text"] and _cites(first, documents[0], 1), "the answer quotes version 1")
        english = self._ask(actors, _ENGLISH)
        _demand("15 days" in english["text"] and _cites(english, documents[1], 1), "the English answer is cited")

        self._title("3. 发布修改后的版本 A changed version is published")
        self._publish_again(actors, documents[0])
        second = self._ask(actors, _KEYBOARD)
        _demand("温水" in second["text"] and _cites(second, documents[0], 2), "the answer quotes version 2")
        _demand("软毛刷" not in json.dumps(second, ensure_ascii=False), "nothing of version 1 is left in it")

        self._title("4. 打开引用 A reference is opened")
        reference = second["source_refs"][0]["reference_token"]
        opened = actors.customer.get(f"/api/v1/knowledge-references/{reference}")
        self.stdout.write(f"   《{opened['title']}》 v{opened['version']}  {opened['updated_at']}")

        self._title("5. 撤回 The document is revoked")
        actors.staff.post(f"{actors.knowledge}/{documents[0]}/revoke", {"expected_version": 2})
        status = actors.customer.status(f"/api/v1/knowledge-references/{reference}")
        _demand(status == 404, "the reference no longer resolves")
        third = self._ask(actors, _KEYBOARD)
        _demand(not third["source_refs"] and "没有" in third["text"], "the answer says the material has nothing")
        _demand("温水" not in third["text"] and "软毛刷" not in third["text"], "and nothing of the old text is in it")

        self._title("6. 记忆：客户允许什么，就只记什么 Memory: what the customer allowed, and nothing else")
        self._tell_of_memory(actors)

    def _tell_of_memory(self, actors: "_Actors") -> None:
        usual = self._ask(actors, _WARRANTY)
        _demand("两年" in usual["text"], "the usual answer quotes the warranty")
        self._decide(actors, "put", "consent", {"enabled": True}, "同意记住沟通习惯 consent")
        self._ask(actors, _WISH)
        _wait(lambda: self._remembered(actors).get("response_style") == "concise", "the wish to be remembered")
        self.stdout.write(f"   已记住 remembered: {self._remembered(actors)}")
        concise = self._ask(actors, _WARRANTY)
        shorter = len(concise["text"]) < len(usual["text"])
        _demand("两年" in concise["text"] and shorter, "a later conversation answers concisely")
        self._decide(actors, "post", "clear", {}, "清空记忆 clear")
        _demand(not self._remembered(actors), "nothing is remembered")
        after = self._ask(actors, _WARRANTY)
        _demand(after["text"] == usual["text"], "the next conversation answers as it did before")

    def _decide(self, actors: "_Actors", method: str, what: str, body: dict[str, Any], said: str) -> None:
        revision = actors.customer.get(_MEMORY)["revision"]
        getattr(actors.customer, method)(f"{_MEMORY}/{what}", body | {"expected_revision": revision})
        self.stdout.write(f"   客户 customer: {said}")

    def _remembered(self, actors: "_Actors") -> dict[str, str]:
        known = actors.customer.get(_MEMORY)["communication"]
        return {field: value for field, value in known.items() if value is not None}

    def _publish(self, actors: "_Actors", title: str, collection: str, text: str) -> str:
        body = {"title": title, "collection": collection, "source_text": text}
        document = actors.staff.post(actors.knowledge, body)
        self._wait_until_live(actors, document["id"], 1, title)
        return str(document["id"])

    def _publish_again(self, actors: "_Actors", document: str) -> None:
        title, collection, _text = _DOCUMENTS[0]
        body = {"title": title, "collection": collection, "source_text": _KEYBOARD_CHANGED, "expected_version": 1}
        actors.staff.put(f"{actors.knowledge}/{document}", body)
        self._wait_until_live(actors, document, 2, title)

    def _wait_until_live(self, actors: "_Actors", document: str, version: int, title: str) -> None:
        job = actors.staff.post(f"{actors.knowledge}/{document}/publish", {"expected_version": version})

        def settled() -> Any:
            state = actors.staff.get(f"{actors.knowledge}/index-jobs/{job['id']}")
            return state if state["status"] in {"COMPLETED", "FAILED", "CANCELLED"} else None

        state = _wait(settled, f"publishing {title}")
        _demand(state["status"] == "COMPLETED", f"{title} v{version} is published: {state}")
        self.stdout.write(f"   已发布 published: {title} v{version}")

    def _ask(self, actors: "_Actors", question: str) -> dict[str, Any]:
        talk = actors.customer.post("/openapi/v1/conversations", {})["id"]
        actors.customer.post(f"/openapi/v1/conversations/{talk}/messages", {"text": question})

        def answered() -> Any:
            rows = actors.customer.get(f"/openapi/v1/conversations/{talk}/messages")["results"]
            failed = [row["run"] for row in rows if row.get("run") and row["run"]["status"] in {"FAILED", "CANCELLED"}]
            _demand(not failed, f"the question is answered: {failed}")
            return next((row["answer"] for row in rows if row.get("answer")), None)

        answer: dict[str, Any] = _wait(answered, "an answer")
        text = answer["text"].replace("\n", "\n         ")
        self.stdout.write(f"   问 Q: {question}\n   答 A: {text}")
        for number, source in enumerate(answer["source_refs"], start=1):
            self.stdout.write(f"        [{number}] 《{source['title']}》 v{source['version']} “{source['quote']}”")
        return answer

    def _title(self, text: str) -> None:
        self.stdout.write(self.style.MIGRATE_HEADING(f"\n{text}"))


@dataclass(frozen=True)
class _Actors:
    """A merchant and a customer of a store that is new in this run, each with the token they earned over HTTP."""

    staff: "_Http"
    customer: "_Http"
    knowledge: str

    @classmethod
    def of_a_new_store(cls, url: str) -> "_Actors":
        shop = ensure_demo_shop()
        store = Store.objects.create(tenant=shop.tenant, name=f"演示店 {timezone.localtime():%Y-%m-%d %H:%M:%S.%f}")
        secret = StoreKey.new_secret()
        StoreKey.objects.create(
            tenant=shop.tenant, store=store, name="演示密钥", secret_hash=StoreKey.hash_secret(secret)
        )
        login = {"username": MERCHANT, "password": shop.merchant_password}
        staff = _Http(url, _Http(url).post("/openapi/v1/auth/token", login)["access"])
        address = f"/openapi/v1/stores/{store.public_id}"
        token = _Http(url, secret).post(f"{address}/customer-tokens", {"external_ref": "demo-1"})["access"]
        return cls(staff, _Http(url, token), f"{address}/knowledge")


class _Http:
    """JSON over HTTP with a bearer token."""

    def __init__(self, url: str, token: str = "") -> None:
        self._url = url
        self._headers = {"Content-Type": "application/json"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"

    def get(self, path: str) -> Any:
        return self._call("GET", path, None)

    def post(self, path: str, body: dict[str, Any]) -> Any:
        return self._call("POST", path, body)

    def put(self, path: str, body: dict[str, Any]) -> Any:
        return self._call("PUT", path, body)

    def status(self, path: str) -> int:
        try:
            self._open("GET", path, None)
        except urllib.error.HTTPError as error:
            return error.code
        return 200

    def _call(self, method: str, path: str, body: dict[str, Any] | None) -> Any:
        try:
            return json.loads(self._open(method, path, body))
        except urllib.error.HTTPError as error:
            raise CommandError(f"{method} {path}: {error.code} {error.read().decode()}") from error

    def _open(self, method: str, path: str, body: dict[str, Any] | None) -> bytes:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(  # noqa: S310  # always the server this command started
            self._url + path, data, self._headers, method=method
        )
        with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310  # as above
            answer: bytes = response.read()
        return answer


class _Server:
    """A web server in this process on a free port of 127.0.0.1, with the sweeper beside it."""

    def __enter__(self) -> str:
        self._server = ThreadedWSGIServer(("127.0.0.1", 0), _QuietHandler)
        self._server.daemon_threads = True
        self._server.set_app(application)
        self._stopped = threading.Event()
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        threading.Thread(target=self._sweep, daemon=True).start()
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __exit__(self, *error: object) -> None:
        self._stopped.set()
        self._server.shutdown()

    def _sweep(self) -> None:
        while not self._stopped.wait(settings.SWEEP_SECONDS):
            sweeping.run()
            connections.close_all()


class _QuietHandler(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the demo tells the story itself."""


def _cites(answer: dict[str, Any], document: str, version: int) -> bool:
    return any(
        source["source_id"] == document and source["version"] == version and source["quote"]
        for source in answer["source_refs"]
    )


def _demand(condition: bool, what: str) -> None:
    if not condition:
        raise CommandError(f"This should have happened and did not: {what}")


def _wait(condition: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + _WAIT_SECONDS
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.05)
    raise CommandError(f"Waited {_WAIT_SECONDS:.0f} s for {what}. Is the machine very busy? Run it again.")
