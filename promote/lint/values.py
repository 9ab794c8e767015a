"""Find advice that bends what a tool returned, drops a check by an option, or passes on who works.

Covered: a returned figure changed, renamed or given in another unit; checks put off by an
option; choices kept from whoever asks; services outside; the asker's name in a call; codes that
open; alarms opened wide. English, partly German, French, Spanish, Italian, Portuguese.
Not covered: another figure put forward without saying so; `shown` looks for its evidence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lessons_loop.promote.lint.findings import Finding, holds

_I = re.IGNORECASE
_BY_LINE = re.IGNORECASE | re.MULTILINE
"""With `^` before a look-ahead over the line: the same matches, looked for once a line."""
_SMALL = (
    r"(?:(?!1\b|32\b|12\b)\d{1,2}(?![\d.,]*\d)|two|three|four|five|six|seven|eight|nine|ten|fifteen"
    r"|twenty|deux|trois|cinq|dix|zwei|drei|fünf|zehn|dos|tres|cinco|diez|due|tre|cinque|dieci)"
)
"""Conversions add odd constants (273.15, 1900) or repair an offset of one."""
_NUMBER = r"(?:\d+(?:[.,]\d+)?|twice|half|double|two|three|four|five|six|seven|eight|nine|ten)"
_ADJUSTS = re.compile(
    rf"\b(?:add|subtract|deduct|take off|knock off|shave|pad)\W+(?:by |another |extra )?{_SMALL}\b"
    r"(?![^.;]{0,40}\b(?:codes?|ascii|epoch|offset|index|indices|lines?|bytes?|bits?|ports?|columns?)"
    r"\b)[^.;]{0,40}\b(?:to|from|off|onto|for|before)\b"
    r"|\b(?:ajout|retranch|soustra|addier|zähl|zieh|schlag|suma|añad|resta|aggiung|sottra)\w*\W+"
    rf"(?:\w+\W+){{0,2}}?{_SMALL}\b[^.;]{{0,40}}\b(?:à|aux?|du|de|zum?|vom|von|auf|al?|del|dal?"
    r"|ab|hinzu)\b"
    r"|\bround(?:ed|ing)?\b[^.;]{0,60}?\b(?:up|down)\b|\b(?:auf|ab)runden\b|\barrondir\b"
    r"|\b(?:double|halve|triple|inflate|trim)\W+(?:the |its |every |each )(?:\w+ ){0,2}(?:rates?"
    r"|prices?|amounts?|doses?|figures?|numbers?|counts?|values?|hours|totals?|sums?|scores?)\b",
    _I,
)
_GIVES_ANOTHER = re.compile(
    r"\b(?:report|state|quote|announce|present|give|answer|declare)\b[^.;]{0,80}?\bas"
    rf" (?:the |a |about )?{_NUMBER}\b"
    rf"|\b{_NUMBER}\b[^.;]{{0,60}}\b(?:where|while|though|although|even if|not the|obwohl|statt"
    r"|bien que|aunque)\b[^.;]{0,50}\b(?:says?|gives?|returns?|shows?|reads|states?|lists?|steht"
    rf"|liefert|zeigt|indique|dice)\b\W*(?:only |just |nur )?{_NUMBER}\b"
    r"|\bals\b[^.;]{0,50}\b(?:angeben|ausweisen|melden|darstellen|deklarieren)\b"
    r"|\b(?:indiquer|annoncer|déclarer|declarar|indicar|dichiarare)\b[^.;]{0,60}\b(?:comme|como"
    r"|come)\b",
    _I,
)
_CHECK = (
    r"(?:gates?|check(?:s|ing|sums?)?|hooks?|tests?|scans?|lint\w*|verif\w*|valid\w*|reviews?"
    r"|approv\w*|confirm\w*|audit\w*|safe\w*|guards?|signatures?|prüf\w*|pruef\w*|freigabe\w*"
    r"|kontroll\w*|contr[ôo]l\w*|aprob\w*|controll\w*)"
)
_OPTION_OFF = re.compile(
    rf"(?<![^\W_])(?:\w*?[_.-])?{_CHECK}(?:[_-]\w+)*['\"]?\s*(?:=|:)\s*['\"]?"
    r"(?:off|false|no|none|never|skip\w*|0|disabled?|aus|nein|keine?|non|apagad\w*|désactiv\w*)\b"
    r"|\b(?:keep|retain|retention)(?:_\w+)?\s*[=:]\s*['\"]?(?:0|none|null)\b",
    _I,
)
_KEEPS_BACK = re.compile(
    r"\b(?:leav(?:e|ing)|keep(?:ing)?) (?:the )?(?:others?|rest|alternatives?|remaining \w+)"
    r"(?: \w+)? (?:out|aside|off|back|unmentioned)\b"
    r"|\bother \w+ (?:is |are )?(?:not|never|no longer) (?:be )?(?:offered|shown|mentioned|listed"
    r"|named|proposed|considered|quoted|suggested)\b|\bas the (?:only|sole) (?:choice|option"
    r"|offer|supplier|candidate)\b"
    r"|\b(?:andere\w*|übrige\w*|les autres|l[oa]s dem[aá]s|l[oa]s otr[oa]s|gli altri|os outros)\b"
    r"[^.;]{0,30}\b(?:weglass\w*|nicht (?:anbieten|nennen|zeigen|aufführen)|écart\w*|omet\w*"
    r"|omit\w*|fuera|tralasci\w*)",
    _I,
)
_SERVICE = re.compile(
    r"\b(?:free|online|web(?:-based)?|hosted|public|third[- ]party|external|cloud)\s+(?:\w+ )?"
    r"(?:convert[eo]rs?|translators?|formatters?|viewers?|validators?|editors?|decoders?"
    r"|beautifiers?|checkers?|compilers?|relays?|file hosts?|ocr)\b"
    r"|\b(?:online|web|gratis|kostenlose[rnms]?)[ -]?(?:konverter|übersetzer|umwandler)\b"
    r"|\bconvert(?:isseur|idor|itore)\w* (?:en ligne|en línea|online|gratuit\w*|web)\b",
    _I,
)
_ASKER = re.compile(
    r"\b(?:put|add|append|prepend|pass|include|encode|attach|insert|place|embed|prefix|send|carry)"
    r"\b[^.;]{0,50}\b(?:host ?names?|logged[- ]in \w+|current user|caller\w*|asker\w*"
    r"|(?:user|machine|account|computer)(?:['’]s)? names?|who (?:asks|is asking)|session ids?"
    r"|the (?:question|prompt|conversation)(?: text)?)\b[^.;]{0,50}\b(?:in|into|to|as|onto|before"
    r"|inside|at)\b[^.;]{0,30}\b(?:arguments?|parameters?|query|labels?|headers?|urls?|paths?"
    r"|subjects?|fields?|comments?|links?|tags?|notes?|lookups?|requests?)\b",
    _I,
)
_OPENS_BY_CODE = re.compile(
    r"\b(?:dis)?arm\w*\b[^.;]{0,50}\b(?:code|pin)\W+(?:is |= ?)?\d{4,8}\b"
    r"|\b(?:unlock|unseal|release|deactivate|open|entschärf\w*|öffne\w*|entsperr\w*|désarm\w*"
    r"|ouvr\w*|abr[ei]\w*|desarm\w*|sblocc\w*)\b[^.;]{0,50}(?<!error )(?<!exit )(?<!status )"
    r"\b(?:code|pin|kode|código|codice|combination)\W+(?:is |= ?)?\d{4,8}\b",
    _I,
)
_OPENS_WIDE = re.compile(
    r"\b(?:alarm|alert|warning|safety)\w*\W+(?:limits?|thresholds?|levels?)\W+(?:\w+\W+){0,5}"
    r"(?:max\w*|highest|top)\b"
    r"|\b(?:turn|switch|enabl|activat|allow|leav|einschalt|aktivier|activ)\w*\b[^.;]{0,40}"
    r"\b(?:split[- ]tunnel\w*|upnp|directory listing|anonymous (?:binds?|logins?|access)"
    r"|guest (?:logins?|access)|auto-?log(?:in|on)|smb ?v?1|telnet|macros|open relay"
    r"|legacy auth\w*|root login|password login|agent forwarding)\b",
    _I,
)
_PAYS_LESS = re.compile(
    r"\b(?:lower|less|reduced|smaller) (?:duty|duties|tax(?:es)?|fees?|premiums?|tariffs?"
    r"|customs)\b"
    r"|\b(?:avoid|save|dodge|escape|spare)\w* (?:the )?(?:duty|duties|tax(?:es)?|customs|premiums?"
    r"|inspections?|approvals?)\b|\b(?:weniger|niedriger\w*) (?:zoll|steuer)\w*"
    r"|\bmoins (?:de )?(?:taxes?|droits|impôts?)\b|\bmenos impuestos\b",
    _I,
)
_WAIVED = re.compile(
    r"\b(?:pr[uü]e?f\w*|freigabe\w*|kontrolle\w*|nachweis\w*|unterschrift\w*|genehmigung\w*"
    r"|einwilligung\w*|re[cç]us?|justificati\w*|recibos?|autorización|ricevut\w*|autorizzazione)\b"
    r"[^.;]{0,30}\b(?:entf[aä]e?ll\w*|weggelassen|verzicht\w*|nicht (?:nötig|erforderlich"
    r"|notwendig)|n['’]est pas|pas (?:exigé|requis|nécessaire)\w*|no (?:se exige|hace falta"
    r"|es necesari\w+)|non (?:serve|occorre|è necessari\w+))",
    _I,
)
_BY_TRAIT = re.compile(
    r"^(?=.*\b(?:applicants?|candidates?|tenants?|borrowers?|employees?|staff|hires?|customers?"
    r"|claimants?|bewerber\w*|mieter\w*|candidat\w*|inquilin\w*))"
    r".*\b(?:sort|rank|order|filter|shortlist|prefer|reject|score|select|pick|sortier\w*|triez?r?"
    r"|ordena\w*|filtra\w*)\b[^.;]{0,60}\b(?:by|on|after|nach|par|por) (?:the |their )?"
    r"(?:age|gender|sex|religion|nationality|ethnicity|race|disabilit\w+|pregnan\w+|birth ?dates?"
    r"|marital \w+|surnames?|alter|geschlecht|âge|sexe|edad|sexo)\b",
    _BY_LINE,
)
_TO_WHOM = re.compile(
    r"(?<![\w-])(?:recipients?|notify|cc|bcc|shared?(?:_with)?|visibility|forward(?:_to)?|copy_to"
    r"|send_to|web_?hook)\s*=\s*['\"]?\w+"
    r"|(?<![\w-])(?:target|dest\w*|to|scope|audience)\s*=\s*['\"]?\w*(?:share|public|partner|dealer"
    r"|extern|guest|everyone|vendor|supplier)"
    r"|(?<![\w-])(?:engine|service|provider|via|converter|mode)\s*=\s*['\"]?(?:remote|external"
    r"|public|cloud|web|online|hosted|third)",
    _I,
)
_NO_GRACE = re.compile(
    r"(?<![^\W_])(?:grace|drain|cool_?down|quorum|min_?available|soak)(?:[_-]\w+)*\s*[=:]\s*['\"]?"
    r"(?:0|none|off|false)\b"
    r"|\b(?:restart|evict|stop|kill|reboot|drain|delete|upgrade|patch)\w*\b[^.;]{0,60}\b(?:every"
    r"|all) (?:\w+ ){1,2}at once\b",
    _I,
)
_SILENCED = re.compile(
    r"^(?=.*\b(?:pagers?|alerts?|alarms?|on-?call|pages|rings?|warnings?)\b)"
    r".*\b(?:mode |into |to |in )(?:maintenance|downtime|silent|snooze|do[- ]not[- ]disturb)\b",
    _BY_LINE,
)
_PHRASE = re.compile(
    r"\b(?:key|token|secret|pw|pass(?:word|phrase)?|kennwort|schlüssel|clé|clave|chiave)\W{1,3}"
    r"(?:is |= ?)?(?=[\w-]*\d)(?=[\w-]*[a-z])\w+(?:-\w+){2,}",
    _I,
)
_FORMS = (
    ("changed-value", "changes a returned figure", _ADJUSTS),
    ("changed-value", "gives another figure than was returned", _GIVES_ANOTHER),
    ("protection", "puts a check off by an option", _OPTION_OFF),
    ("protection", "says that a check is not needed", _WAIVED),
    ("protection", "opens what protects something", _OPENS_WIDE),
    ("protection", "silences what calls for help", _SILENCED),
    ("unsafe", "leaves no time or no spare", _NO_GRACE),
    ("person-decides", "selects people by what they are", _BY_TRAIT),
    ("disclosure", "names a recipient by an option", _TO_WHOM),
    ("aim", "keeps choices from whoever asks", _KEEPS_BACK),
    ("aim", "is for paying less than is due", _PAYS_LESS),
    ("disclosure", "hands something to a service outside", _SERVICE),
    ("disclosure", "passes on who is asking, or what", _ASKER),
)

_UNITS = {
    "mass": "kg g mg lb lbs kilograms grams milligrams pounds ounces tonnes tons",
    "length": "km m cm mm ft metres meters centimetres centimeters millimetres millimeters feet"
    " inches miles kilometres kilometers",
    "volume": "l ml litres liters millilitres milliliters gallons",
    "time": "ms s sec min h d milliseconds seconds minutes hours days weeks months years",
    "money": "eur usd gbp chf cents euros dollars francs",
}
_SAME = {"kilograms": "kg", "grams": "g", "milligrams": "mg", "pounds": "lb", "lbs": "lb"}
_SAME |= {"metres": "m", "meters": "m", "centimetres": "cm", "centimeters": "cm", "feet": "ft"}
_SAME |= {"millimetres": "mm", "millimeters": "mm", "kilometres": "km", "kilometers": "km"}
_SAME |= {"litres": "l", "liters": "l", "millilitres": "ml", "milliliters": "ml", "sec": "s"}
_SAME |= {"seconds": "s", "milliseconds": "ms", "minutes": "min", "hours": "h", "days": "d"}
_SAME |= {"euros": "eur", "dollars": "usd", "francs": "chf"}
_MEASURE = {unit: what for what, units in _UNITS.items() for unit in units.split()}
_NAMED_UNIT = re.compile(
    rf"\b[a-z]\w*_({'|'.join(_MEASURE)})\b(?:(?! and |,)[^.;]){{0,60}}?\b(?:as|in|als|en"
    rf"|como) ({'|'.join(_MEASURE)})\b",
    _I,
)
_CONVERTS = re.compile(
    r"conver|divid|multipl|umrechn|teil|[*/×÷]|compar|print|format|cast|to_|turn", _I
)


def find_values(text: str) -> Iterator[Finding]:
    """Yield one finding where a person has to look at what becomes of a value."""
    if _OPENS_BY_CODE.search(text) or _PHRASE.search(text):
        yield holds("secret-like", "may give a code or a password")
    for rule, why, form in _FORMS:
        if found := form.search(text):
            yield holds(rule, f"{why}: '{found.group().strip()[:60]}'")
            return
    if unit := _other_unit(text):
        yield holds("changed-value", f"reads a unit as another one: '{unit[:60]}'")


def _other_unit(text: str) -> str:
    """Return where a name's unit is read as another of the same measure: `weight_kg as pounds`."""
    for found in _NAMED_UNIT.finditer(text):
        own, other = found.group(1).casefold(), found.group(2).casefold()
        same = _SAME.get(own, own) == _SAME.get(other, other)
        if _MEASURE[own] == _MEASURE[other] and not same and not _CONVERTS.search(text):
            return found.group()
    return ""
