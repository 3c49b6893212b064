"""LangChain's EnsembleRetriever on the product's chunks, vectors and questions: `make peers`.

As its documentation shows it: BM25Retriever and FAISS, 30 each, weights 0.5 and 0.5, c = 60. jieba cuts the words, as
its users do for Chinese; "tended" cuts them with more care than the documentation takes.
"""

import sys
from collections.abc import Callable
from functools import partial

import judging
from judging import DEPTH, Exported, Search
from langchain_classic.retrievers import EnsembleRetriever
from langchain_community.retrievers import BM25Retriever
from langchain_community.vectorstores import FAISS
from langchain_core.embeddings import Embeddings


class Known(Embeddings):
    """The product's own query vectors."""

    def __init__(self, exported: Exported) -> None:
        self._known = exported.known_vectors

    def embed_query(self, text: str) -> list[float]:
        return self._known[text]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        raise AssertionError("the chunks are embedded")


def ensemble(exported: Exported, *, cut: Callable[[str], list[str]]) -> Search:
    texts = [chunk["text"] for chunk in exported.chunks]
    # Told apart by number: two documents may hold the same text.
    metadatas = [{"document": chunk["document"], "chunk": number} for number, chunk in enumerate(exported.chunks)]
    words = BM25Retriever.from_texts(texts, metadatas=metadatas, preprocess_func=cut, k=DEPTH)
    pairs = list(zip(texts, exported.chunk_vectors.tolist(), strict=True))
    # Vectors have length 1: the nearest are those of the greatest cosine.
    meaning = FAISS.from_embeddings(pairs, Known(exported), metadatas=metadatas).as_retriever(
        search_kwargs={"k": DEPTH}
    )
    both = EnsembleRetriever(retrievers=[words, meaning], weights=[0.5, 0.5], id_key="chunk")
    return lambda question: [chunk.metadata["document"] for chunk in both.invoke(question)]


if __name__ == "__main__":
    sys.exit(
        judging.main(
            __doc__,
            {
                "LangChain": partial(ensemble, cut=judging.plain),
                "LangChain, tended": partial(ensemble, cut=judging.tended),
            },
        )
    )
