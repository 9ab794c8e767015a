"""Tell an instruction from a statement, a question or a report.

Covered: English by its verbs, nine more languages by their usual forms of
instruction. Not covered: other languages, where nothing is decided.
"""

from __future__ import annotations

import re
from enum import StrEnum

from lessons_loop.promote.language import guess_language, word_set

_VERBS = word_set("""
abort accept access account accumulate acknowledge activate add adjust aggregate alias align
allocate allow allow-list alter analyze annotate answer append apply archive arrange ask assert
assign assume attach attempt authenticate authorise authorize average avoid await back back-quote
backfill base batch bear begin benchmark bind bound bracket branch break bring broadcast buffer
build bump bundle bypass cache calculate call cancel cap capture cast catch categorise categorize
chain change check choose chunk clean clear click clip clone close coalesce collect combine commit
communicate compare compile compose compress compute concat concatenate configure confirm connect
consider constrain consult consume contact contain convert copy correct count cover create cross
cross-check cross-join cut declare decode decompress decrease deduplicate defer define delay delete
deny deploy deprecate derive describe detect determine disable discard disconnect disregard
distinguish divide do document double double-check double-quote download drain drop dry-run dump
duplicate edit embed emit empty enable encapsulate encode encrypt end enforce enlarge ensure enter
enumerate escape estimate evaluate exclude execute exit expand expect expire explain export expose
express extend extract fall favor favour feed fetch fill filter find finish fix flag flatten flush
follow force force-delete fork format forward freeze gather generate get give go grant grep group
guard halt handle hard-code hash hide highlight hold identify ignore implement import include
increase increment index infer inherit initialise initialize inject insert inspect install
interpret intersect invalidate invert invoke isolate iterate join judge keep key kill label launch
lead learn leave left-join let lift limit link lint list listen load localise localize lock log
look loop lower lower-case maintain make map mark mask match materialise materialize measure merge
migrate mind minimise minimize modify monitor mount move multiply name narrow negate never
normalise normalize note null-check obey obfuscate obtain omit open opt optimise optimize order
outer-join output overlay override overwrite own pad page paginate parameterise parameterize parse
partition pass paste patch pause percent-encode perform permit persist pick pin pipe place plan
point poll populate pre-aggregate pre-compute pre-filter precompute prefer prefix prepare prepend
preserve pretend prevent print prioritise prioritize probe proceed process produce profile project
promote pronounce propagate protect prove provide prune publish pull purge push put qualify query
queue quit quote raise rank re-embed re-run reach read rebase reboot rebuild recalculate recheck
recompute record recreate recycle redeploy redirect reduce refer reference refresh refuse
regenerate register reindex reject release reload rely remember remove rename render reorder repair
repartition repeat replace replicate report request require reread rerun reserve reset resist
resize resolve resort respect restart restore restrict resubmit retain retrieve retry return reuse
reverse revert review revoke rewrite roll rotate round route run sample sanitise sanitize save
scale scan schedule scope scroll search seek select self-join send separate serialise serialize
serve set set-up shard share shift shorten show shrink shut sign silence simplify single-quote size
skip slice smooth sort source specify spell split spread stack stage standardise standardize start
state stay stick stop store stream strip submit substitute subtract sum supplement supply suppress
surround suspend swap switch sync tag tail take target tee tell terminate test throttle tie time
toggle total touch trace track trade train transform translate traverse treat trigger trim truncate
trust try tune turn type unescape uninstall union unlock unmount unnest unpack unquote unset unwrap
unzip update upgrade upload upper-case upsert url-encode use utilise utilize vacuum validate verify
view visit wait walk warm warn watch weight whitelist widen wipe work wrap write zero zip zoom
""")
_CLAUSE = re.compile(
    r"[.;:!?]+(?:\s+|$)|,\s+|\s+[–—-]\s+|[()\[\]]|\b(?:then|so|but|therefore)\b", re.IGNORECASE
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])")
_WORD = re.compile(r"[^\W\d_]+(?:[-'’][^\W\d_]+)*")
_IDENTIFIER = re.compile(r"\w*_\w*")
_SKIPPED = word_set(
    "always only first please also just explicitly instead rather better simply either and or "
    "next finally afterwards additionally where necessary possible preferably generally"
)
_LEAD_IN = word_set(
    "when if for in on to with before after inside at from because while under during once within "
    "where as unless until by since given without against instead between through"
)
_PREDICATES = word_set(
    "is are was were has have had does did can could will would may might must should of shall "
    "returns needs requires fails drops ignores gives takes holds uses shows answers works hangs "
    "gets loses stops contains means lives becomes stores rejects refuses accepts expects comes "
    "goes runs starts ends appears exists depends includes supports failed returned worked took "
    "came went got became needed required dropped happens happened"
)
_DETERMINERS = word_set("the a an each every all any both your its it them these this one two no")
_NO_VERB = word_set(
    "the a an each every all any both your its it them these this that those one two no not there "
    "here he she we you they who what which how why my our their his her such more most many much "
    "some few several other another only even yes nor than also too very quite"
)
_PREPOSITIONS = word_set("in on for with at from inside within under during between")
_SUBJECTS = word_set(
    "i you we they he she it people users who which that to not and or can could should must will "
    "would may might do does did never always the a an"
)
_VERB_ENDING = re.compile(
    r"(?!(?:other|like|clock|anti|length)wise|pre(?:c|m)ise|promise|exercise"
    r"|enterprise|expertise|franchise|surprise|compromise)[a-z]{3,}(?:ise|ize|ify)"
)
_STRONG = word_set(
    "use set call read run pass add avoid write prefer send give put take prefix convert join "
    "filter restrict apply do"
)
"""Verbs that open the main clause even where the comma before it is missing."""

