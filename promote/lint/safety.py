"""Lint what could harm: orders to the model or the reviewer, unsafe operations.

Covered: the usual wordings in English and, for orders to forget rules, in a dozen
languages; role tags; operations that destroy, open or weaken. Not covered: an order put
in words nobody used before: that is what corroboration and review are for.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from lessons_loop.promote.lint.findings import Finding, holds, rejects
from lessons_loop.promote.lint.steering import find_steering

_I = re.IGNORECASE
_RULES = r"(?:instruct\w*|rules?|prompts?|guidelines?|polic\w+|guardrails?|restrictions?|lessons?)"
_IGNORE = re.compile(
    r"\b(?:ignor(?:e|ing)|disregard(?:ing)?|forget(?:ting)?|overrid(?:e|ing)|bypass(?:ing)?"
    r"|neglect(?:ing)?|dismiss(?:ing)?|skip|discard)"
    rf"\W+(?:\w+\W+){{0,6}}{_RULES}\b"
    r"|\b(?:do not|don't|never|stop) (?:follow\w*|obey\w*|apply\w*|heed\w*)"
    rf"\W+(?:\w+\W+){{0,5}}{_RULES}\b",
    _I,
)
_IGNORED = re.compile(
    r"\b(?:ignore[sd]|disregard(?:s|ed)|forgets|forgot\w*|overrid(?:es|den)|overrode|bypass(?:es"
    r"|ed)"
    r"|neglect(?:s|ed)|dismiss(?:es|ed))\W+(?:\w+\W+){0,4}"
    r"(?:instructions|rules|guidelines|polic\w+|guardrails?|restrictions|lessons?)\b",
    _I,
)
"""Told of something else it is a description, such as of a model that forgets a long prompt."""
_IGNORE_ELSEWHERE = re.compile(
    r"(?:\b(?:ignorier(?:en?)?|missachten?|vergiss|vergesst|umgeh(?:en?)?|überschreib(?:en?)?)\b"
    r"|(?:^|[.!;:]\s*)(?:ignoriert|missachtet|umgeht|überschreibt)\b)\W+(?:\w+\W+){0,6}"
    r"(?:anweisung|regel|vorgabe|befehl|instruktion|richtlinie)"
    r"|(?:ignor|oubli|outrepass|contourn)\w*\W+(?:\w+\W+){0,6}(?:instructions|consignes|règles)"
    r"|(?:ignor|olvid|omit)\w*\W+(?:\w+\W+){0,6}(?:instrucciones|reglas|normas)"
    r"|(?:ignor|dimentic|trascur)\w*\W+(?:\w+\W+){0,6}(?:istruzioni|regole)"
    r"|(?:ignor|esque|desconsider)\w*\W+(?:\w+\W+){0,6}(?:instruções|regras)"
    r"|(?:negeer|vergeet)\w*\W+(?:\w+\W+){0,6}(?:instructies|regels)"
    r"|(?:ignoruj|zapomnij|pomiń)\w*\W+(?:\w+\W+){0,6}(?:instrukcj|polece|zasad)"
    r"|(?:игнорир|забуд|пренебре)\w*\W+(?:\w+\W+){0,6}(?:инструкц|правил|указани|команд)"
    r"|(?:talimat|kural|yönerge)\w*\W+(?:\w+\W+){0,4}(?:yok ?say|görmezden|unut)"
    r"|(?:تجاهل|انس)\w*\W+(?:\w+\W+){0,6}\w*(?:تعليمات|قواعد)"
    r"|(?:忽略|无视|忽視|忘记|忘掉|不要遵守|绕过).{0,12}(?:指令|指示|规则|規則|提示|说明)"
    r"|(?:指示|命令|ルール|規則|プロンプト).{0,8}(?:無視|忘れ|破)"
    r"|(?:지시|명령|규칙|프롬프트).{0,8}(?:무시|잊)",
    _I,
)
_ORDERS_MODEL = re.compile(
    r"\b(?:from now on|you are (?:now|no longer)|pretend (?:to be|you)|act as (?:an?|the|if)"
    r"|role-?play|you are in (?:\w+ ){1,3}mode"
    r"|jailbr\w+|developer mode|do anything now|unrestricted mode|no restrictions|god mode)\b"
    r"|\b(?:always|never) (?:recommend|mention|suggest|praise|advertise|say|claim|refuse|answer)\b"
    r"|\bas an? (?:ai|language model|assistant)\b|\bthe (?:assistant|chatbot|llm) (?:must"
    r"|should|shall|will)\b",
    _I,
)
_OBEY = re.compile(
    r"\b(?:follow|obey|execute|carry out|accept|store|save|remember|adopt)\W+(?:\w+\W+){0,2}"
    r"(?:every|all|any|each|their|its)\W+(?:\w+\W+){0,2}(?:instruct\w*|orders?|commands?"
    r"|directives?)\b"
    r"|\btreat\W+(?:\w+\W+){0,10}as (?:\w+ ){0,4}(?:operator|admin\w*|system|developer|owner"
    r"|trusted|authori[sz]ed|verified)\b"
    r"|\b(?:messages?|texts?|prompts?|users?|requests?)\W+(?:\w+\W+){0,8}"
    r"(?:follow|obey|comply with) (?:it|them|him|her)\b"
    r"|\bwithout (?:asking|question(?:ing|s)?|confirmation|(?:further )?checking|verif\w+ (?:it"
    r"|them))\b",
    _I,
)
_OBEY_WRITTEN = re.compile(
    r"\b(?:instructions|commands|orders|directives)\b\W+(?:\w+\W+){0,8}?"
    r"(?:follow|obey|execute|carry out|comply)\b"
    r"|\bas if (?:it|they) (?:came|come|were|was)\b"
    r"|\b(?:store|save|add|remember|record|memori[sz]e|learn|keep)\W+(?:\w+\W+){0,4}?"
    r"(?:lessons?|instructions)\b",
    _I,
)
_REVIEWER = re.compile(
    r"\b(?:reviewers?|approvers?|moderators?|gatekeepers?|judges?)\s*[:!]|\bpre-?approved\b"
    r"|\bverdict\b"
    r"|\b(?:answer|reply|respond|say|output|return)\W+(?:with\W+)?['\"]?(?:approve|promote"
    r"|accept|yes|pass)\b"
    r"|\b(?:approve|promote|accept|whitelist|auto-?approve|trust)\W+(?:this|the|every|all|any"
    r"|these)\W+(?:\w+\W+)?"
    r"(?:lessons?|candidates?|suggestions?|proposals?|notes?|entr\w+|items?|submissions?)\b"
    r"|\b(?:as|to|into) (?:curated|promoted)\b|\b(?:this|it|lesson|candidate|item|text)"
    r" (?:is|was|has been) (?:already |pre-?)*(?:approved|reviewed|vetted)\b",
    _I,
)
_REVIEWER_ELSEWHERE = re.compile(
    r"\b(?:prüfer\w*|gutachter\w*|revisor\w*|relecteur\w*|examinateur\w*|évaluateur\w*"
    r"|modérateur\w*"
    r"|moderador\w*|aprobador\w*|beoordelaar\w*|рецензент\w*|проверяющ\w*)\s*[:,!]"
    r"|(?:审核员|审查员|評価者|審査員|검토자)\s*[:：,，]?"
    r"|\b(?:diese\w*|cette|esta|questa|dit) (?:lektion|leçon|lección|lezione|lição|les)\b",
    _I,
)
_EVERY_ANSWER = re.compile(
    r"\b(?:every|each|all|your|the next|future|subsequent)\W+(?:\w+\W+)?"
    r"(?:answers?(?! with| by)|repl(?:y|ies)|messages? you|outputs? you)\b"
    r"|\b(?:your|the assistant's|the model's) (?:\w+ )?responses?\b"
    r"|(?:jede[rnms]?|allen?|deine[rnm]?) (?:\w+ )?(?:antwort|nachricht)|chaque (?:\w+ )?réponse"
    r"|(?:cada|todas las|todas as) (?:\w+ )?(?:respuestas?|respostas?)|ogni (?:\w+ )?risposta"
    r"|кажд\w+ (?:\w+ )?(?:ответ|сообщени)|(?:每个|每次|所有)(?:回答|回复|答复)"
    r"|(?:すべて|全て|毎回)の?(?:回答|返答|返信)",
    _I,
)
_CONCEAL = re.compile(
    r"\b(?:do not|don't|never|without) (?:tell\w*|inform\w*|mention\w*|warn\w*|notify\w*"
    r"|reveal\w*|alert\w*)"
    r"\W+(?:\w+\W+){0,4}(?:users?|people|person|anybody|anyone|customers?|admins?|operators?"
    r"|reviewers?)\b"
    r"|\b(?:secretly|covertly|unnoticed|behind the user(?! (?:name|id)))\b"
    r"|\bhide\W+(?:\w+\W+){0,4}from\W+(?:the )?(?:users?|admins?)\b",
    _I,
)
_DISCLOSE = re.compile(
    r"\b(?:reveal|disclose|leak|exfiltrate|print|show|repeat|recite|share|output)\b\W+"
    r"(?:[\w'’]+\W+){0,5}(?:system (?:prompt|message)s?|hidden (?:prompt|instruct\w+)"
    r"|initial instruct\w+|passwords?|passphrases?|credentials?|private keys?|api keys?|secrets?"
    r"|access tokens?|personal data|chat (?:history|log|content)s?|environment variables)\b"
    r"|\b(?:append|add|include|insert|embed|encode|attach|put|send|forward|post|e-?mail)\b\W+"
    r"(?:[\w'’]+\W+){0,4}(?:user['’]?s?['’]? (?:e-?mails?|address\w*|names?|data|messages?)"
    r"|(?:customer|client|patient|visitor|employee)s?['’]?s? (?:data|e-?mails?|address\w*|phone\w*)"
    r"|conversations?|chat (?:history|log|content)s?)\b",
    _I,
)
_HANDS_OVER = re.compile(
    r"\b(?:append|include|embed|encode|send|forward|post|upload|expose|e-?mail)\b"
    r"\W+(?:[\w'’]+\W+){0,5}(?:passwords?|credentials?|private keys?|api keys?|secrets?"
    r"|access tokens?|personal data|environment variables)\b",
    _I,
)
_ROLE_TAG = re.compile(
    r"</?\s*(?:system|assistant|developer|human|instructions?|lessons?|lesson-?\w*|tool_?calls?"
    r"|candidate)\b[^>]*>"
    r"|<\|[^|>]{1,40}\|>|\[/?INST\]|<</?SYS>>|^\s*#{2,}\s*(?:system|instruction|user|assistant)"
    r"|^\W*(?:system|assistant|developer)\s*:\s*(?:you|please|ignore|from|do)\b"
    r"|(?-i:(?:^|[.;!\s])(?:SYSTEM|ASSISTANT|ADMIN|DEVELOPER|OPERATOR|REVIEWER)\s*:)",
    _I | re.MULTILINE,
)
_INJECTIONS = (
    (_IGNORE, "orders the reader to set rules aside"),
    (_IGNORE_ELSEWHERE, "orders the reader to set rules aside"),
    (_ORDERS_MODEL, "addresses the model and its role"),
    (_OBEY, "orders the model to obey somebody unchecked"),
    (_OBEY_WRITTEN, "orders the model to obey somebody unchecked"),
    (_REVIEWER, "speaks to the reviewer"),
    (_REVIEWER_ELSEWHERE, "speaks to the reviewer"),
    (_EVERY_ANSWER, "steers the model's answers as such"),
    (_CONCEAL, "asks to hide something from people"),
    (_DISCLOSE, "asks to disclose something"),
    (_ROLE_TAG, "contains a role tag or label"),
)


def find_injection(text: str) -> Iterator[Finding]:
    """Yield orders to the model or the reviewer; styled letters are read as plain ones."""
    plain = unicodedata.normalize("NFKC", text)
    for pattern, why in _INJECTIONS:
        if found := pattern.search(plain):
            yield rejects("injection", f"{why}: '{found.group().strip()[:60]}'")
    if found := _HANDS_OVER.search(plain):
        yield holds("disclosure", f"hands something over: '{found.group()[:60]}'")
    if found := _IGNORED.search(plain) or find_steering(plain):
        yield holds("injection", f"may steer the model or the loop: '{found.group()[:60]}'")


def find_reviewer_orders(text: str) -> Iterator[str]:
    """Yield stretches of evidence that order a reviewer or model about: a person has to look."""
    plain = unicodedata.normalize("NFKC", text)
    for pattern in (_IGNORE, _IGNORE_ELSEWHERE, _REVIEWER, _REVIEWER_ELSEWHERE):
        if found := pattern.search(plain):
            yield found.group().strip()[:60]


_PROTECTION = (
    r"(?:\w+[ -]){0,3}(?:tls|ssl|certificates?|cert|signature|hostname|host key|verif\w+"
    r"|validation|auth\w*|login(?! (?:shell|page|form|prompt|screen|name))"
    r"|passwords?|mfa|2fa|firewall\w*|selinux|apparmor|antivirus|csrf|cors|sandbox\w*|safety"
    r"|security|backups?"
    r"|audit\w*|rbac|access control|permission checks?|row[- ]level security|encryption|fsync"
    r"|wal)\b"
)
_UNSAFE = (
    r"\bdrop\s+(?:table|database|schema|view|index|user|role|column|collection)\b|\btruncate\b",
    r"\bdelete\s+from\b(?!.*\bwhere\b)|\bupdate\s+\w+\s+set\b(?!.*\bwhere\b)",
    r"\brm\s+-\w*[rf]|\bmkfs|\bdd\s+if=|\bshred\b|\bformat\s+c:|\bdel\s+/[sq]\b",
    r"\bchmod\s+(?:-R\s+)?0?777|\b777\b|\bworld[- ]writable\b|\bgrant\s+all\b|\bcluster-admin\b",
    r"\bforce[- ]?(?:d|ful|fully)?[- ]?(?:delet|push|remov)\w*|--force\b(?!-with-lease)"
    r"|\breset\s+--hard\b",
    r"\b(?:as root|sudo|privileged|runasroot|setenforce 0|0\.0\.0\.0/0|::/0)\b",
    r"\b(?:kill\s+-9|pkill|killall|iptables\s+-F|kill\s+all)\b",
    r"verify\s*=\s*false|--insecure\b|--no-verify|curl\s+-\w*k\b|tls_reject_unauthorized"
    r"|sslmode=disable",
    r"strict_?host_?key_?checking[= ]no|trustservercertificate|--no-check-certificate|--allow-root",
    r"trust[- ]all|allow_?any|accept[- ](?:any|all)[- ]cert\w*|auth[\w-]*\s+(?:none|trust)\b",
    r"\b(?:disabl\w+|turn\w* off|switch\w* off|deactivat\w+|bypass\w*|skip\w*|suppress\w*"
    r"|remov\w+|weaken\w*|drop\w*|relax\w*|lift\w*|omit\w*"
    rf"|stop(?:ping)?)\s+(?:the |all |any |its |every )?{_PROTECTION}",
    r"\b(?:security|tls|ssl|verification|validation|auth\w*|encryption|firewall|fsync)\W+"
    r"(?:\w+\W+){0,3}(?:off|none|false|disabled)\b",
    rf"\b(?:without|ignor\w+)\s+(?:the |any |all )?{_PROTECTION}",
    r"\b(?:delet\w*|remov\w*|wip\w+|eras\w+|purg\w+|destroy\w*|strip\w*|overwrit\w+|reset\w*"
    r"|clear\w*|drop\w*)\s+"
    r"(?:the |all |any |every |its |old |whole |entire |\w+'s )*(?:[\w.-]+ )?(?:[\w.-]*\.(?:db"
    r"|sqlite3?)\b|databases?\b"
    r"|volumes?\b|pvcs?\b|buckets?\b|namespaces?\b|tables\b|finalizers?\b|backups?\b"
    r"|histor\w+\b|users\b|accounts?\b"
    r"|lock files?\b|data (?:folder|directory|dir)\b|wal\b|everything\b|all (?:data|rows"
    r"|records|files)\b|production\b)",
    r"\bmake\s+(?:\w+ ){0,3}public(?:ly)?\b|\bpublic-read\b"
    r"|\bexpose\s+(?:\w+ ){0,4}to the internet",
    r"\bcommit\s+(?:\w+ ){0,3}(?:secrets?|passwords?|keys?|\.env)\b|\bin production without\b",
    r"\b(?:terraform|tofu|pulumi|vagrant) destroy\b|\bhelm uninstall\b|\bflush(?:all|db)\b"
    r"|\bkubectl delete (?:ns|namespaces?|pvc?|crds?|--all)\b|\bgit clean -\w*[fd]"
    r"|\b(?:volume|system) prune\b|\bwipefs\b|\bzpool destroy\b|\bdropdb\b",
    r"\b(?:call|run|use|invoke|execute)\W+(?:the )?(?:delete|drop(?!_(?:duplicates|na|null\w*"
    r"|cols?|columns?)\b)|remove|purge|wipe|destroy"
    r"|truncate|erase)_\w+",
    r"\b\w*(?:reset|purge|wipe|destroy|zap|prune|delete|drop|format|overwrite)\w*\b[^.;]{0,20}"
    r"\s(?:-f|--force|--yes|-y)(?![\w-])",
    r"\b(?:hard-?cod|past|embed|bak|commit|log|print|expos|put|stor|keep"
    r"|writ)\w*\W+(?:[\w'’-]+\W+){0,4}?"
    r"(?:cookies?|tokens?|credentials?|passwords?|secrets?|keys?|role\W+\w+)\b\W+(?:in|into|to"
    r"|on|inside"
    r"|at|with)\W+(?:the |an? )?(?:\w+ )?(?:urls?|links?|query strings?|quer(?:y|ies)|repos?\w*"
    r"|source\w*"
    r"|code|image|client|front-?end|logs?|plain ?text|address|release|session cookie|git"
    r"|comments?|chat)\b",
    r"\b(?:antivirus|anti-virus|virus|defender|firewall|waf|scanner|edr|malware|security|audit)\W+"
    r"(?:\w+\W+)?(?:exclusions?|exceptions?|exemptions?|allow-?lists?|white-?lists?"
    r"|ignore lists?)\b"
    r"|\bexclu\w+\b[^.;]{0,40}\bfrom (?:the )?(?:antivirus|virus|malware|security|defender"
    r"|scans?|audits?)\b",
    r"\b(?:default|anonymous|guest|public|nobody)\W+(?:service ?accounts?|accounts?|roles?"
    r"|users?|groups?)\b"
    r"[^.;]{0,30}\b(?:roles?|rights?|secrets?|admin\w*|owner|write)\b",
    r"\b(?:exec|eval)\(|\bpickle\.loads?\b|\|\s*(?:ba|z)?sh\b|\binvoke-expression\b|\biex\b",
    r"\bOR\s+(?-i:role|user\w*|1\s*=\s*1|true)\b|\b(?:row|access)[- ](?:filters?|polic\w+"
    r"|rules?)\b",
    r"\brole\W{1,4}(?:admin\w*|root|owner|superuser)\b|\bis_?(?:admin|superuser"
    r"|staff)\W{1,3}(?:true|1)\b"
    r"|\bintegrity (?:hash\w*|checks?) off\b|\bhard-?code\w* (?:the |an? )?(?:passwords?|roles?"
    r"|tokens?|keys?"
    r"|admin|secrets?)\b",
    r"\bwithout (?:looking|a backup|backing up|reading|checking|review)\b",
)
_UNSAFE_FORMS = tuple(re.compile(pattern, _I) for pattern in _UNSAFE)


def find_unsafe(text: str) -> Iterator[Finding]:
    """Yield operations that destroy or open something: only a person may pass them."""
    for form in _UNSAFE_FORMS:
        if found := form.search(text):
            yield holds("unsafe", f"advises an operation that can do harm: '{found.group()[:60]}'")
            return
