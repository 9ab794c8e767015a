"""Tell an instruction from a statement, a question or a report.

Covered: English by its verbs, nine more languages by their usual forms of
instruction. Not covered: other languages, where nothing is decided.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum

from lessons_loop.promote.lint.german import german_orders
from lessons_loop.promote.lint.language import guess_language, word_set

_VERBS = word_set("""
abort accept access account accumulate acknowledge activate add adjust aggregate aim alias align
allocate allow allow-list alter amend analyze annotate anonymise answer append apply archive arm
arrange ascend ask assemble assert assign assume attach attempt attend audit authenticate
authorise authorize average avoid await back back-port back-quote backfill bail bake balance bank
base batch be bear begin benchmark bind bisect blank blend block book boot borrow bound box
bracket branch break brief bring broadcast brush budget buffer build bump bundle burn buy bypass
cache calculate call cancel cap capture carry cast catch categorise categorize center centre
certify chain change charge chart charter check check-in choose chunk circle claim clamp classify
clean clear click clip clone close coalesce code collapse collect color colour combine comment
commit communicate compare compensate compile complete compose compress compute compute-in concat
concatenate concentrate condense conduct configure confine confirm connect consider consolidate
constrain consult consume contact contain contract control convert coordinate copy correct
correlate cost count couple cover create crop cross cross-check cross-join curl customise
customize cut dampen date deal debit debug declare declutter decode decompress decouple decrease
deduct deduplicate default defer define deflate degrade delay delete demote deny deny-list depend
deploy deprecate depress derive descend describe deselect design desolder detach detect determine
devise dial diff digest dim direct disable disarm disassemble discard disconnect discount dismiss
dispatch display disregard dissolve distinguish divert divide do dock document double double-check
double-click double-quote downgrade download downsample downscale draft drag drain drill drive
drop dry-run dual-boot dump duplicate dye echo edit elevate embed emit empty enable encapsulate
encode encrypt end enforce enlarge enrol enroll ensure enter enumerate equip erase escape estimate
etch evaluate exclude execute exempt exercise exit expand expect expire explain export expose
express extend extract factor fade fall fall-back favor favour feed fence fetch file fill film
filter find fine-tune finish fit fix flag flash flatten flip float flush fold follow force
forecast extrapolate approximate force-delete fork format forward freeze fuse gate gather
generate get give glue go grade grant
grep grind ground group guard guess guide halt halve handle hang hard-code harden hash hide
highlight hit hold hook host hover hyphenate identify ignore imitate implement import impose
include increase increment index infer inflate inform inherit initialise initialize inject inline
inquire insert inspect install interleave interpolate interpret intersect invalidate invert invite
invoke iron isolate issue iterate jog join jot judge juggle jump keep key kick kill knit label
ladder laminate land latch launch lay layer lead learn lease leave left-join lend lengthen let
level lift light liken limit line link lint liquidate list listen live load local localise
localize lock log log-in look loop lower lower-case magnify mail maintain make manage map mark
mask match materialise materialize measure mention merge migrate mind mine minify minimise
minimize mirror mix model moderate modify monitor mount move multiply mute name narrow navigate
negate nest never normalise normalize note notify nudge null-check number obey obfuscate obtain
offload oil omit onboard open opt optimise optimize order outer-join output outsource overclock
overlap overlay override overwrite own pack pad page paginate paint pair parameterise parameterize
park parse partition pass paste patch pause peel peer percent-encode perform permit persist phase
pick piggyback pin pipe pitch pivot place plan plot plug point polish poll pool populate position
post power power-cycle pre-aggregate pre-compute pre-filter precompute prefer prefix preheat
preload prepare prepend preserve press press-fit pretend prevent print prioritise prioritize
privatise probe proceed process produce profile program programme prohibit project promote
pronounce proof propagate protect prove provide proxy prune publish pull punch puncture purchase
purge push push-down put qualify quantise quarantine quarter query queue quiesce quit quote race
rack radio raise rank rasterise ray-trace re-embed re-run reach read rebalance rebase rebind
reboot rebuild recalculate recheck recompile recompute reconcile reconfigure reconnect record
recover recreate recycle redact redeploy redirect redo reduce reduce-to refactor refer reference
refill reformat refresh refuse regard regenerate register reimport reindex reinstall reissue
reject relabel relaunch release reload relocate rely remap remember remove rename render renew
renumber reorder repack repaint repair repartition repeat replace replay replicate replug repoint
report reprint reproject request require reread rerun resample rescale rescan reseat resend
reserve reset reshape resist resize resolve resort respect restart restore restrict resubmit
resume resync retag retain retarget retest retire retrieve retry return retype reuse revalidate
reverse revert review revoke rewind rewire rework rewrite right-align right-click ring rinse rip
roll rotate rough round round-trip route rule run sample sanitise sanitize sanity-check saturate
save scale scan schedule scope score scrape screen scroll seal search seat seed seek segment
select self-join send separate serialise serialize serve set set-up shard share sharpen shift
shorten shorten-down show shrink shuffle shut side-load sideload sign sign-in signal silence
simplify simulate single-quote sink site size sketch skip sleep slice slow smooth snap snapshot
solder solve sort sound source space spawn specify spell spin split spool spread square squash
stack stage stagger stamp standardise standardize start stash state stay steer step stick stitch
stop store straighten stream stretch strip stub submit subscribe substitute subtract suffix sum
supplement supply suppress surround suspend swap sweep swipe switch symlink sync tabulate tack tag
tail tailor take tap tape taper target tax tee tell terminate test tether thin thread threshold
throttle tick tidy tie tile time tint title toggle total touch touch-up trace track trade train
transcode transcribe transfer transform translate transpose trap traverse treat triage trigger
trim triple truncate trust try tune turn twin twist type unblock unbundle uncheck underline undo
unescape unfreeze unhide uninstall union unlink unlock unmount unmute unnest unpack unpin unplug
unquote unregister unroll unset unstage unsubscribe untar untick unwind unwrap unzip update
upgrade upload upper-case upsample upscale upsert url-encode use utilise utilize vacuum validate
vary vectorise vectorize vent verify version view visit void wait walk warm warm-up warn wash
watch weigh weight weld whitelist whiten widen wipe wire work wrap write xor zero zip zip-tie zoom
""")
_CLAUSE = re.compile(
    r"[.;:!?]+(?:\s+|$)|,\s+|\s+[–—-]\s+|[()\[\]]|\b(?:then|so|but|therefore|hence|thus)\b",
    re.IGNORECASE,
)
_SUBORDINATE = re.compile(
    r"(?<=\w)\s+(?:when|whenever|if|since|because|so that|unless|until|while|where)\b",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?![a-z])|(?<=[。！？])")
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
    "some few several other another only even yes nor than also too very quite otherwise else"
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
    if language == "de":
        orders = any(german_orders(clause) for clause in _CLAUSE.split(" ".join(spoken)))
        return Mood.INSTRUCTION if orders else Mood.STATEMENT
    form = _ORDER_FORMS.get(language)
    if form is not None:
        return Mood.INSTRUCTION if form.search(" ".join(spoken)) else Mood.STATEMENT
    return Mood.UNDECIDED


def clauses(text: str) -> Iterator[str]:
    """Yield the clauses of a text."""
    yield from filter(None, _CLAUSE.split(text))


def command_phrases(text: str) -> Iterator[str]:
    """Yield the clauses that tell what to do, without the conditions and reasons behind them."""
    for clause in clauses(text):
        if _instructs(clause):
            yield _SUBORDINATE.split(clause, maxsplit=1)[0]


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