_REMINDERS = word_set("note remember mind consider know")
_CLAUSE_TAKERS = word_set(
    "ensure make check verify assume confirm let expect test assert keep treat read decide ask "
    "use add avoid pass give put take apply prefer choose send create remove replace"
)
_VERBS_OF_THINGS = word_set(
    "uses has needs requires fails rejects refuses ignores gives takes gets loses contains means "
    "becomes accepts expects depends includes supports keeps sends reads writes allows caps"
)
"""Third-person forms that are hardly ever plural nouns: `Open WebUI uses …`."""
_COPULAS = word_set("is are was were has does")
_LINKS = word_set("that if whether when which where how what until because as who since while and")
_MODAL = re.compile(r"\b(must|should|shall|ha(?:s|ve) to|needs? to|ought to)\b", re.IGNORECASE)
_ORDERS = {
    "de": r"\b(verwende|nutze|benutze|setze|lies|lese|prüfe|rufe|schreibe|frage|suche|führe|gib"
    r"|nimm|vermeide|achte|stelle|füge|beschränke|begrenze|filtere|verbinde|ersetze|starte|lösche"
    r"|erstelle|lege|erhöhe|wandle|rechne|gruppiere|zähle|sortiere|lade|hole|öffne|schließe|trage"
    r"|aktiviere|deaktiviere|wähle|behandle|bilde|teile|runde|warte|speichere|lass|halte|beachte"
    r"|übergib|definiere|installiere|wiederhole|beziehe|ermittle|schlage|konvertiere|multipliziere"
    r"|addiere|schalte|entferne|ergänze|sende|berechne|summiere|grenze|greife|dividiere"
    r"|vergleiche|interpretiere|schicke|hol|leg|stell|setz|nutz|such|frag|schreib|prüf|füg|ruf|mach"
    r"|zähl|lad|zieh|schau|sieh|trag|bau|schalt|teil|kürz|bind|plan|rechne|wähl)\b"
    r"|\w+en\s+sie\b|\b(?-i:[a-zäöü])\w+(?:en|ern|eln)\s*(?:[.;,!:(]|$)",
    "fr": r"\b(\w+ez|utilise|emploie|lis|écris|ajoute|évite|vérifie|cherche|appelle|mets|fais"
    r"|prends|passe|remplace|limite|filtre|convertis|joins|regroupe|relance|définis|divise"
    r"|multiplie|compte|calcule|compare|exécute|sélectionne|traite"
    r"|ne \w+ (?:pas|jamais))\b|,\s*\w+(?:er|re|ir)\b"
    r"|^\W*(?!(?:notre|votre|entre|autre|contre|outre|hier|premier|dernier)\b)\w+(?:er|ir|re)\b",
    "es": r"\b(usa|use|utiliza|utilice|lee|lea|escribe|agrega|añade|evita|evite|verifica|busca"
    r"|llama|pon|haz|pasa|reemplaza|limita|filtra|convierte|une|agrupa|reinicia|define|consulta"
    r"|comprueba|divida|multiplique|sume|cuente|filtre|convierta|agrupe|busque|ponga|haga|pase"
    r"|reemplace"
    r"|limite|defina|consulte|compruebe|tome|calcule|escriba|agregue|añada|verifique|ejecute|lea"
    r"|\w*[áéíóú]\w+(?:l[aeo]s?|se)|no \w+es)\b|^\W*\w+[aei]r\b|,\s*\w+[aei]r\b",
    "it": r"\b(usa|utilizza|leggi|scrivi|aggiungi|evita|verifica|cerca|chiama|metti|imposta|passa"
    r"|sostituisci|limita|filtra|converti|unisci|raggruppa|riavvia|definisci|consulta|controlla"
    r"|dividi|moltiplica|somma|conta|calcola|prendi|scegli|esegui"
    r"|non \w+[aei]re)\b|^\W*\w+[aei]re\b",
    "pt": r"\b(use|usa|utilize|leia|escreva|adicione|evite|verifique|procure|chame|coloque|defina"
    r"|passe|substitua|limite|filtre|converta|junte|agrupe|reinicie|consulte|divida|multiplique"
    r"|some|conte|calcule|trate|escolha|execute|não \w+e)\b"
    r"|^\W*\w+[aei]r\b",
    "nl": r"\b(gebruik|lees|schrijf|voeg|vermijd|controleer|zoek|roep|zet|stel|geef|neem|vervang"
    r"|beperk|filter|converteer|groepeer|herstart|bepaal|haal|start|kies)\b|\b\w+en\s*(?:[.;,!]|$)",
    "ru": r"\w+(?:йте|ите|ьте)\b|\b(используй|читай|ищи|добавь|проверь|избегай|задай|вызывай|пиши"
    r"|бери|замени|ограничь|фильтруй|преобразуй|не \w+й)\b|^\W*\w+ть\b"
    r"|(?:,|нужно|следует|надо)\s*\w+ть\b",
    "zh": "使用|请|应|需|避免|不要|勿|用|设置|设为|添加|检查|查询|读取"
    "|调用|改为|必须|先|将|把|限制|转换|过滤",
    "ja": "てください|こと|せよ|しろ|なさい|べき|使う|使え|避け|する[。、]|るな|設定|指定"
    r"|^(?!.*(?<![でに])は).*(?<!で)(?<!ま)(?<!であ)(?<!てい)(?<!があ)[うくすつむる][。]?$|ない[。]?$",
}
_ORDER_FORMS = {code: re.compile(form, re.IGNORECASE) for code, form in _ORDERS.items()}


