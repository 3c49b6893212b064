"""What the benchmarks share: a database of their own, a shop with generated knowledge, and percentiles."""

import random
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from django.conf import settings
from django.db import connections
from django.test.utils import get_runner

from knowledge import indexing, services
from tests.factories import Shop, make_shop

_SUBJECTS = "键盘 鼠标 耳机 显示器 音箱 摄像头 路由器 充电器 数据线 硬盘".split()
_ACTIONS = "清洁 保修 退货 换货 充电 连接 升级 安装 拆卸 存放".split()
_WORDS = (
    "请先 关闭 电源 再 用 软布 擦拭 表面 不要 使用 溶剂 收到 商品 之后 十五天 内 联系 客服 提供 订单 编号 检查 指示灯"
).split()
CHUNKS_PER_DOCUMENT = 8


@contextmanager
def database() -> Iterator[None]:
    """A migrated database that is dropped afterwards."""
    runner = get_runner(settings)(verbosity=0, interactive=False)
    old = runner.setup_databases()
    try:
        yield
    finally:
        connections.close_all()
        runner.teardown_databases(old)


def shop_with_chunks(chunks: int, *, seed: int = 7) -> Shop:
    """Return a shop with about `chunks` published chunks of generated text."""
    shop = make_shop()
    draw = random.Random(seed)
    for number in range(max(1, chunks // CHUNKS_PER_DOCUMENT)):
        subject, action = draw.choice(_SUBJECTS), draw.choice(_ACTIONS)
        content = services.Content(
            title=f"{subject}{action} {number}",
            source_text="".join(_sentence(draw, subject) for _ in range(CHUNKS_PER_DOCUMENT * 10)),
            collection=draw.choice(["faq", "product", "policy", "general"]),
        )
        version = services.create_document(scope=shop.staff_scope, store=shop.store, content=content)
        job = services.publish_document(
            scope=shop.staff_scope, document_id=version.document.public_id, expected_version=1
        )
        indexing.run_index_job(job.pk)
        job.refresh_from_db()
        assert job.status == "COMPLETED", job.error_message
    return shop


def questions(count: int, *, seed: int = 11) -> list[str]:
    """Return `count` different questions, so that no cache answers."""
    draw = random.Random(seed)
    return [f"{draw.choice(_SUBJECTS)}怎么{draw.choice(_ACTIONS)}？{number}" for number in range(count)]


def timed(call: Callable[[str], object], inputs: list[str], callers: int) -> list[float]:
    """Return the seconds each call took, made by `callers` threads at once."""

    def one(value: str) -> float:
        started = time.perf_counter()
        call(value)
        return time.perf_counter() - started

    with ThreadPoolExecutor(callers) as pool:
        return list(pool.map(one, inputs))


def percentiles(seconds: list[float]) -> tuple[float, float]:
    """Return p50 and p95 in milliseconds."""
    cut = statistics.quantiles(seconds, n=100)
    return cut[49] * 1000, cut[94] * 1000


def _sentence(draw: random.Random, subject: str) -> str:
    words = draw.choices(_WORDS, k=draw.randint(12, 20))
    return f"{subject}{''.join(words)}{draw.randint(1, 9999)}。"
