"""Hold what an exchange was told but did not show, and what rests on a tool that acts on the world.

A user's words ground a lesson's names, so two accounts can say anything behind an honest query.
Advice whose words stand in a user's remarks only is somebody's word: a person looks. So is
advice from a tool that pays, grants, sends, deletes or approves: that it worked is no reason
to do it for everybody.
Covered: words by their beginnings, twelve-hundred characters of excerpt, tools by their names.
Not covered: what is put into the arguments of a call that ran; the lint looks at those words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from lessons_loop.filter.cues import corrects
from lessons_loop.filter.models import Candidate
from lessons_loop.promote.lint.findings import Finding, holds
from lessons_loop.promote.lint.language import word_set

_TOLD_WORDS = 2
_TOLD_SHARE = 0.25
_STEM = 5
"""Letters by which two forms of one word are the same."""
_WORD = re.compile(r"[^\W\d_]{4,}|[぀-ヿ㐀-鿿가-힯]{2}")
_PROPER = re.compile(r"(?<=[a-z0-9,] )[A-Z][a-zà-ÿ]{3,}\b")
_SENTENCE = re.compile(r"(?<=[.!?。！？])\s*")
_PIECE = re.compile(r"[A-Z]?[a-zäöüß]+|[A-Z]+(?![a-z])")
_COMMENT = re.compile(r"/\*.*?\*/|(?:--|//|(?:^|\s)#)\s[^\n]*", re.DOTALL)
"""In a call a comment does nothing: what stands there is told, not shown."""
_PLAIN = word_set("""
with when that this from into than then them they there their these those which while where what
will would could should must have been were does done only also just more most less least very
each every both other another such some same like using used uses make makes made take takes give
gives because since after before instead without within between over under about again works work
worked right correct exactly exact perfect thanks thank please nice great good fine matches matched
solved fixed working needed always never even still here well yes that's value values
""")
_ACTS = word_set("""
approve grant authorize authorise permit invite enroll promote delete remove purge wipe erase
destroy truncate revoke mute silence unlock override bypass pay payout refund charge transfer buy
purchase sell book sign send mail email sms notify share publish forward upload submit merge
cancel close subscribe hire fire dispatch order shutdown impersonate terminate
freigeben genehmigen zahlen bezahlen überweisen löschen senden schicken teilen bestellen buchen
sperren entsperren kündigen stornieren
accorder approuver autoriser payer virer supprimer envoyer partager commander
aprobar autorizar pagar transferir borrar eliminar enviar compartir comprar
""")
_ACT_PAIRS = re.compile(
    r"(?:add|create|set|change|reset|update|assign|make|drop|open|rotate|new)_?\w*"
    r"(?:user|member|admin|role|account|group|acl|owner|password|passwor[dt]\w*|permission|access"
    r"|right|door|gate|valve|meter|payment|invoice|price|discount|limit)s?"
    r"|(?:passwor[dt]|kennwort|konto|zugang|rolle)\w*_(?:neu|set|reset|ändern|zurücksetzen)",
    re.IGNORECASE,
)
_READS = word_set("list get read search find query show describe count check look view fetch")


def find_acting(candidate: Candidate) -> Iterator[Finding]:
    """Yield a finding where the evidence rests on a tool that acts on people, money or rights."""
    for tool in candidate.evidence.tools:
        if acts(tool):
            yield holds("acts", f"rests on '{tool[:40]}', a tool that acts: a person decides")
            return


def acts(tool: str) -> bool:
    """Say whether a tool's name tells that it does something nobody can take back."""
    pieces = [piece.casefold() for piece in _PIECE.findall(tool)]
    if not pieces or pieces[0] in _READS:
        return False
    return not _ACTS.isdisjoint(pieces[:1] + pieces[-1:]) or bool(_ACT_PAIRS.fullmatch(tool))


def find_told(
    candidate: Candidate, asked: str, remarks: str, shown: Iterable[str]
) -> Iterator[Finding]:
    """Yield a finding where the advice stands in remarks or documents and in nothing that ran.

    `remarks` are the user's and what documents say, `shown` calls and their results.
    """
    known = _stems(" ".join([asked, *map(_bare, shown), *candidate.evidence.tools]))
    told = _stems(remarks) - known
    words = _stems(candidate.lesson.text)
    only = words & told
    if named := _named(candidate.lesson.text, remarks) & {word[:_STEM] for word in only}:
        yield holds("told", f"told, by nothing that ran: {', '.join(sorted(named))}")
    elif len(only) >= _TOLD_WORDS and len(only) >= _TOLD_SHARE * len(words):
        some = ", ".join(sorted(only)[:4])
        yield holds("told", f"was told by a user or a document, nothing that ran shows it: {some}")


def _bare(text: str) -> str:
    return _COMMENT.sub(" ", text)


def asked_and_remarked(said: Sequence[str]) -> tuple[str, str]:
    """Return what was asked, and what was remarked: all later lines, and behind a first question.

    Orders in a first message are remarks too; its first sentence is its question at least.
    """
    if not said:
        return "", ""
    sentences = [part for part in _SENTENCE.split(said[0]) if part.strip()]
    asked = [part for part in sentences if part.rstrip().endswith(("?", "？"))] or sentences[:1]
    rest = [part for part in sentences if part not in asked]
    carried_out = [line for line in said[1:-1] if corrects(line)]
    remarks = [line for line in said[1:] if line not in carried_out]
    return " ".join([*asked, *carried_out]), "\n".join([*rest, *remarks])


def _named(text: str, remarks: str) -> frozenset[str]:
    """Return the beginnings of names that a text has behind its first word, and remarks too."""
    names = set(_PROPER.findall(text)) & set(re.findall(r"\w+", remarks))
    return frozenset(name.casefold()[:_STEM] for name in names)


def _stems(text: str) -> frozenset[str]:
    words = (word.casefold() for word in _WORD.findall(text.replace("_", " ")))
    return frozenset(word[:_STEM] for word in words if word not in _PLAIN)


_NAME = re.compile(r"[A-Za-z0-9]+(?:[._-]+[A-Za-z0-9]+)*")
_TWINS = str.maketrans({"I": "l", "1": "l", "|": "l", "0": "o", "O": "o", "5": "s", "S": "s"})


def find_twins(text: str, excerpt: str) -> Iterator[Finding]:
    """Yield a finding where a name looks like another one that is there: `user_Iogin`."""
    alike: dict[str, set[str]] = {}
    for name in _NAME.findall(f"{text}\n{excerpt}"):
        alike.setdefault(_skeleton(name), set()).add(name)
    for name in _NAME.findall(text):
        if len(name) < _STEM or name.isdigit():
            continue
        for other in sorted(alike[_skeleton(name)]):
            if name.casefold() != other.casefold():
                yield holds("look-alike-name", f"'{name[:40]}' looks like '{other[:40]}'")
                return


def _skeleton(name: str) -> str:
    """Return a name with letters that look alike made the same."""
    return name.translate(_TWINS).casefold().replace("rn", "m").replace("vv", "w")