class Mood(StrEnum):
    """How a text speaks to its reader."""

    INSTRUCTION = "instruction"
    OBLIGATION = "obligation"
    """`must`, `should`: rather a description than an instruction."""
    STATEMENT = "statement"
    QUESTION = "question"
    UNDECIDED = "undecided"


def mood_of(text: str) -> Mood:
    """Return how `text` speaks; one instructing clause makes it an instruction."""
    sentences = [part for part in _SENTENCE.split(text.strip()) if part]
    spoken = [part for part in sentences if not part.rstrip().endswith(("?", "？"))]
    if not spoken:
        return Mood.QUESTION
    language = guess_language(text)
    if language == "en":
        return _english_mood(" ".join(spoken))
    if any(_instructs(clause) for clause in _CLAUSE.split(" ".join(spoken))):
        return Mood.INSTRUCTION
    form = _ORDER_FORMS.get(language)
    if form is not None:
        return Mood.INSTRUCTION if form.search(" ".join(spoken)) else Mood.STATEMENT
    return Mood.UNDECIDED


def _english_mood(text: str) -> Mood:
    if any(_instructs(clause) for clause in _CLAUSE.split(text)):
        return Mood.INSTRUCTION
    return Mood.OBLIGATION if _MODAL.search(text) else Mood.STATEMENT


def _instructs(clause: str) -> bool:
    plain = _IDENTIFIER.sub("identifier", clause)  # the `is` of is_bot is no verb
    words = [word.casefold().replace("’", "'") for word in _WORD.findall(plain)]
    while words and words[0] in _SKIPPED:
        del words[0]
    if not words:
        return False
    if words[0] in ("don't", "never") or words[:2] == ["do", "not"]:
        return len(words) > 1 and words[1] not in ("is", "are")
    if words[0] in _LEAD_IN:
        return any(_opens_main_clause(words, at) for at in range(2, len(words)))
    return _orders(words)


def _opens_main_clause(words: list[str], at: int) -> bool:
    """Say whether the instruction begins at `at`, behind a lead-in without a comma."""
    before, follower = words[at - 1], words[at + 1 : at + 2]
    prepositional = words[0] in _PREPOSITIONS
    subject = before in _SUBJECTS or (before.endswith("s") and not prepositional)
    if subject or words[at] not in _VERBS:
        return False
    plain = prepositional and bool(follower) and follower[0] in _DETERMINERS
    return (plain or words[at] in _STRONG) and _orders(words[at:])


def _orders(words: list[str]) -> bool:
    first, rest = words[0], words[1:]
    follower = rest[0] if rest else ""
    if first in _REMINDERS and not rest:
        return False
    if first in _VERBS or _VERB_ENDING.fullmatch(first):
        return follower not in _PREDICATES and not _is_subject(first, rest)
    plain = first not in _NO_VERB and not first.endswith(("s", "ing", "ed", "ly"))
    return plain and first not in _PREDICATES and follower in _DETERMINERS and len(rest) > 1


def _is_subject(first: str, rest: list[str]) -> bool:
    """Say whether a verb-like first word is the subject: `Index scans are …`, `Note that …`."""
    if first in _REMINDERS and rest[:1] == ["that"]:
        return True
    if first in _CLAUSE_TAKERS:
        return False
    if rest[1:2] and rest[1] in _VERBS_OF_THINGS:
        return True
    for at, word in enumerate(rest[:5]):
        if word in _LINKS:
            return False
        if word in _COPULAS:
            return True
        if at and word.endswith("s") and rest[at + 1 : at + 2] and _finite(word):
            return rest[at + 1] in _DETERMINERS | {"only", "their"}
    return False


def _finite(word: str) -> bool:
    return word in _PREDICATES or {word[:-1], word[:-2], word[:-3] + "y"} & _VERBS != set()
