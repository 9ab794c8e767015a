"""Lint how a lesson is put: an instruction, standing alone, general, about nobody."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lessons_loop.filter.terms import without_plain_days
from lessons_loop.promote.lint.findings import Finding, holds, rejects
from lessons_loop.promote.lint.imperative import Mood, mood_of
from lessons_loop.promote.lint.language import guess_language

_I = re.IGNORECASE
_MOODS = {
    Mood.QUESTION: rejects("non-imperative", "asks a question instead of telling what to do"),
    Mood.STATEMENT: rejects("non-imperative", "states a fact without telling what to do"),
    Mood.OBLIGATION: holds("non-imperative", "describes an obligation, gives no instruction"),
}
_OTHER_STATEMENT = holds("non-imperative", "may state a fact without telling what to do")


def find_mood(text: str) -> Iterator[Finding]:
    """Yield a finding unless the text tells its reader what to do."""
    mood, language = mood_of(text), guess_language(text)
    other = mood is Mood.STATEMENT and language != "en"
    if other or (mood is Mood.UNDECIDED and text.isascii()):
        yield _OTHER_STATEMENT
    elif finding := _MOODS.get(mood):
        yield finding


_FIRST_PERSON = re.compile(
    r"(?<![\w/-])I(?:'m|'ve|'d|'ll|’m|’ve|’d|’ll)?(?![\w/-])(?!\s*\+)|\b(?:my|mine|myself)\b"
    r"|(?<![/\w.])me\b(?!\.)|\bour (?:team|boss|manager|colleague|customer|client|meeting)s?\b"
)
_FIRST_PERSON_ELSEWHERE = {
    "de": r"\b(?:ich|mein\w*|mir|mich)\b",
    "fr": r"\b(?:je|mon|mes|moi)\b|\bj['’]",
    "es": r"\b(?:yo|mi|mis)\b",
    "it": r"\b(?:io|mio|mia|miei)\b",
    "pt": r"\b(?:eu|meu|minha|meus|minhas)\b",
    "nl": r"\b(?:ik|mijn)\b",
    "ru": r"\b(?:я|мой|моя|моё|мои|меня|мне)\b",
    "zh": "我(?!们)",
    "ja": "私|僕",
}
_WE = re.compile(r"\bwe\b|\b(?:for|let|tell|ask|give) us\b")
_NAME = r"(?:[A-ZÄÖÜ][a-zäöüß]{2,}(?: [A-ZÄÖÜ][a-zäöüß]{2,})?)"
_MONTH = (
    r"(?:january|february|march|april|may|june|july|august|september|october|november|december"
    r"|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)"
)
_DAY = (
    rf"(?:\d{{1,2}}(?:st|nd|rd|th|\.)? (?:of )?(?i:{_MONTH})|(?i:{_MONTH}) \d{{1,2}}\b"
    r"|\d{4}-\d\d-\d\d)"
)
_PERSON = re.compile(
    rf"\b(?i:with|from|by|to|ask|tell|call|for|and|contact|remind|phone|ring|mail"
    rf"|e-mail) {_NAME}\b[^.;]{{0,40}}\b(?:on"
    rf"|at|until|by) {_DAY}"
    rf"|\b(?i:born (?:on |in )?\d|date of birth|geboren am)"
    rf"|\b(?:Mr|Mrs|Ms|Dr|Herr|Frau|Mme|Señora?)\.? {_NAME}|\b(?:birthday|salary|diagnos\w+"
    rf"|home address)\b"
    rf"|\b{_NAME}['’]s (?:salary|birthday|phone|address|account|review|laptop|password|vacation"
    rf"|leave|ticket)\b"
    r"|\b(?:his|her) (?:salary|birthday|phone|address|e-?mail|account|password|illness|vacation"
    r"|sick leave)\b"
)


_NAMED = re.compile(
    r"\b(?i:ask|contact|phone|ring|text|write to|talk to|consult|notify|ping|frage|kontaktiere) "
    r"[A-ZÄÖÜ][a-zäöüß]+ [A-ZÄÖÜ][a-zäöüß]+\b"
)


def find_personal(text: str) -> Iterator[Finding]:
    """Yield first-person statements and facts about one person."""
    elsewhere = _FIRST_PERSON_ELSEWHERE.get(guess_language(text))
    if found := _FIRST_PERSON.search(text):
        yield rejects("personal", f"speaks of one person: '{found.group().strip()}'")
    elif elsewhere and (found := re.search(elsewhere, text, _I)):
        yield rejects("personal", f"speaks of one person: '{found.group()}'")
    elif found := _WE.search(text):
        yield holds("personal", f"speaks as a group: '{found.group()}'")
    if found := _PERSON.search(text):
        yield rejects("personal", f"ties something to a person: '{found.group()[:60]}'")
    elif found := _NAMED.search(text):
        yield holds("personal", f"may name a person: '{found.group()[:60]}'")


_ORDINAL = (
    r"(?:first|second|third|fourth|last|previous|earlier|other|latter|former|above|next|same"
    r"|aforementioned)"
)
_THING = (
    r"(?:one|ones|query|queries|quer(?:y|ies)|column|table|value|option|strategy|approach|way"
    r"|method|command|file|fix"
    r"|setting|version|parameter|name|key|call|solution|error|message|answer|reply|step|attempt"
    r"|script|tool|result|list)"
)
_POINTERS = re.compile(
    r"\b(?:this|that|these|those|the (?:other|latter|first|second|third|last)) ones?\b"
    r"|\b(?:as|see|mentioned|described|shown|listed|discussed|stated|explained|seen|noted)"
    r" (?:above|before|below|earlier|previously|already)\b|\bsee previous\b|\bthe above\b"
    r"|\bas (?:discussed|mentioned|agreed|requested|suggested|noted)\b"
    r"|\bthis (?:user|customer|conversation|chat|session|thread|assistant)\b"
    r"|\bthe (?:user|customer|client)['’]s\b(?! (?:\w+ )?(?:settings?|ids?|zone|locale|mailbox|home"
    r"|folder|browser|language|session|token|profile|group|currency|table|row|record|name|key)\b)"
    r"|\bthe (?:previous|last|earlier|other|same|current) (?:chat|conversation|session|discussion"
    r"|question|answer|message|reply)\b"
    r"|\bthe (?:user|customer|assistant) (?:\w+ed|wants?|said|says|asks?|needs?|likes?|gave|told"
    r"|has|prefers|mentions?)\b"
    r"|\bin (?:this|the current|the present|our) (?:chat|conversation|case|session|thread"
    r"|discussion|example)\b|\b(?:like|same as|as) (?:before|last time)\b"
    r"|\b(?:wie (?:oben|zuvor|erwähnt|besprochen)|comme (?:ci-dessus|mentionné)|zie boven"
    r"|como (?:arriba|se mencionó)|come sopra|как (?:выше|указано выше))|如上|上述|前述|上記",
    _I,
)
_OTHER_THING = re.compile(
    rf"\b(?:the|that|this) {_ORDINAL} {_THING}\b"
    r"|\bthe (?:right|wrong|correct|good|working) (?:one|way)\b|^(?!.*\bold\b).*\bthe new one\b",
    _I,
)
_DEMONSTRATIVE_ELSEWHERE = {
    "de": re.compile(
        r"\b(?:[Dd]ies(?:e[rnms]?)?|[Jj]ene[rnms]?) (?:[A-ZÄÖÜ]\w+)|\bder andere[nr]?\b"
    ),
    "fr": re.compile(r"\b(?:cette|cet|ces) \w+|\bce (?!qui\b|que\b|sont\b|n)\w+", _I),
    "es": re.compile(r"\b(?:est[ea]|es[ea]|est[oa]s|es[oa]s) \w+", _I),
    "it": re.compile(r"\bquest[oaie] \w+", _I),
    "pt": re.compile(r"\b(?:est[ea]s?|ess[ea]s?) \w+", _I),
    "nl": re.compile(r"\b(?:deze|dit) \w+", _I),
    "ru": re.compile(r"\b(?:эт(?:от|у|ой|ом|их|ого)|эта|эти) \w+", _I),
    "zh": re.compile("这个|这些|那个|上面的"),
    "ja": re.compile("(?:この|その|あの)(?!他|ため|場合|まま|後|とき)"),
}
_SOMEBODY = re.compile(
    r"\bthe (?:user|assistant)\b(?! (?:table|id|name|account|group|role)|['’]s )", _I
)
_BARE_START = re.compile(
    r"^\W*(?:(?:always|never|then|please|do not|don't|instead|just|only) )*"
    r"(?:(?:this|these|those|it|that|they|he|she)\b(?! (?:is|are) (?:a|an|the)\b)"
    r"|(?!(?:check|ensure|verify|sure|confirm|assume|test|assert|require|expect|see|note|know) that"
    r" the)[a-z]+ (?:it|them|this|that|these|those|there|here|him|her)(?:\W*$|[.,;:!]| (?:as|in|to"
    r"|with|on|by|for|again|instead"
    r"|like|until|first|after|before|when|if|the|into|from|at)\b))",
    _I,
)
_DEMONSTRATIVE = re.compile(
    rf"\b(?:this|these|those) (?!(?:way|case|time|is|are|was|only|also|means|happens"
    r"|that|which|who|whose|with|of|in|for|whom)\b)[a-z]+"
    rf"|(?<![a-z]s )\bthat {_THING}\b",
    _I,
)


def find_dangling(text: str) -> Iterator[Finding]:
    """Yield references to something outside the lesson."""
    first = re.split(r"[.;:]\s|, (?:because|since|as|so)\b", text, maxsplit=1)[0]
    if found := _POINTERS.search(text):
        yield rejects("not-standalone", f"points outside itself: '{found.group()}'")
    elif found := _BARE_START.search(text):
        yield rejects("not-standalone", f"does not say what it is about: '{found.group().strip()}'")
    elif found := _DEMONSTRATIVE.search(first):
        yield rejects("not-standalone", f"points outside itself: '{found.group()}'")
    elif found := _OTHER_THING.search(first) or _SOMEBODY.search(text) or _elsewhere(first, text):
        yield holds("not-standalone", f"may point outside itself: '{found.group()}'")


def _elsewhere(first: str, text: str) -> re.Match[str] | None:
    form = _DEMONSTRATIVE_ELSEWHERE.get(guess_language(text))
    return form.search(first) if form else None


_AMOUNT = re.compile(
    r"(?:[€$£¥]\s?\d[\d.,]*\d|\b\d[\d.,]*\d\s?(?:€|EUR|USD|GBP|CHF|JPY|dollars?|euros?|yen)\b)"
    r"|\b\d{1,3}(?:[.,]\d{3})+[.,]\d\d\b"
)
_CASE = re.compile(
    r"\b(?:order|ticket|invoice|customer|charge|case|patient|incident|request|booking|account"
    r"|employee|work order|machine|mail|e-mail|message|article|device|sensor|vehicle|policy|claim"
    r"|document|parcel|delivery"
    r"|shipment|contract|payment|refund|user|run|job)s? (?:no\.? ?|number |nr\.? ?|id "
    r"|#)?#?(?!19\d\d|20\d\d)\d{3,}\b"
    r"|\b(?!ISO|RFC|CVE|SHA|UTF|COVID|MD|AES|RSA|EU|US|MIMIC|GPT|SQL)[A-Z]{2,6}-\d{3,6}\b"
    r"|\b[a-z]{1,12}-(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,20}\b|\b[0-9a-f]{32,64}\b"
    r"|\b(?:pod|job|node)s?[ /](?=\S*\d)[a-z][a-z0-9.]*(?:-[a-z0-9.]+){2,}"
    r"|\b[a-z]{2,4}_(?=\w*\d)(?=\w*[A-Z])[A-Za-z0-9]{8,}\b"
    r"|\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b",
)
_RESULT = re.compile(
    r"^\W*(?:report|answer|say|tell|state|give|reply|return|quote|note"
    r"|remember)\b(?=.*\b\d[\d.,]*\b).*\b(?:is the|are the|was|were"
    r"|sum of|total of|as the)\b",
    _I,
)
_DATE = re.compile(
    rf"\b(?:{_MONTH}\w* (?:\d{{1,2}},? )?(?:19|20)\d\d|\d{{1,2}}\.? {_MONTH}\w*|(?:19"
    rf"|20)\d\d-\d\d-\d\d|\d\d?\.\d\d?\.20\d\d"
    r"|yesterday|tomorrow|tonight|(?:last|next) (?:night|week|month|monday|tuesday|wednesday"
    r"|thursday"
    r"|friday|saturday|sunday)['’]s|(?:mon|tues|wednes|thurs|fri|satur|sun)day['’]s"
    r"|this (?:morning|afternoon|week|month|quarter)|right now"
    r"|at the moment|today's)\b",
    _I,
)


def find_one_off(text: str) -> Iterator[Finding]:
    """Yield results and single cases: a lesson is a rule."""
    if found := _AMOUNT.search(text) or _CASE.search(text) or _RESULT.search(text):
        yield rejects("one-off", f"tells one case instead of a rule: '{found.group()[:60]}'")
    elif found := _DATE.search(without_plain_days(text)):
        yield holds("one-off", f"is tied to a date: '{found.group()}'")
