"""The four checks against a real model: `make acceptance`. Out of the default run; without an endpoint they fail."""

import pytest

from tests.acceptance import checks
from tests.factories import Shop

pytestmark = [pytest.mark.acceptance, pytest.mark.usefixtures("endpoint"), pytest.mark.timeout(900)]


def test_a_published_document_is_found_and_cited(shop: Shop) -> None:
    checks.a_published_document_is_found_and_cited(shop)


def test_a_wish_is_remembered_and_followed_in_another_conversation(shop: Shop) -> None:
    checks.a_wish_is_remembered_and_followed_in_another_conversation(shop)


def test_a_memory_cleared_while_the_model_reads_stays_empty(shop: Shop) -> None:
    checks.a_memory_cleared_while_the_model_reads_stays_empty(shop)


def test_a_document_revoked_while_the_model_answers_is_not_cited(shop: Shop) -> None:
    checks.a_document_revoked_while_the_model_answers_is_not_cited(shop)
