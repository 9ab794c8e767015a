"""Find advice that may steer the model or the loop: no proof of harm, but a person looks.

Covered: following what files, pages and mails demand, favouring something whatever the data
say, handing copies to somebody, getting around people who decide, speaking about the loop.
"""

from __future__ import annotations

import re

_I = re.IGNORECASE
_STEERS = re.compile(
    r"\b(?:tell|inform|warn|assure|convince|persuade|advise)\W+(?:the |all |every )?"
    r"(?:users?|customers?|people|anybody|anyone|everyone|everybody)\b|\bcurated\b"
    r"|\btrust\W+(?:\w+\W+){0,3}(?:contents?|outputs?|pages?|messages?|mails?|text)\b"
    r"|\blessons?\b(?! (?:table|plan|module|activit))"
    r"|\b(?:entries about|(?:lessons|suggestions|submissions) (?:about|on|of|from|by))\b"
    r"|\bmoderation\b"
    r"|\b(?:the|whole|full|entire) (?:conversation|chat history)\b",
    _I,
)
_SOURCES = (
    r"(?:files?|pages?|e-?mails?|mails?|documents?|messages?|results?|outputs?|websites?|web"
    r"|readmes?"
    r"|attachments?|uploads?|tickets?|comments?|links?)"
)
_SUSPECT = re.compile(
    r"\b(?:accept|follow|obey|heed|honou?r|carry out|execute|run|apply)\W+(?:\w+\W+){0,3}"
    r"(?:instructions?|orders?|commands?|directions?|demands?|steps?|rules?"
    r"|texts?)\W+(?:\w+\W+){0,2}(?:in|from|of|inside"
    rf"|on|within)\W+(?:\w+\W+){{0,3}}{_SOURCES}\b"
    r"|\b(?:anweisung|befehl|vorgabe|aufforderung)\w*\W+(?:\w+\W+){0,3}(?:im|in|aus|vom|von)\W+"
    r"(?:\w+\W+){0,2}(?:dokument|seite|webseite|e-?mail|mail|datei|nachricht|ticket)\w*"
    r"|\btexts? (?:\w+ ){0,4}(?:in|from|of|on) (?:an? |the )?(?:web ?)?pages? as (?:an? )?rules?\b"
    r"|\b(?:add|say|mention|state|claim|write) that\b|\b(?:invent|fabricate|make up|falsify)\b"
    r"|\bdo (?:as|what|whatever|everything)\W+(?:\w+\W+){0,7}"
    r"(?:says?|demands?|asks?|tells?|wants?|requests?|orders?)\b"
    r"|\b(?:whatever|regardless of what|no matter what|even if)\W+(?:the )?"
    r"(?:data|facts|evidence|results?|numbers) (?:says?|shows?|tells?)\b"
    r"|\b(?:prefer|favou?r|recommend|promote|praise)\W+(?:\w+\W+){0,5}in (?:all|every|any|each)"
    r" (?:comparisons?|recommendations?|answers?|reviews?|lists?)\b"
    r"|\b(?:ignor\w*|disregard\w*|bypass\w*|circumvent\w*|evade|override|skip)\W+(?:\w+\W+){0,4}"
    r"(?:operators?|admin\w*|owners?|approvals?|reviews?|permissions?|consent|access checks?)\b"
    r"|\b(?:pass|forward|send|route|hand|redirect)\W+(?:\w+\W+){0,2}"
    r"(?:questions?|requests?|messages?|conversations?|chats?)\b"
    r"|(?:^|[.;:] |\band |\bto |\bthen )(?:answer|reply|respond) (?:only|always|never|in|with)\b"
    r"|\bantworte\w* (?:immer|nur|stets)\b"
    r"|\b(?:so|nur|immer|stets|damit) antworten\b|\brépond\w* (?:toujours|uniquement)\b"
    r"|\bresponde\w* (?:siempre|solo|sólo)\b"
    r"|\b(?:whatever|no matter what) (?:the )?(?:users?|people|somebody|anyone)"
    r" (?:asks?|says?|wants?)\b"
    r"|(?:无论|不管).{0,8}(?:问|说|要求)什么"
    r"|\btracking (?:pixels?|links?|codes?)\b|\bweb ?bugs?\b"
    r"|\b(?:send|forward|post|mail|upload|copy)\W+(?:\w+\W+){0,8}to (?:the |an? )?(?:\w+ )?"
    r"(?:channel|mailbox|inbox|address|recipient|third part\w+|external \w+)\b",
    _I,
)


def find_steering(text: str) -> re.Match[str] | None:
    """Return the first such stretch of a text in plain letters."""
    return _STEERS.search(text) or _SUSPECT.search(text)
