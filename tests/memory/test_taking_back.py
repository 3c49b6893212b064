"""Taking a wish back: the one that was meant goes, and no other."""

import pytest

from tests.factories import Shop
from tests.memory import remembering
from tests.model_server import ModelServer
from tests.model_shapes import wishes

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("model_server")]


@pytest.mark.parametrize(
    ("known", "said", "left"),
    [
        ("en", "以后别用英文了", {}),
        ("yue", "以後唔使用粵語喇", {}),
        ("en", "以後唔使用粵語喇", {"language": "en"}),
        ("en", "之前说的语言要求取消吧", {}),
    ],
)
def test_a_language_that_is_taken_back_goes_only_if_it_is_the_one_remembered(
    shop: Shop, model_server: ModelServer, known: str, said: str, left: dict[str, str]
) -> None:
    remembering.consent(shop)
    remembering.change(shop, language=known)
    model_server.wish(wishes(language="withdrawn", language_evidence=said))
    job = remembering.learn(shop, said)
    assert job.status == "COMPLETED"
    assert remembering.remembered(shop) == left


def test_asking_not_to_remember_is_not_remembered(shop: Shop, model_server: ModelServer) -> None:
    remembering.consent(shop)
    model_server.wish(wishes(response_style="concise", response_style_evidence="我喜欢简洁的回答"))
    job = remembering.learn(shop, "不用记住我喜欢简洁的回答")
    assert job.outcome == "NOTHING"
    assert remembering.remembered(shop) == {}
