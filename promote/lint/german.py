"""Tell a German clause that orders from one that states."""

from __future__ import annotations

import re

_GERMAN_ORDERS = re.compile(
    r"\b(verwende|nutze|benutze|setze|lies|lese|prüfe|rufe|schreibe|frage|suche|führe|gib"
    r"|nimm|vermeide|achte|stelle|füge|beschränke|begrenze|filtere|verbinde|ersetze|starte|lösche"
    r"|erstelle|lege|erhöhe|wandle|rechne|gruppiere|zähle|sortiere|lade|hole|öffne|schließe|trage"
    r"|aktiviere|deaktiviere|wähle|behandle|bilde|teile|runde|warte|speichere|lass|halte|beachte"
    r"|übergib|definiere|installiere|wiederhole|beziehe|ermittle|schlage|konvertiere|multipliziere"
    r"|addiere|schalte|entferne|ergänze|sende|berechne|summiere|grenze|greife|dividiere"
    r"|vergleiche|interpretiere|schicke|hol|leg|stell|setz|nutz|such|frag|schreib|prüf|füg|ruf|mach"
    r"|zähl|lad|zieh|schau|sieh|trag|bau|schalt|teil|kürz|bind|plan|rechne|wähl)\b"
    r"|\w+en\s+sie\b",
    re.IGNORECASE,
)
_GERMAN_FRONT = re.compile(
    r"\W*(?:(?:bitte|dann|danach|zuerst|immer|nie|niemals|auch|stattdessen|und) )*"
    r"(?!(?:die|eine|keine|diese|jede|alle|viele|manche|beide|ohne|ihre|seine|meine|unsere|welche"
    r"|solche|einige|mehrere|ende|gute|neue|alte|große|kleine|heute|gerade|beinahe)\b)[a-zäöüß]{2,}"
    r"e (?:(?:de[nmr]|die|das|eine?[nmr]?|keine?[nmr]?|im|ins?|am|ans?|auf|mit|für|nach|vor|bei"
    r"|zu[mr]?"
    r"|aus|vo[nm]|über|unter|ab|nie|immer|nur|auch|zuerst|erst|beide|alle|dafür|dazu|statt|per|dich"
    r"|sie|zwischen|neben|ohne|jede[nmrs]?)\b|\S*[_/.=A-Z\d-])",
    re.IGNORECASE,
)
_GERMAN_INFINITIVE = re.compile(r"\b[a-zäöü]\w+(?:en|ern|eln)\W*$")
_GERMAN_FINITE = re.compile(
    r"\b(?:ist|sind|war|waren|wird|werden|wurden?|hat|haben|hatten?|kann|können|muss|müssen|soll"
    r"|sollen|darf|dürfen|will|wollen|um|wenn|weil|dass|lässt|lassen|ich|wir)\b|^\W*(?:und "
    r"|oder |aber )?die \w+ \w+en\W*$",
    re.IGNORECASE,
)


def german_orders(clause: str) -> bool:
    """Say whether a German clause orders: `Trage den …`, `… danach starten`, but not `wird … `."""
    if _GERMAN_ORDERS.search(clause):
        return True
    if _GERMAN_FINITE.search(clause):
        return False
    return bool(_GERMAN_FRONT.match(clause) or _GERMAN_INFINITIVE.search(clause))
