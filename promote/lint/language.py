"""Guess the language of a sentence from its small words; unknown is an answer too."""

from __future__ import annotations

import re

_SMALL = {
    "en": "the a an and or of to in is are was when with for from by not it on as that if at be",
    "de": "der die das und oder ist sind nicht ein eine mit für von den dem im zu bei wenn statt "
    "an auf zuerst vor nach auch nur aus am in das des einer eines einem einen ohne durch über "
    "unter zwischen sonst wird werden kann muss steht sich dann danach damit denn bevor kein keine "
    "zum zur "
    "beim vom bis seit nie immer sie wie um als",
    "fr": "le la les un une et ou est sont ne pas avec pour dans du des sur par lors au que",
    "es": "el la los las un una y o es son no con para en del al por cuando que se",
    "it": "il lo la gli le un una e o è sono non con per nel della di al quando che",
    "pt": "o a os as um uma e ou é são não com para em no na do da ao quando que",
    "nl": "de het een en of is zijn niet met voor van in op bij als wanneer",
}
_LETTERS = re.compile(r"[^\W\d_]+")
_SCRIPTS = (
    ("ja", re.compile("[\u3040-\u30ff]")),
    ("zh", re.compile("[\u4e00-\u9fff]")),
    ("ko", re.compile("[\uac00-\ud7af]")),
    ("ru", re.compile("[\u0400-\u04ff]{3}")),
)


def word_set(text: str) -> frozenset[str]:
    """Return the words of `text`: word lists stay readable as prose."""
    return frozenset(text.split())


_SMALL_WORDS = {code: word_set(words) for code, words in _SMALL.items()}


def guess_language(text: str) -> str:
    """Return en, de, fr, es, it, pt, nl, ru, zh, ja or ko; an empty string where undecided."""
    for code, script in _SCRIPTS:
        if script.search(text):
            return code
    words = [word.casefold() for word in _LETTERS.findall(text) if not word.isupper()]
    scores = {code: sum(word in small for word in words) for code, small in _SMALL_WORDS.items()}
    top = max(scores.values())
    best = [code for code, score in scores.items() if score == top]
    if not top:
        return ""
    return "en" if "en" in best else best[0] if len(best) == 1 else ""
