"""How many database queries each thing costs, in one place: an N+1 shows here as a one-line difference.

`with pinned("a search"):` fails, listing the queries, when what is done inside costs another number. Where that is
meant, `make test ARGS="-k query or cost" PIN_QUERIES=1` writes the new numbers here, and the next run judges them.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.db import connection
from django.test.utils import CaptureQueriesContext

PINNED = {
    # Reading, the same however many rows there are. Who asks: 1 for a customer, 3 for a member; 1 for the store in a
    # member's address; the rest is what is read.
    "GET /api/v1/knowledge-references/{token}": 2,
    "GET /openapi/v1/conversations": 2,
    "GET /openapi/v1/conversations/{conversation}": 2,
    "GET /openapi/v1/conversations/{conversation}/messages": 6,
    "GET /openapi/v1/memory": 4,
    "GET /openapi/v1/memory/history": 3,
    "GET /openapi/v1/memory with content": 7,
    "GET /openapi/v1/runs/{run}": 4,
    "GET /openapi/v1/stores/{store}/knowledge": 6,
    "GET /openapi/v1/stores/{store}/knowledge/index-jobs": 5,
    "GET /openapi/v1/stores/{store}/knowledge/index-jobs/{job}": 5,
    "GET /openapi/v1/stores/{store}/knowledge/{document}": 6,
    "GET /openapi/v1/stores/{store}/knowledge/{document}/versions": 6,
    "GET /openapi/v1/stores/{store}/knowledge/{document}/versions/{number}": 5,
    # Searching.
    "POST /openapi/v1/stores/{store}/knowledge/search": 6,
    "a search": 4,
    # Writing: locks, checks, rows, the trail.
    "a customer's first token": 12,
    "a customer's next token": 6,
    "a new document": 16,
    "a revision": 15,
    "a publication": 15,
    "a revocation": 15,
    "a new conversation": 4,
    "a message": 14,
    "a cancelled run": 17,
    "a consent": 12,
    "a change of memory": 21,
    "a clear": 14,
    "a message that is to be remembered": 15,
    # Work in the background.
    "an index job of one batch": 35,
    "an index job of two batches": 38,
    "an extraction that stores": 57,
    "an extraction that finds nothing": 40,
    "a purge of one customer": 21,
    "a turn that searches once": 64,
    "a round of the sweeper": 12,
    # The admin, signed in as who may see the list.
    "the list /admin/agents/agentrun/": 8,
    "the list /admin/auth/group/": 7,
    "the list /admin/auth/user/": 8,
    "the list /admin/config/usagerecord/": 7,
    "the list /admin/config/tenantquota/": 7,
    "the list /admin/conversations/conversation/": 8,
    "the list /admin/knowledge/documentversion/": 7,
    "the list /admin/knowledge/indexjob/": 7,
    "the list /admin/knowledge/knowledgedocument/": 9,
    "the list /admin/memory/memoryjob/": 7,
    "the list /admin/memory/memoryprofile/": 7,
    "the list /admin/zhifu/auditevent/": 7,
    "the list /admin/zhifu/customer/": 7,
    "the list /admin/zhifu/member/": 7,
    "the list /admin/zhifu/store/": 7,
    "the list /admin/zhifu/storekey/": 8,
    "the list /admin/zhifu/tenant/": 7,
}


@contextmanager
def pinned(name: str) -> Iterator[None]:
    with CaptureQueriesContext(connection) as queries:
        yield
    asked = [query["sql"][:160] for query in queries]
    if os.environ.get("PIN_QUERIES"):
        _pin(name, len(asked))
        return
    wrong = f"{name!r}: {len(asked)} queries, {PINNED[name]} pinned"
    assert len(asked) == PINNED[name], "\n".join([wrong, *asked])


def _pin(name: str, count: int) -> None:
    here = Path(__file__)
    here.write_text(re.sub(rf'("{re.escape(name)}": )\d+', rf"\g<1>{count}", here.read_text()))
