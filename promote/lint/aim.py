"""Find advice that aims at people, talk, trust or the loop instead of a system: a person looks.

A lesson tells how to work with an outside system. What orders somebody to speak in a certain
way, favours a vendor, rests on who is said to have allowed it, opens a right, lowers a check or
steers what happens to other lessons is no such advice, whatever its words.
Covered: English by kinds of verb, object and reason; ten more languages by verbs of talking.
Not covered: a planted fact about a system that reads like any other; evidence is for that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from lessons_loop.promote.lint.findings import Finding, holds
from lessons_loop.promote.lint.imperative import clauses, command_phrases
from lessons_loop.promote.lint.reasons import FAVOURS, PERSON, REASONS
from lessons_loop.promote.lint.specifics import touches_system

_I = re.IGNORECASE
_TALKS = re.compile(
    r"(?:^\W*(?:(?:always|never|please|also|just|then|first|only|do not|don't|simply|instead) )*"
    r"|\b(?:and|or|then|but) (?:then |also |never |always |do not |don't )?)"
    r"(?:say|mention|tell(?! [^.;]* from )|claim|recommend|suggest|praise|cite|assure|introduce"
    r"|greet|apologi[sz]e|emphasi[sz]e|stress|insist|advise|advertise|endorse|portray|downplay"
    r"|play down|understate|exaggerate|conceal|withhold|promise|speak|talk|sound|pretend|behave"
    r"|respond|reply|answer|steer|nudge|persuade|convince|encourage|discourage|urge|remind|thank"
    r"|congratulate|propose|pitch|tout|hype|laud|inform|reassure|joke|sing|rhyme|critici[sz]e"
    r"|mock|insult|flatter|agree|disagree|refuse|decline|admit|vouch|side with|bring up"
    r"|point out|pass on|hand (?:over|out)|sign off|defer to|go along|comply|obey|believe"
    r"|address (?:the |every )?user\w*|sell|offer|impersonate|lie|gloss over|hint|allude"
    r"|stay silent"
    r"|explain|compose|draft|narrate|translate (?:the |every |all )?(?:following|texts?"
    r"|sentences?|answers?)|steer clear of mention\w*|confide|disclose|reveal|go ahead)\b",
    _I,
)
_SPOKEN = re.compile(
    r"\b(?:the|an?|every|each|any|your|all|of|to|in|beneath|under|below|after|with|its)"
    r" (?:\w+ ){0,2}(?:repl(?:y|ies)|summar(?:y|ies)|footers?|greetings?"
    r"|disclaimers?|caveats?|wording|tone|opinions?|citations?|advice|recommendations?"
    r"|suggestions?|slogans?|phrases?|sentences?|compliments?|conversations?|talk|small talk)\b"
    r"|\byour (?:\w+ )?(?:responses?|messages?|text|words|output|language|writing)\b"
    r"|\b(?:add|append|prepend|put|insert|write|place|end|begin|start|close|finish|open"
    r"|sprinkle|weave|slip|work|include|repeat)\b(?: [\w'’-]+){0,6} answers?\b"
    r"|\b(?:voice|accent|persona|pirate|butler|cheerful|polite|friendly|humou?rous|sarcastic)\b"
    r"|\bsnippets\b|\b(?:unmentioned|unsaid|unspoken|undisclosed|untold)\b"
    r"|\b(?:prefer|believe|take|quote|use) (?:only )?the (?:numbers?|results?|answers?|figures?"
    r"|outputs?)"
    r" (?:from|of|by|that)\b|\b(?:line|words|phrase|sentence|sign-?off) ['\"“]",
    _I,
)
_HUSHED = re.compile(
    r"\b(?:silently|quietly|discreetly|unobtrusively|secretly|stealthily|under wraps|to yourself"
    r"|without (?:an? |any )?(?:word|trace|notice|mention|comment|fuss|further ado))\b",
    _I,
)
_GRANTS = re.compile(
    r"\b(?:grant|give|hand|allow|let|permit|entitle|admit|authori[sz]e|exempt)\W+(?:the |any "
    r"|every "
    rf"|all |each )?(?:\w+ )?(?:{PERSON}|him|her|them)\b",
    _I,
)
_LOWERS_CHECK = re.compile(
    r"\b(?:lower|soften|relax|loosen|mute|silence|disable|skip|remove|drop|omit|bypass|ignore"
    r"|suppress|downgrade|deactivate|dismiss|retire|stop|weaken|waive|cut|shorten|switch off"
    r"|turn off|leave (?:out|off)|comment out|do without|tone down)\W+(?:[\w-]+\W+){0,4}?"
    r"(?:scanners?|checks?|reviews?|tests?|alerts?|warnings?|alarms?|approvals?|confirmations?"
    r"|findings?|lint\w*|gates?|guard\w*|verification|audits?|caveats?|disclaimers?|look-?ups?"
    r"|monitoring|(?:security|dependency|vulnerability|virus|malware|secret|licen[cs]e) scans?)\b"
    r"|\b(?:mark|label|flag|tag|count|treat|declare)\W+(?:[\w-]+\W+){0,3}(?:tests?|failures?"
    r"|alerts?|findings?"
    r"|checks?|errors?)\b[^.;]{0,30}\bas (?:xfail|skipped|passed|flaky|known|expected|resolved"
    r"|done|fixed)\b"
    r"|#\s?(?:noqa|nosec|nolint|type: ?ignore)\b|\b(?:pylint|eslint)[:-] ?disable"
    r"|\b(?:call|label|name|mark|declare|deem) (?:it|them|these|those) (?:as )?(?:final|approved"
    r"|official"
    r"|done|verified|safe|settled)\b|\bskip (?:the )?(?:\w+ )?(?:stage|steps?|phase|canary"
    r"|staging|dry[- ]run)\b"
    r"|\b(?:warn|report|audit|log)-only\b|\bnon-blocking\b|\ballow[_ ]failure\b"
    r"|\bcontinue-on-error\b|\bpermissive\b",
    _I,
)
_HANDS_OUT = re.compile(
    r"\b(?:copy|send|cc|bcc|forward|upload|post|mail|e-?mail|paste|append|attach|export|share"
    r"|keep|store|save|place"
    r"|hand|pass|transfer|leak|publish|submit|report|encode|put|embed|include)\b\W+"
    r"(?:[\w~/.'’-]+\W+){0,10}?(?:/\S*\bpub(?:lic)?\b|blind copy|bcc|outside|external|public"
    r"|third[- ]part\w+"
    r"|partners?|pastebin|gist|image (?:address|url|link|tag)|query string|markdown image"
    r"|~?/?\.ssh\b|/etc/(?:shadow|passwd)|id_rsa|\.netrc|\.pgpass|keychain"
    r"|passwords?|customer (?:table|list|records?|figures?)|personal|salar\w+)(?!\w)",
    _I,
)
_EVADES = re.compile(
    r"\b(?:reword|rephrase|obfuscate|disguise|camouflage|pose as|evade|sneak|slip|dodge|trick|fool"
    r"|circumvent|get (?:around|past|round)|work (?:around|round)|sidestep|outsmart|smuggle"
    r"|bluff)\b"
    r"|\b(?:its|the) (?:filter|check|guard|scanner|gate|limit|rule|policy) (?:only|just|merely"
    r"|never)"
    r" (?:looks?|checks?|sees?|reads?|match\w*|applies|counts?|inspects?)\b",
    _I,
)
_BELIEVES = re.compile(
    r"\b(?:regard|treat|consider|accept|take|count|deem|rate|view|see|read|believe|assume)\W+"
    r"(?:[\w#.'’-]+\W+){0,8}?(?:as|to be|for|are|is) (?:\w+ ){0,2}(?:approved|verified|gospel"
    r"|authoritative|official|facts?|harmless|trusted|trustworthy|reliable|confirmed|binding"
    r"|legitimate|genuine|consent\w*|truth|credible|settled|safe)\b"
    r"|\b(?:trust|believe|rely on|wave|vouch for)\W+(?:\w+\W+){0,4}(?:statements?|claims?|sources?"
    r"|sites?|channels?|senders?|mails?|pages?|authors?|through|accounts?|people|users?)\b",
    _I,
)
_RANKS = re.compile(
    r"\b(?:name|list|rank|put|place|present|show|quote|feature|highlight|pick|choose|favou?r|prefer"
    r"|order|buy)\W+(?:the )?(?-i:[A-Z][a-z]+\w*)(?: [\w-]+){0,3} (?:first|on top|at the top"
    r"|ahead of|above (?:all|every|other)|favou?rabl\w+|as (?:the |our )?(?:best|safest|first"
    r"|default|preferred)|over (?:all|any|every|other)|whenever|whatever)\b",
    _I,
)
_GUARDS = re.compile(
    r"\b(?=\w*_|(?-i:\w*[a-z][A-Z]))\w*(?:permission|verified|access_?level|has_?access"
    r"|privilege|sudo"
    r"|host_?key|known_?hosts|audit|securit|trusted|allow_?list|whitelist|authori[sz])\w*"
    r"|\b(?:access|audit|security) logs?\b|\btrusted-host\b|\bhost keys?\b",
    _I,
)
_IN_COMMANDS = (
    (_HUSHED, "is to be done unnoticed"),
    (_GUARDS, "touches what decides on access"),
    (FAVOURS, "is for certain people"),
)
"""Looked for in what is to be done, without conditions and reasons."""
_IN_CLAUSES = (
    (_TALKS, "tells what to say"),
    (_SPOKEN, "acts on what is said"),
    (_GRANTS, "grants people something"),
    (_LOWERS_CHECK, "lowers a check"),
    (_HANDS_OUT, "hands something out"),
    (_EVADES, "gets around something that checks"),
    (_BELIEVES, "tells whom or what to believe"),
    (_RANKS, "favours a name"),
    (
        re.compile(
            r"\b(?:blogs?|slogans?|poems?|jokes?|essays?|(?:short )?stor(?:y|ies) (?:about|based"
            r"|of)|speech(?:es)?|headlines?|letter to|vowels?"
            r"|consonants?|anagrams?|typos|misspell\w*|rhymes?|every (?:second|third|fourth"
            r"|other) (?:letter"
            r"|word)|an example of)\b",
            _I,
        ),
        "is talk",
    ),
)
"""Looked for clause by clause, whether or not its verb is known."""
_TALK_BY_LANGUAGE = {
    "de": r"empfiehl|empfehle\w*|nenne?|erwähne?|verschweig\w*|sage?|behaupte\w*|lobe?|bewirb"
    r"|verschleier\w*|verheimlich\w*|verberg\w*|informiere?|antworte?|rate|versprich|versicher\w*"
    r"|erzähle?|vertraue?|genehmige?|gegenüber (?:kund|nutz|benutz|anwend)\w+"
    r"|(?:empfehlen|erwähnen|antworten|nennen|verschweigen|mitteilen|ausgeben|informieren)$",
    "fr": r"recommand\w*|répon\w*|mentionn\w*|dis|dites|cach(?:e|ez|er)|conseill\w*|vant\w*"
    r"|fais confiance|révèl\w*|affirm\w*",
    "es": r"recomiend\w*|recomendar|respond\w*|mencion\w*|oculta\w*|aconsej\w*|diga|di|dile"
    r"|confía\w*|revela\w*",
    "it": r"consiglia\w*|rispond\w*|menziona\w*|nascond\w*|raccomand\w*|dici|fidati|rivela\w*",
    "pt": r"recomend\w*|respond\w*|mencion\w*|escond\w*|diga|confie|revel\w*",
    "nl": r"adviseer|aanbeve\w*|antwoord\w*|vermeld\w*|verberg\w*|verzwijg\w*|zeg|vertrouw|beveel",
    "pl": r"poleca\w*|odpowiad\w*|ukry\w*|powiedz|ujawni\w*|öner\w*|cevap\w*|söyle\w*|gizle\w*",
}
_TALK_BY_SCRIPT = (
    r"рекоменд|отвеча|ответь|скрыва|скрой|упомина|говори|сообща|доверя|推荐|推薦|回答|回复|提及|隐瞒"
    r"|隐藏|告诉|密码|信任|勧め|答え|伝え|隠|信頼|추천|대답|말하|숨기|비밀번호|믿"
)
_TALK = {code: re.compile(rf"\b(?:{words})\b", _I) for code, words in _TALK_BY_LANGUAGE.items()}
_TALK_ANYWHERE = re.compile(
    rf"\b(?:{'|'.join(_TALK_BY_LANGUAGE.values())})\b|{_TALK_BY_SCRIPT}", _I
)
"""For a language nobody could tell, and for other scripts."""


_REASON = re.compile(
    r"(?:[,;:]|\bsince\b|\bbecause\b|\bas\b|\bso\b)\s+(?=(?:it|they|he|she|this|most|nobody|people"
    r"|everybody|the|our|some)\s)",
    _I,
)
_FACT = re.compile(r"\d|\bdefaults?\b|\bthere\b|['\"`]")


_REASON_END = re.compile(r"(?:(?![.;,:]\s).)+")


def _idle_reason(text: str) -> re.Match[str] | None:
    """Return a reason that names nothing of a system: `it never fails`. 1 % of good ones do."""
    for found in _REASON.finditer(text):
        reason = _REASON_END.match(text, found.end())
        if reason and _is_idle(reason.group()):
            return reason
    return None


def _is_idle(reason: str) -> bool:
    sound = _FACT.search(reason) or touches_system(reason)
    return not sound and not any(command_phrases(reason))


def find_aim(text: str, language: str) -> Iterator[Finding]:
    """Yield one finding where a text's advice aims at something other than a system."""
    for why, found in _aims(text, language):
        yield holds("aim", f"{why}: '{found.group().strip()[:60]}'")
        return


def _aims(text: str, language: str) -> Iterator[tuple[str, re.Match[str]]]:
    yield from _search(REASONS, (text,))
    yield from _search(_IN_CLAUSES, clauses(text))
    yield from _search(_IN_COMMANDS, command_phrases(text))
    if language != "en":
        yield from _search(((_TALK.get(language, _TALK_ANYWHERE), "tells what to say"),), (text,))
    elif found := _idle_reason(text):
        yield "gives a reason that names no system", found


def _search(
    forms: Iterable[tuple[re.Pattern[str], str]], parts: Iterable[str]
) -> Iterator[tuple[str, re.Match[str]]]:
    for part in parts:
        for form, why in forms:
            if found := form.search(part):
                yield why, found
