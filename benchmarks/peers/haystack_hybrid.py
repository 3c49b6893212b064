"""Haystack's hybrid retrieval on the product's chunks, vectors and questions: `make peers`.

As its tutorial shows it: InMemoryBM25Retriever and InMemoryEmbeddingRetriever, 30 each, joined by DocumentJoiner with
reciprocal rank fusion. Its own words are runs of letters, which is a whole sentence in Chinese; "tended" gives it
jieba's.
"""

import os
import sys
from collections.abc import Callable
from functools import partial

# It would report each run to its makers.
os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"

import judging
from haystack import Document, Pipeline
from haystack.components.joiners import DocumentJoiner
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever, InMemoryEmbeddingRetriever
from haystack.document_stores.in_memory import InMemoryDocumentStore
from judging import DEPTH, Exported, Search


def hybrid(exported: Exported, *, cut: Callable[[str], list[str]] | None = None) -> Search:
    store = InMemoryDocumentStore(embedding_similarity_function="cosine")
    if cut is not None:
        store.tokenizer = cut
    vectors = exported.chunk_vectors.tolist()
    store.write_documents(
        [
            Document(id=str(number), content=chunk["text"], embedding=vectors[number], meta={"of": chunk["document"]})
            for number, chunk in enumerate(exported.chunks)
        ]
    )
    both = Pipeline()
    both.add_component("words", InMemoryBM25Retriever(store, top_k=DEPTH))
    both.add_component("meaning", InMemoryEmbeddingRetriever(store, top_k=DEPTH))
    both.add_component("joiner", DocumentJoiner(join_mode="reciprocal_rank_fusion"))
    both.connect("words", "joiner")
    both.connect("meaning", "joiner")
    known = exported.known_vectors

    def search(question: str) -> list[str]:
        found = both.run({"words": {"query": question}, "meaning": {"query_embedding": known[question]}})
        return [document.meta["of"] for document in found["joiner"]["documents"]]

    return search


if __name__ == "__main__":
    sys.exit(judging.main(__doc__, {"Haystack": hybrid, "Haystack, tended": partial(hybrid, cut=judging.tended)}))
