"""Find advice to act where a person has to decide: protection, rights, money, people, outsiders.

What a lesson advises may have worked and still be wrong for everybody else. No list of harmful
sentences can be complete; what is listed here are subjects nobody lets a loop decide about.
Covered: English, the same subjects by stems in German, French, Spanish, Italian, Portuguese,
Chinese; names are read by their pieces (`skip_3ds`). Not covered: a wrong fact about a system.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lessons_loop.promote.lint.findings import Finding, holds
from lessons_loop.promote.lint.imperative import clauses, command_phrases

_I = re.IGNORECASE
_PROTECTS = re.compile(
    r"\b(?:auth|authenticat\w*|authori[sz]\w*|logins?|mfa|2fa|otp|3ds|captchas?|passwords?"
    r"|passphrases?|badges?|acls?|permissions?|privileges?|certificates?|certs?|tls|ssl|https"
    r"|cors|origins?|csrf|csp|hsts|dmarc|spf|dkim|firewalls?|antivirus|vaults?|decrypt\w*"
    r"|defender|edr|malware|sandbox\w*|seccomp|selinux|apparmor|throttl\w*|rate limit\w*|lockouts?"
    r"|encrypt\w*|signatures?|signed|verif\w+|validat\w+|audit\w*|retention|backups?|guards?"
    r"|guard\w*|interlocks?|alarms?|detectors?|alerts?|fuses?|brakes?|emergency|safety|inspections?"
    r"|approvals?|reviews?|reviewers?|consents?|receipts?|confirmations?|eviction|disruption"
    r"|synchronous commit|fsync|durab\w+|escap\w+|unescaped|saniti[sz]\w*|parameteri[sz]\w*"
    r"|cut ?offs?|relief|anonymi[sz]\w*|pseudonym\w*|redact\w*|privacy|access control|acces{1,2}"
    r"|caps|capabilities|freeze|quarantine|protect\w*|security|secure"
    r"|warnings?|policy|policies|ticket|tickets|second person|four eyes"
    r"|schutz\w*|prüf\w*|freigabe\w*|alarm\w*|sicher\w*|kontroll\w*|vier-augen\w*|quittung\w*"
    r"|contr[ôo]les?|vérif\w*|validation|alarme|sécurité|controles?|revisi\w+|seguridad|alarma"
    r"|einwilligung\w*"
    r"|sicurezza|controll[oia]|segurança)\b|检查|审核|审批|验证|安全|警报|確認|承認|検証|警報",
    _I,
)
_WEAKENS = re.compile(
    r"\b(?:off|false|none|null|zero|0|skip\w*|ignor\w*|disabl\w*|mut(?:e|es|ed|ing)|overrid\w*"
    r"|bypass\w*|without|never|no|not required|optional|everyone|everybody|anyone|anybody|public"
    r"|anonymous|any|all|full|raw|unescaped|unencrypted|plain ?text|as root|root user|sudo|nobody"
    r"|assumed|silenc\w*"
    r"|suppress\w*|snooz\w*|acknowledge|dismiss\w*|waiv\w*|relax\w*|loosen\w*|lower\w*|extend\w*"
    r"|rais\w*|postpon\w*|delay\w*|remov\w*|drop|omit\w*|leave out|exempt\w*|exclude\w*|except\w*"
    r"|accept\w*|carry on|deactivat\w*|unset|unprotected|force\w*|insecure|legacy|nocheck"
    r"|ohne|nie|niemals|kein\w*|überspring\w*|abschalt\w*|deaktivier\w*|ignorier\w*|egal|genügt"
    r"|sans|jamais|ignor\w+|désactiv\w*|sin|nunca|ignorar|desactiv\w*|senza|mai|sem|permissive)\b"
    r"|\*(?=\W*$|\s)|不用|无需|不必|跳过|忽略|关闭|无视|なし|省略|不要|無視",
    _I,
)
_NEAR = 60
"""Characters between what protects and what weakens it."""
_HARMLESS = re.compile(
    r"(?<!\w)/\w[\w/]*|\blogin (?:shell|page|form|screen)\b|\b(?:row limit|limit \d+|(?:memory"
    r"|size|time|upload|cpu|rate|heap|file|open files?) limits?"
    r"|limits?=\S+|certificate chain|rate limit exceeded|null|no(?:t)? (?:rows?|such|found|output"
    r"|nothing)|is null|not null|default limit)\b"
    r"|\bcheck (?:that|whether|if)\b|\b(?:answers?|returns?|reports?|says?|shows?|fails?"
    r"|ends?)\b.*",
    _I,
)
"""Taken out first: limits of size, and what a condition tells about an answer."""
_RIGHTS = re.compile(
    r"\b(?:grant|give|add|assign|bind|invite|approve|authori[sz]e|promote|elevate|make|put|let"
    r"|accept|move|join|enrol\w*|accorde\w*|autoris\w+|concede\w*|otorg\w+|erteil\w*|gib|gewähr\w*)"
    r"\b[^.;]{0,60}?\b(?:admins?|administrators?|superusers?|owners?|access|accès|acceso|zugriff"
    r"|rights|rechte|privileges?|permissions?|members?|guests?|roles? of|groups? of|memberships?"
    r"|contractors?|requests? (?:of|for|from))\b",
    _I,
)
_DECIDES = re.compile(
    r"^\W*(?:(?:always|then|first|just|also|simply|immer|toujours|siempre)\W+)*"
    r"(?:approve|authori[sz]e|sign off|countersign|waive|exempt|pay|refund|reimburse|compensate"
    r"|wire"
    r"|buy|purchase|hire|fire|reject (?:the )?(?:claim|applicant|request)|ban|evict|overrule"
    r"|subscribe|unsubscribe|acknowledge|overwrite|wipe|erase|shred"
    r"|genehmig\w*|bewillig\w*|zahl\w*|bezahl\w*|überweis\w*|erstatte\w*|kauf\w*"
    r"|approuve\w*|paie|payez|rembours\w*|achet\w*|aprueb\w*|paga|pague|reembols\w*|compra)\b"
    r"|\b(?:reset|set|change|setze?|changez?|cambia)\b[^.;]{0,40}?\b(?:passwords?|passcodes?|pins?"
    r"|kennw[oö]rt\w*|passw[oö]rt\w*|mots? de passe|contraseñas?)\b"
    r"|\b(?:set|extend|raise|change|stretch|skip)\b[^.;]{0,40}\b(?:inspection|maintenance"
    r"|calibration"
    r"|service|safety)s? (?:intervals?|dates?|periods?|limits?)\b"
    r"|\b(?:transfer|move|send|shift|sweep)\b[^.;]{0,30}\b(?:balance|money|funds?|budget"
    r"|amounts? (?:to"
    r"|from)|payments?|salar\w+)\b"
    r"|\b(?:accept|create|close|grant|issue|settle|release)\b[^.;]{0,50}?"
    r"\b(?:claims?|returns|refunds?|invoices?|payments?|expenses?|loans?|orders? over|requests?"
    r"|tickets?|applications?|complaints?|leave|vacation)\b|\bgib\w*\b[^.;]{0,60}\bfrei\b",
    _I,
)
_DESPITE = re.compile(
    r"\b(?:although|even (?:if|when|though|where)|despite|regardless|anyway|whatever|whoever"
    r"|no matter|on (?:his|her|their|the \w+['’]s) word|whether or not|obwohl|trotzdem|auch wenn"
    r"|selbst wenn|même (?:si|quand)|aunque|incluso si|anche se|mesmo (?:se|que))\b|即使|不管|无论"
    r"|たとえ",
    _I,
)
_READING = re.compile(
    r"\W*(?:read|assume|treat|take|give|write|convert|format|compare|use|look|parse|interpret"
    r"|expect)\b",
    _I,
)
"""`Read it as local time although it ends in Z` says how a value is meant."""
_OUTSIDERS = re.compile(
    r"\b(?:send|post|forward|share(?! point)|publish|upload|stream|export|push|write|copy|mail"
    r"|e-?mail|cc|bcc"
    r"|report|submit|mirror|sync|replicate|save|store|put|place|append|attach|paste|hand|pass"
    r"|route|redirect|schick\w*|sende\w*|leite\w*|teile\w*|envoie\w*|partage\w*|envía\w*"
    r"|comparte\w*|invia\w*|upload\w*)\b[^.;]{0,80}?"
    r"(?:\b(?:partners?|outside|outsiders?|external\w*|public\w*|private (?:accounts?|repos?\w*"
    r"|mailbox|address|bucket)|personal (?:accounts?|mail\w*|drive)|everyone|everybody|anyone"
    r"|competitors?|suppliers?|vendors?|web ?servers?|web ?hooks?|mailbox|pastes?|pastebin|gist"
    r"|channels?|kanal|collectors?|third part\w+|press|social media|extern\w*|partenaires?"
    r"|socios?|öffentlich\w*)\b|#[a-z]\w+)",
    _I,
)
_MORE_OUT = re.compile(
    r"\bforward(?:ing)? rules?\b|\b(?:second|another|additional|new|extra) (?:web ?hook|recipient"
    r"|remote|endpoint|mirror)s?\b|\b(?:upload|share|publish|post) (?:paste|public|link)\b"
    r"|\b(?:hash|copy|text|value|content)\w* of (?:the |a |its )?(?:passwords?|tokens?|secrets?"
    r"|keys?"
    r"|credentials?)\b|\bbase ?64\b[^.;]{0,60}\b(?:links?|urls?|query|names?|append)\b"
    r"|\b(?:发送|上传|转发|分享)(?:到|给|至)|(?:送信|転送|共有)する"
    r"|\b[\w-]+ (?:dot|punkt|point|punto|\[\.\]|\(dot\)) (?:[\w-]+ (?:dot|punkt|point|punto) )?"
    r"(?:com|net|org|io|dev|app|example|xyz|de|info)\b",
    _I,
)
_FALSIFIES = re.compile(
    r"\b(?:add|subtract|deduct|take off)\W+(?:\w+\W+){0,2}(?:percent|%|hours?|points?|euros?"
    r"|dollars?)"
    r"\W+(?:to|from|off)\b|\b(?:leave out|omit|hide|drop|skip|suppress|conceal|cut off"
    r"|round (?:down"
    r"|up)|understate|inflate|pad|backdate|falsif\w*|fake|pretend|report|show|record|mark|label"
    r"|treat"
    r"|count|declare|class)\b[^.;]{0,60}?\b(?:high|critical|urgent|negative|missing|failed"
    r"|failures?"
    r"|failing|errors?|defects?|losses|overdue|late|incidents?|complaints?|as (?:closed|done|paid"
    r"|passed|ready|safe|normal|zero|harmless|complete|resolved|healthy|approved))\b"
    r"|\bso that (?:less|nobody|no one|nothing|fewer|it|they)\b[^.;]{0,40}\b(?:billed|notices?"
    r"|looks?"
    r"|seen?|shows?|asks?|found|calm|stops?)\b|\bdamit\b[^.;]{0,40}\b(?:nicht|niemand)\b"
    r"|\bno (?:avises|informes|menciones)\b|\b(?:verschweig|verheimlich)\w*",
    _I,
)
_HARD = re.compile(
    r"--(?:disable|bypass|delete|unsafe|insecure|trust|skip-(?!existing|rows|lines|blank|header)"
    r"|allow-(?!empty|unrelated)|force-(?!recreate|rebuild|reinstall|with-lease)|all-tags)[\w-]*"
    r"|\bfilter-repo\b|\bfilter-branch\b|\bfor good\b|\bpermanently\b|\birreversibl\w*"
    r"|\birrevocabl\w*"
    r"|\bmask(?:ed|ing)?\W+(?:to )?(?:0|off|false|no|none)\b"
    r"|\b(?:owner|approver|signer|reviewer)s?\W+(?:to |as )?(?:system|root|bot|self|nobody|none)\b"
    r"|\b(?:plug|block|bridge|jumper|wedge|tape|short)\b[^.;]{0,40}\b(?:valves?|sensors?|doors?"
    r"|inputs?|contacts?|interlocks?)\b|\b(?:cut ?off|trip)\w* (?:to|at) \d"
    r"|\b(?:critical|severe|emergency)\b[^.;]{0,40}\b(?:only|by day|later|muted|digest)\b"
    r"|\bdelete\s+from\b|\bupdate\s+\w+\s+set\b|\binsert\s+into\b|\b\w+ limits? (?:to |of )?(?:0"
    r"|-1|off)\b"
    r"|\bscan\w*\W+(?:\w+\W+){0,2}(?:off|false|disabled)\b|\brewrit\w+ history\b|\bunescaped\b"
    r"|\bprune\W+(?:all|everything)\b|\bhistory rewrite\b"
    r"|\b(?:age|gender|sex|religion|nationality|ethnicity|race|pregnan\w+|disab(?:led"
    r"|ility))\W{1,3}"
    r"(?:<|>|=|is|under|over|above|below|between)",
    _I,
)
_ACTS_OUT = (
    (_RIGHTS, "gives somebody rights"),
    (_DECIDES, "decides in somebody's place"),
    (_OUTSIDERS, "hands something to outsiders"),
    (_FALSIFIES, "changes what is reported"),
)


def find_acts(text: str) -> Iterator[Finding]:
    """Yield one finding where a person has to decide, whatever the evidence shows."""
    plain = _pieces(text)
    for clause in clauses(plain):
        if found := _weakened(clause):
            yield holds("protection", f"weakens what protects something: '{found[:60]}'")
            return
    for why, stretch in _decisions(text, plain):
        yield holds("person-decides", f"{why}: '{stretch.strip()[:60]}'")
        return


def _decisions(text: str, plain: str) -> Iterator[tuple[str, str]]:
    for form in (_HARD, _MORE_OUT):
        if hard := form.search(text) or form.search(plain):
            yield "cannot be undone or leaves the house", hard[0]
    for clause in (*clauses(plain), plain):
        for form, why in _ACTS_OUT:
            if found := form.search(clause):
                yield why, found[0]
    for ordered in command_phrases(plain):
        if (found := _DESPITE.search(ordered)) and not _READING.match(ordered):
            yield "goes on against what speaks against it", found[0]


def _weakened(clause: str) -> str:
    """Return the stretch in which something that protects stands near what weakens it."""
    bare = _HARMLESS.sub(" ", clause)
    for guard in _PROTECTS.finditer(bare):
        for weak in _WEAKENS.finditer(bare):
            start, end = min(guard.start(), weak.start()), max(guard.end(), weak.end())
            if end - start <= _NEAR and guard.span() != weak.span():
                return bare[start:end].strip()
    return ""


def _pieces(text: str) -> str:
    """Return a text whose names are parted into their words: `skip_3ds` is `skip 3ds`."""
    parted = re.sub(r"(?<=[a-z])(?=[A-Z])|_+", " ", text)
    return re.sub(r"(?<=[A-Za-z])-(?=[A-Za-z])", " ", parted)
