"""What people do with the running product: publish, ask, read; each waits until the product has done its part."""

from typing import Any

from django.core.management import call_command
from rest_framework_simplejwt.tokens import RefreshToken

from tests.factories import Shop
from tests.processes.system import Caller, System, eventually
from zhifu import customer_tokens

CLEANING = "清洁键盘前先拔下电源。用软毛刷清除键帽之间的灰尘。"
CLEANING_CHANGED = "清洁键盘前先关闭电源。键帽可以拆下，用温水浸泡十分钟后晾干。"
QUESTION = "键盘怎么清洁？"


class Story:
    def __init__(self, system: System, shop: Shop) -> None:
        self.shop = shop
        self.staff = Caller(system.url, str(RefreshToken.for_user(shop.member.user).access_token))
        self.customer = Caller(system.url, customer_tokens.mint(shop.customer.public_id, shop.store.public_id))

    def write(self, text: str = CLEANING, title: str = "键盘清洁") -> str:
        """Save a draft and return the document's id."""
        body = {"title": title, "source_text": text, "collection": "product"}
        return str(self.staff.post(self.shop.knowledge_url, body)["id"])

    def rewrite(self, document: str, text: str, expected_version: int) -> None:
        body = {"title": "键盘清洁", "source_text": text, "collection": "product", "expected_version": expected_version}
        self.staff.put(f"{self.shop.knowledge_url}/{document}", body)

    def ask_to_publish(self, document: str, version: int = 1) -> str:
        """Return the id of the job."""
        address = f"{self.shop.knowledge_url}/{document}/publish"
        return str(self.staff.post(address, {"expected_version": version})["id"])

    def job(self, job: str) -> dict[str, Any]:
        state: dict[str, Any] = self.staff.get(f"{self.shop.knowledge_url}/index-jobs/{job}")
        return state

    def publish(self, document: str, version: int = 1) -> None:
        job = self.ask_to_publish(document, version)
        state = eventually(lambda: self._settled(job), "the publication settles")
        assert state["status"] == "COMPLETED", state

    def revoke(self, document: str, version: int) -> None:
        self.staff.post(f"{self.shop.knowledge_url}/{document}/revoke", {"expected_version": version})

    def begin(self) -> str:
        return str(self.customer.post("/openapi/v1/conversations", {})["id"])

    def say(self, talk: str, text: str = QUESTION) -> dict[str, Any]:
        accepted: dict[str, Any] = self.customer.post(f"/openapi/v1/conversations/{talk}/messages", {"text": text})
        return accepted

    def messages(self, talk: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.customer.get(f"/openapi/v1/conversations/{talk}/messages")["results"]
        return rows

    def answers(self, talk: str, count: int = 1) -> list[dict[str, Any]]:
        """Wait for `count` answers of a conversation and return them."""

        def given() -> list[dict[str, Any]] | None:
            answers = [row["answer"] for row in self.messages(talk) if row["answer"]]
            return answers if len(answers) >= count else None

        answers: list[dict[str, Any]] = eventually(given, f"{count} answers")
        assert len(answers) == count
        return answers

    def ask(self, text: str = QUESTION) -> dict[str, Any]:
        """Ask in a conversation of its own and return the answer."""
        talk = self.begin()
        self.say(talk, text)
        return self.answers(talk)[0]

    def _settled(self, job: str) -> dict[str, Any] | None:
        state = self.job(job)
        return state if state["status"] in {"COMPLETED", "FAILED", "CANCELLED"} else None


def assert_promises_kept() -> None:
    call_command("check_promises")
