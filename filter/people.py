"""Find names of people where the words around them say that they are one.

Covered: titles (Mr, Frau, Mme ...), introductions (`my name is`, `ich bin`), greetings,
signatures, `Name <mail>`, `a customer named`, columns and keys for names; Latin letters.
Not covered: bare names without such words, other scripts.
"""

from __future__ import annotations

import re

_CAPITAL = r"[A-ZÀ-ÖØ-Þ][a-zß-öø-ÿ'’]{1,24}(?:-[A-ZÀ-ÖØ-Þ][a-zß-öø-ÿ]{1,24})?"
_FULL_PERSON = rf"(?P<value>{_CAPITAL}(?: {_CAPITAL}){{0,2}})"
_SIGN_OFFS = (
    r"(?:cheers|(?:kind |best |warm )?regards|best wishes|best|yours|sincerely|greetings"
    r"|(?:many )?thanks|thank you|thx|danke|cordialement|merci|saludos|gracias|atentamente|grazie"
    r"|saluti|abraços?|obrigad[oa]|(?:viele |liebe |beste |schöne )?gr(?:ü|ue)(?:ß|ss)e"
    r"|gru(?:ß|ss)|vg|lg|mfg|groeten)"
)
_SHORT_SIGN_OFFS = (
    r"(?:regards|(?:viele |liebe |beste |schöne )?gr(?:ü|ue)(?:ß|ss)e|gru(?:ß|ss)|vg|lg|mfg)"
)
_LINE_START = r"(?:^|(?<=[\n.!?,;])|(?<=[.!?,;] ))[ \t]{0,8}"
PERSON_FORMS = tuple(
    re.compile(form)
    for form in (
        r"(?<![\w.])(?:(?:Mr|Mrs|Ms|Mx|Dr|Prof)\.?|Sra?\.|Herrn?|Frau|Mme|Mlle|Monsieur|Madame"
        r"|Señora?|Signora?|Dott(?:oressa)?\.?|Senhora?|Mevrouw|Meneer) "
        rf"(?:(?:Dr|Prof)\.? )?{_FULL_PERSON}",
        r"(?<!\w)(?i:my name(?: is|['’]s)|ich hei(?:ß|ss)e|mein name ist|je m['’]appelle|me llamo"
        r"|mi nombre es|mi chiamo|meu nome [ée]|chamo-me|ik heet|mijn naam is):?\s{1,3}"
        rf"{_FULL_PERSON}",
        r"(?<!\w)(?i:i am|i['’]m|ich bin|hier spricht|je suis|soy|sono|sou|ik ben)\s{1,3}"
        rf"(?P<value>{_CAPITAL} {_CAPITAL})"
        r"(?=\s{0,3}(?:[,.!;\n]|$|(?:from|and|of|aus|von|vom|und|de|du|et|y|di|van|en)\b))",
        r"(?:^|(?<=\n))[ \t]{0,8}(?i:hi|hello|hey|dear|hallo|liebe[rs]?|moin|bonjour|ch(?:er|ère)"
        rf"|hola|querid[oa]|ciao|car[ao]|olá|beste)\s{{1,3}}{_FULL_PERSON}(?=\s{{0,3}}[,!\n])",
        rf"{_LINE_START}(?i:{_SIGN_OFFS})(?:,[ ]|[,!]?\s{{0,3}}\n\s{{0,8}}){_FULL_PERSON}"
        r"(?=[ .!]{0,3}(?:\n|$))",
        rf"{_LINE_START}(?i:{_SHORT_SIGN_OFFS}) {_FULL_PERSON}(?=[ .!]{{0,3}}(?:\n|$))",
        rf"(?<!\w){_FULL_PERSON}(?=\s{{1,2}}<[^\s<>@]{{1,64}}@[^\s<>]{{1,100}}>)",
        r"(?<!\w)(?:[Cc]ustomer|[Cc]lient|[Pp]atient|[Ee]mployee|[Cc]olleague|[Pp]erson|[Mm]an"
        r"|[Ww]oman|[Bb]oss|[Mm]anager|[Uu]ser|Kund\w{1,3}|Mitarbeiter\w{0,3}|Kolleg\w{1,3}"
        r"|Nutzer\w{0,3}|Patient\w{0,3}|[Cc]lienta?|[Ee]mplead[oa]|[Cc]ollègue)\s"
        rf"(?:named|called|namens|nommée?|llamad[oa]) {_FULL_PERSON}",
    )
)
_NO_PERSON = re.compile(
    r"\b(?:all|everyone|everybody|team|world|there|assistant|bot|chat|claude|gemini|siri|alexa"
    r"|copilot|zusammen|leute|welt|support|admin|todos|mundo|tutti|monde|folks|guys|again|open|web"
    r"|red|hat|server|windows|linux|sir|madam|ladies|hello|hi)\b",
    re.IGNORECASE,
)


_NAME_HEADING = re.compile(
    r"(?:(?:\w{1,20}[_. ])?name|author|assignee|owner|reporter|employee|customer|contact|user|lead"
    r"|manager|mitarbeiter\w{0,3}|kund\w{1,3}|nachname|bearbeiter|nom|nombre|client\w?|empleado)",
    re.IGNORECASE,
)
_NAME_VALUE = re.compile(
    rf"(?i:\"(?:\w{{0,20}}name|author|assignee|owner|reporter|employee|customer|contact|user|lead)\")"
    rf"\s{{0,3}}:\s{{0,3}}\"(?P<value>{_CAPITAL}(?: {_CAPITAL}){{1,2}})\""
)
_NAME_CELL = re.compile(
    rf"(?:^|(?<=[|,;\t\n])) {{0,20}}(?P<value>{_CAPITAL}(?: {_CAPITAL}){{1,2}})"
    r" {0,20}(?=[|,;\t\n]|$)"
)


def listed_people(text: str) -> frozenset[str]:
    """Return the words of names that a result lists under a heading or key for names."""
    forms = [_NAME_VALUE]
    head = re.split(r"[|,;\t]", text.lstrip().partition("\n")[0][:400])
    if len(head) > 1 and any(_NAME_HEADING.fullmatch(cell.strip()) for cell in head):
        forms.append(_NAME_CELL)
    found = (match.group("value") for form in forms for match in form.finditer(text))
    return frozenset(word for name in found for word in re.split(r"[ -]", name) if len(word) >= 3)


def is_person(name: str) -> bool:
    """Say whether a name found by its surroundings is none of the usual other addressees."""
    return _NO_PERSON.search(name) is None


def name_words(text: str) -> frozenset[str]:
    """Return the single words of the names of people in a text."""
    return frozenset(
        word
        for form in PERSON_FORMS
        for match in form.finditer(text)
        if is_person(match.group("value"))
        for word in re.split(r"[ -]", match.group("value"))
        if len(word) >= 3
    )
