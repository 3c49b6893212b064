"""How two texts are compared without a model: sentences, words, and pairs of neighbouring Chinese characters."""

import re

CJK = re.compile(r"[\u3400-\u9fff\U00020000-\U0002ffff]+")
_WORD = re.compile(r"[^\W_\u3040-\u9fff\uac00-\ud7af\U00020000-\U0002ffff]+")
# A full stop ends a sentence only before a blank: not in 3.5 or example.com.
_SENTENCE = re.compile(r"[^。！？!?；;\n.]*(?:\.(?!\s|$)[^。！？!?；;\n.]*)*(?:[。！？!?；;]+[”’」』）)\"]*|\.|\n|$)")
# English words that two sentences share whatever they are about.
_ENGLISH = """
a an the is are was be been do does did can could should would will may must i you we they he she it my your our their
its this that these those to of in on for from with at by as and or if but not no than then so have has had how what
when where which who why many much long there here please me us them
"""
_FUNCTION_WORDS = frozenset(_ENGLISH.split())


def sentences(text: str) -> list[str]:
    """Return the sentences of `text` in order, each a literal part of it."""
    return [sentence for match in _SENTENCE.findall(text) if (sentence := match.strip())]


def words(text: str) -> set[str]:
    """Return the telling words of a text written with blanks, without their English endings."""
    return {_stem(word) for word in _WORD.findall(text.lower()) if word not in _FUNCTION_WORDS}


def pairs(run: str) -> list[str]:
    """Return the neighbouring pairs of a run of characters."""
    return [run[index : index + 2] for index in range(len(run) - 1)]


def features(text: str) -> set[str]:
    """Return what two texts can share: words and pairs."""
    return words(text) | {pair for run in CJK.findall(text) for pair in pairs(run)}


def _stem(word: str) -> str:
    for ending in ("ing", "ed", "es", "s"):
        if len(word) - len(ending) >= 3 and word.endswith(ending):
            return word.removesuffix(ending)
    return word
