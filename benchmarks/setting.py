"""What the benchmarks share: a database of their own, words for generated texts, and percentiles."""

import random
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from django.conf import settings
from django.db import connections
from django.test.utils import get_runner

SUBJECTS = "键盘 鼠标 耳机 显示器 音箱 摄像头 路由器 充电器 数据线 硬盘".split()
ACTIONS = "清洁 保修 退货 换货 充电 连接 升级 安装 拆卸 存放".split()
_WORDS = (
    "请先 关闭 电源 再 用 软布 擦拭 表面 不要 使用 溶剂 收到 商品 之后 十五天 内 联系 客服 提供 订单 编号 检查 指示灯"
).split()


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


def questions(count: int, *, seed: int = 11) -> list[str]:
    """Return `count` different questions, so that no cache answers."""
    draw = random.Random(seed)
    return [f"{draw.choice(SUBJECTS)}怎么{draw.choice(ACTIONS)}？{number}" for number in range(count)]


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


def sentence(draw: random.Random, subject: str) -> str:
    """Return about forty characters about `subject`."""
    words = draw.choices(_WORDS, k=draw.randint(12, 20))
    return f"{subject}{''.join(words)}{draw.randint(1, 9999)}。"
