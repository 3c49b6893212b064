"""The API speaks UTC; pages for people speak their local time."""

import re
from zoneinfo import ZoneInfo

from django.conf import settings
from django.test import Client

from knowledge.models import KnowledgeDocument
from tests.factories import Shop


def test_moments_of_the_api_are_utc_and_those_of_the_admin_local(shop: Shop) -> None:
    assert settings.TIME_ZONE == "Asia/Shanghai"
    body = {"title": "t", "source_text": "x", "collection": "faq"}
    created = shop.staff.post(shop.knowledge_url, body).json()["created_at"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", created)
    client = Client()
    client.force_login(shop.member.user)
    local = KnowledgeDocument.objects.get().updated_at.astimezone(ZoneInfo("Asia/Shanghai"))
    assert f" {local:%H:%M}" in client.get("/admin/knowledge/knowledgedocument/").content.decode()
