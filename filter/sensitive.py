"""The patterns of what is sensitive, one rule per kind; `redact.py` says what they cover."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from typing import NamedTuple

from lessons_loop.filter.people import PERSON_FORMS, is_person


class MaskRule(NamedTuple):
    """What one kind looks like; `accept` decides on the named group `value`, or the whole."""

    kind: str
    pattern: re.Pattern[str]
    personal: bool = False
    accept: Callable[[str], bool] | None = None


_SECRET_VALUE = r"""[^\s"'`,;&|<>(){}\[\]\\]"""
_SECRET_WORD = (
    r"(?:pass(?:word|wd|phrase|code)|(?<=[a-z0-9][_.-])pass|pwd|secret(?:[_-]?(?:access[_-]?)?key)?|api[_-]?key"
    r"|access[_-]?key|auth[_-]?key|private[_-]?key|client[_-]?secret|credentials?"
    r"|kennwort|passwort|contrase(?:ñ|n)a|senha|cl[ée]\s(?:secr[èe]te|priv[ée]e)"
    r"|clave\s(?:secreta|de\sacceso)|口令|mot[_ ]de[_ ]passe|пароль|密码|パスワード)"
)
_KEY_WORD = (
    r"(?:api|access|auth|secret|private|encryption|signing|shared|master|account|storage)"
    r"[ _-]?key(?:[_-]?id)?"
)
_WORD_TAIL = r"(?:[_-][a-z0-9]{1,12}|\d{1,3})?"
_ASSIGNED = r"(?:\\?[\"'])?\s{0,3}(?:=>|:=|={1,2}|[:：])\s{0,3}(?:\\?[\"'])?"
_NO_SECRET = re.compile(
    r"""^(?:\$.*|%.*%|<.*|\{.*|\*+|x{3,}|\.{2,}|…|none|null|nil|true|false|yes|no|undefined|empty
        |your[_-].*|my[_-]?(?:password|secret|token)|changeme|example|placeholder|redacted|hidden
        |(?:string|str|int|bool|required|optional|is|was|and|or|for|the|in|not|expired|invalid
        |missing|wrong|limit|limits|count|usage|authentication|auth|name|type|id|field|header)
        |os\.environ.*|env\..*|process\.env.*|getenv.*|secrets\..*|vault:.*|file:.*|/.*)$""",
    re.VERBOSE | re.IGNORECASE,
)
MASKED = re.compile(r"\[(?:secret|personal): [a-z -]{2,30}\]")


def _is_real_value(value: str) -> bool:
    bare = value.strip("\"'`")
    return len(bare) >= 4 and not _NO_SECRET.match(bare) and not bare.startswith("[secret")


def _is_dense(value: str) -> bool:
    """Say whether a bare word beside `token` looks like a secret, not like a word."""
    bare = value.strip("\"'`")
    kinds = sum(
        any(test(char) for char in bare) for test in (str.isdigit, str.isupper, str.islower)
    )
    odd = any(not char.isalnum() for char in bare.strip(".!?:"))
    return _is_real_value(value) and (kinds >= 2 and (odd or any(map(str.isdigit, bare))))


def _is_strong(value: str) -> bool:
    """Say whether a word looks like a password even where much stands between it and the word."""
    bare = value.strip("\"'`,;.!?)")
    upper, lower = any(map(str.isupper, bare)), any(map(str.islower, bare))
    return _is_dense(value) and len(bare) >= 8 and upper and lower and any(map(str.isdigit, bare))


def _passes_luhn(value: str) -> bool:
    digits = [int(char) for char in value if char.isdigit()]
    if not 13 <= len(digits) <= 19 or digits[0] not in (2, 3, 4, 5, 6):
        return False
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _is_iban(value: str) -> bool:
    compact = "".join(value.split()).upper()
    if not 15 <= len(compact) <= 34:
        return False
    moved = compact[4:] + compact[:4]
    return int("".join(str(int(char, 36)) for char in moved)) % 97 == 1


def _is_personal_address(value: str) -> bool:
    try:
        address = ipaddress.ip_address(value)
    except ValueError:
        return False
    harmless = address.is_loopback or address.is_unspecified or address.is_multicast
    mask = str(address).startswith("255.")
    return not (harmless or mask or any(address in net for net in _DOCUMENTATION_NETS))


_DOCUMENTATION_NETS = (
    ipaddress.ip_network("192.0.2.0/24"),
    ipaddress.ip_network("198.51.100.0/24"),
    ipaddress.ip_network("203.0.113.0/24"),
    ipaddress.ip_network("2001:db8::/32"),
)


def _is_email(value: str) -> bool:
    return not value.lower().startswith(("git@", "postgres@", "root@"))


_PROVIDER_KEYS = (
    r"sk-(?:ant-|proj-|svcacct-|or-)?[A-Za-z0-9_-]{12,250}|(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{8,250}"
    r"|whsec_[A-Za-z0-9+/=]{16,100}|gh[pousr]_[A-Za-z0-9]{10,250}|github_pat_[A-Za-z0-9_]{20,250}"
    r"|xox[abeprs]-[A-Za-z0-9-]{8,250}|xapp-[A-Za-z0-9-]{10,250}|A(?:KIA|SIA)[A-Z0-9]{12,20}"
    r"|AIza[A-Za-z0-9_-]{20,60}|ya29\.[A-Za-z0-9_-]{20,250}|gl(?:pat|dt|rt|cbt)-[A-Za-z0-9_-]{10,250}"
    r"|hf_[A-Za-z0-9]{16,60}|gsk_[A-Za-z0-9]{20,100}|npm_[A-Za-z0-9]{20,60}|pypi-[A-Za-z0-9_-]{16,250}"
    r"|dop_v1_[a-f0-9]{32,80}|SG\.[A-Za-z0-9_-]{10,80}\.[A-Za-z0-9_-]{10,80}|dapi[a-f0-9]{30,40}"
    r"|shpat_[A-Fa-f0-9]{24,40}|sq0[a-z]{3}-[A-Za-z0-9_-]{20,60}|AC[a-f0-9]{32}|key-[a-f0-9]{32}"
    r"|ATATT[A-Za-z0-9_=-]{20,250}|lin_api_[A-Za-z0-9]{20,60}|nvapi-[A-Za-z0-9_-]{20,100}"
    r"|hvs\.[A-Za-z0-9_-]{20,120}|glsa_[A-Za-z0-9_]{20,60}|dckr_pat_[A-Za-z0-9_-]{10,60}"
)
MASK_RULES = (
    MaskRule(
        "private key",
        re.compile(
            r"-----BEGIN [A-Z0-9 ]{1,40}-----(?:[A-Za-z0-9+/=\s:,.\\]|-(?!----)){0,20000}"
            r"(?:-----END [A-Z0-9 ]{1,40}-----)?"
        ),
    ),
    MaskRule(
        "token",
        re.compile(
            r"\beyJ[A-Za-z0-9_-]{5,4000}\.[A-Za-z0-9_-]{3,8000}(?:\.[A-Za-z0-9_-]{0,2000})?"
        ),
    ),
    MaskRule("api key", re.compile(rf"(?<![A-Za-z0-9_])(?:{_PROVIDER_KEYS})")),
    MaskRule(
        "authorization",
        re.compile(
            r"(?i)(?<![A-Za-z])(?:bearer|basic|digest|negotiate)\s{1,3}(?P<value>[A-Za-z0-9._~+/=-]{8,4000})"
        ),
        accept=_is_dense,
    ),
    MaskRule(
        "authorization",
        re.compile(
            r"(?i)(?<![A-Za-z])(?:proxy-)?authorization[\"']?\s{0,3}[:=]\s{0,3}[\"']?"
            r"(?:(?:bearer|basic|token|digest)\s{1,3})?(?!(?:bearer|basic|token|digest)\b)(?P<value>[A-Za-z0-9._~+/=-]{6,4000})"
        ),
        accept=_is_real_value,
    ),
    MaskRule(
        "password",
        re.compile(r"(?<=://)[^\s/:@\"'<>]{0,80}:(?P<value>[^\s/@\"'<>]{1,200})@"),
        accept=lambda value: not _NO_SECRET.match(value) and not value.startswith("["),
    ),
    MaskRule(
        "password",
        re.compile(
            rf"(?i)(?<![A-Za-z])(?:[a-z0-9]{{1,30}}[_.-]){{0,4}}{_SECRET_WORD}{_WORD_TAIL}"
            rf"{_ASSIGNED}(?P<value>{_SECRET_VALUE}{{4,500}})"
        ),
        accept=_is_real_value,
    ),
    MaskRule(
        "token",
        re.compile(
            rf"(?i)(?:token|secret|credential|password|pass(?==)|{_KEY_WORD}){_WORD_TAIL}"
            rf"{_ASSIGNED}(?P<value>{_SECRET_VALUE}{{8,500}})"
        ),
        accept=_is_dense,
    ),
    MaskRule(
        "password",
        re.compile(
            rf"(?i)(?<![\w-])--[a-z-]{{0,40}}(?:token|{_SECRET_WORD})[=\s]\s{{0,3}}[\"']?"
            rf"(?P<value>{_SECRET_VALUE}{{4,500}})"
        ),
        accept=_is_real_value,
    ),
    MaskRule(
        "password",
        re.compile(
            r"\b(?:docker login|mysql|mysqldump|mongo\w{0,4}|sshpass|redis-cli|curl)\b"
            r"[^\n|;&]{0,300}?\s"
            rf"(?:-p|-a|-u\s{{1,3}}[^\s:]{{1,60}}:)\s{{0,2}}[\"']?(?P<value>{_SECRET_VALUE}{{4,300}})"
        ),
        accept=_is_dense,
    ),
    MaskRule(
        "password",
        re.compile(
            rf"(?i)(?<![A-Za-z])(?:token|pin|{_SECRET_WORD})\s{{1,3}}"
            r"(?:(?:is|was|ist|lautet|est|es|é)\s{1,3})?[\"'`]?(?P<value>[^\s\"'`]{6,300})"
        ),
        accept=_is_dense,
    ),
    MaskRule(
        "password",
        re.compile(
            rf"(?i)(?<![A-Za-z]){_SECRET_WORD}\s(?:[^\s.:;]{{1,24}}\s){{0,5}}"
            r"(?:is|was|to|as|ist|lautet|est|es|é)\s{1,3}[\"'`]?(?P<value>[^\s\"'`]{8,300})"
        ),
        accept=_is_strong,
    ),
    MaskRule(
        "password",
        re.compile(
            r"(?i)\b(?:user(?:name)?|login|account)\s\S{1,60}\s(?:and|with|und|mit|et|y)\s"
            r"(?:pass|pw)\s(?P<value>[^\s\"'`]{8,200})"
        ),
        accept=_is_strong,
    ),
    MaskRule(
        "licence key",
        re.compile(
            r"\b(?=[A-Z0-9-]{0,47}\d)(?=[A-Z0-9-]{0,47}[A-Z])(?:[A-Z0-9]{4,6}-){3,7}[A-Z0-9]{4,6}\b"
        ),
    ),
    MaskRule(
        "cookie",
        re.compile(
            r"(?i)(?<![a-z])cookie[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?P<value>[^\s=]{1,80}=[^\n\"']{6,4000})"
        ),
    ),
    MaskRule(
        "token",
        re.compile(
            r"(?i)[?&;](?:x-amz-)?(?:sig|signature|token|code|key|auth|password|pwd|credential)="
            r"(?P<value>[^\s&\"'<>#;]{8,2000})"
        ),
        accept=_is_dense,
    ),
    MaskRule(
        "webhook",
        re.compile(
            r"(?i)(?<=://)(?:hooks\.slack\.com/(?:services|workflows)|(?:[a-z]+\.)?discord(?:app)?\.com/api/webhooks"
            r"|[a-z0-9-]{1,63}\.webhook\.office\.com/webhookb2)/(?P<value>[^\s\"'<>]{10,400})"
        ),
    ),
    *(MaskRule("name", form, True, is_person) for form in PERSON_FORMS),
    MaskRule(
        "email",
        re.compile(
            r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9][A-Za-z0-9._%+-]{0,63}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){0,5}\.[A-Za-z]{2,24}\b"
        ),
        True,
        _is_email,
    ),
    MaskRule(
        "iban",
        re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b"),
        True,
        _is_iban,
    ),
    MaskRule(
        "card number",
        re.compile(r"(?<![\w.-])\d(?:[ -]?\d){12,18}(?![\w-]|\.\d)"),
        True,
        _passes_luhn,
    ),
    MaskRule(
        "social security number",
        re.compile(r"(?<![\w-])(?!000|666|9\d\d)\d{3}-(?!00)\d{2}-(?!0000)\d{4}(?![\w-])"),
        True,
    ),
    MaskRule(
        "phone",
        re.compile(r"(?<![\w+])\+\d{1,3}(?:[ ./-]?\(?\d{1,5}\)?){2,6}(?!\w)"),
        True,
        lambda value: 8 <= sum(map(str.isdigit, value)) <= 15,
    ),
    MaskRule(
        "phone",
        re.compile(
            r"(?i)\b(?:phone|tel(?:efon)?|mobile?|handy|fax|call me (?:at|on)|t[ée]l[ée]phone"
            r"|tel[ée]fono|电话|電話)"
            r"[.:\s]{1,4}(?P<value>\(?\d{2,5}\)?(?:[ ./-]?\d{2,5}){1,5})(?!\w)"
        ),
        True,
        lambda value: 7 <= sum(map(str.isdigit, value)) <= 15,
    ),
    MaskRule(
        "phone",
        re.compile(
            r"(?<![\w(])\(\d{3}\) ?\d{3}-\d{4}(?!\w)|(?<![\w.-])01[567]\d[ /-]\d{6,9}(?![\w-])"
        ),
        True,
    ),
    MaskRule(
        "ip address",
        re.compile(r"(?<![\w.:/-])(?<!ersion )(?:\d{1,3}\.){3}\d{1,3}(?![\w/-]|\.\d)"),
        True,
        _is_personal_address,
    ),
    MaskRule(
        "ip address",
        re.compile(
            r"(?<![\w.:])(?=[0-9A-Fa-f:]{0,38}::?[0-9A-Fa-f])[0-9A-Fa-f]{1,4}(?::{1,2}[0-9A-Fa-f]{1,4}){3,7}(?![\w:/])"
        ),
        True,
        _is_personal_address,
    ),
)
