"""Find and mask secrets and personal data, before text leaves the process or is stored.

Covered: keys of usual providers by their prefix, JWTs, PEM blocks, authorization headers,
user:password@host, values of words such as password, token, secret (shell, env, JSON, YAML),
`-p` of docker and mysql; e-mail addresses, phone numbers with + or a label, IBAN and card
numbers (checksum), US social security numbers, IPv4 and IPv6 addresses.
Not covered: names of people, postal addresses, birthdays, passwords without a telling word
beside them, secrets split over lines or encoded.
Left alone on purpose: SQL, versions, dates, UUIDs, commit and content hashes, serial numbers,
placeholders (`$TOKEN`, `<token>`, `...`), loopback, unspecified, private-use documentation
addresses (0.0.0.0, 127.0.0.0/8, ::1, 192.0.2.0/24, 198.51.100.0/24, 203.0.113.0/24,
2001:db8::/32), masks and network ranges written with /n.
"""

from __future__ import annotations

import ipaddress
import re
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from typing import NamedTuple


class Finding(NamedTuple):
    """One sensitive stretch: `kind` for people, offsets into the text."""

    kind: str
    start: int
    end: int
    personal: bool = False


class _MaskRule(NamedTuple):
    kind: str
    pattern: re.Pattern[str]
    personal: bool = False
    accept: Callable[[str], bool] | None = None


_SECRET_VALUE = r"""[^\s"'`,;&|<>(){}\[\]\\]"""
_SECRET_WORD = (
    r"(?:pass(?:word|wd|phrase|code)|pwd|secret(?:[_-]?(?:access[_-]?)?key)?|api[_-]?key"
    r"|access[_-]?key|auth[_-]?key|private[_-]?key|client[_-]?secret|credentials?"
    r"|kennwort|passwort|contrase(?:ñ|n)a|senha|mot[_ ]de[_ ]passe|пароль|密码|パスワード)"
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
_MASKED = re.compile(r"\[(?:secret|personal): [a-z -]{2,30}\]")


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
_MASK_RULES = (
    _MaskRule(
        "private key",
        re.compile(
            r"-----BEGIN [A-Z0-9 ]{1,40}-----(?:[A-Za-z0-9+/=\s:,.\\]|-(?!----)){0,20000}"
            r"(?:-----END [A-Z0-9 ]{1,40}-----)?"
        ),
    ),
    _MaskRule(
        "token",
        re.compile(
            r"\beyJ[A-Za-z0-9_-]{5,4000}\.[A-Za-z0-9_-]{3,8000}(?:\.[A-Za-z0-9_-]{0,2000})?"
        ),
    ),
    _MaskRule("api key", re.compile(rf"(?<![A-Za-z0-9_])(?:{_PROVIDER_KEYS})")),
    _MaskRule(
        "authorization",
        re.compile(
            r"(?i)(?<![A-Za-z])(?:bearer|basic|digest|negotiate)\s{1,3}(?P<value>[A-Za-z0-9._~+/=-]{8,4000})"
        ),
        accept=_is_dense,
    ),
    _MaskRule(
        "authorization",
        re.compile(
            r"(?i)(?<![A-Za-z])(?:proxy-)?authorization[\"']?\s{0,3}[:=]\s{0,3}[\"']?"
            r"(?:(?:bearer|basic|token|digest)\s{1,3})?(?!(?:bearer|basic|token|digest)\b)(?P<value>[A-Za-z0-9._~+/=-]{6,4000})"
        ),
        accept=_is_real_value,
    ),
    _MaskRule(
        "password",
        re.compile(r"(?<=://)[^\s/:@\"'<>]{0,80}:(?P<value>[^\s/@\"'<>]{1,200})@"),
        accept=lambda value: not _NO_SECRET.match(value) and not value.startswith("["),
    ),
    _MaskRule(
        "password",
        re.compile(
            rf"(?i)(?<![A-Za-z])(?:[a-z0-9]{{1,30}}[_.-]){{0,4}}{_SECRET_WORD}{_WORD_TAIL}"
            rf"{_ASSIGNED}(?P<value>{_SECRET_VALUE}{{4,500}})"
        ),
        accept=_is_real_value,
    ),
    _MaskRule(
        "token",
        re.compile(
            rf"(?i)(?:token|api[_-]?key|secret|credential|password|access[_-]?key[_-]?id){_WORD_TAIL}"
            rf"{_ASSIGNED}(?P<value>{_SECRET_VALUE}{{8,500}})"
        ),
        accept=_is_dense,
    ),
    _MaskRule(
        "password",
        re.compile(
            rf"(?i)(?<![\w-])--[a-z-]{{0,40}}(?:token|{_SECRET_WORD})[=\s]\s{{0,3}}[\"']?"
            rf"(?P<value>{_SECRET_VALUE}{{4,500}})"
        ),
        accept=_is_real_value,
    ),
    _MaskRule(
        "password",
        re.compile(
            r"\b(?:docker login|mysql|mysqldump|mongo\w{0,4}|sshpass|redis-cli|curl)\b"
            r"[^\n|;&]{0,300}?\s"
            rf"(?:-p|-a|-u\s{{1,3}}[^\s:]{{1,60}}:)\s{{0,2}}[\"']?(?P<value>{_SECRET_VALUE}{{4,300}})"
        ),
        accept=_is_dense,
    ),
    _MaskRule(
        "password",
        re.compile(
            rf"(?i)(?<![A-Za-z])(?:token|pin|{_SECRET_WORD})\s{{1,3}}"
            r"(?:(?:is|was|ist|lautet|est|es|é)\s{1,3})?[\"'`]?(?P<value>[^\s\"'`]{6,300})"
        ),
        accept=_is_dense,
    ),
    _MaskRule(
        "email",
        re.compile(
            r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9][A-Za-z0-9._%+-]{0,63}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){0,5}\.[A-Za-z]{2,24}\b"
        ),
        True,
        _is_email,
    ),
    _MaskRule(
        "iban",
        re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b"),
        True,
        _is_iban,
    ),
    _MaskRule(
        "card number",
        re.compile(r"(?<![\w.-])\d(?:[ -]?\d){12,18}(?![\w-]|\.\d)"),
        True,
        _passes_luhn,
    ),
    _MaskRule(
        "social security number",
        re.compile(r"(?<![\w-])(?!000|666|9\d\d)\d{3}-(?!00)\d{2}-(?!0000)\d{4}(?![\w-])"),
        True,
    ),
    _MaskRule(
        "phone",
        re.compile(r"(?<![\w+])\+\d{1,3}(?:[ ./-]?\(?\d{1,5}\)?){2,6}(?!\w)"),
        True,
        lambda value: 8 <= sum(map(str.isdigit, value)) <= 15,
    ),
    _MaskRule(
        "phone",
        re.compile(
            r"(?i)\b(?:phone|tel(?:efon)?|mobile?|handy|fax|call me (?:at|on)|t[ée]l[ée]phone"
            r"|tel[ée]fono|电话|電話)"
            r"[.:\s]{1,4}(?P<value>\(?\d{2,5}\)?(?:[ ./-]?\d{2,5}){1,5})(?!\w)"
        ),
        True,
        lambda value: 7 <= sum(map(str.isdigit, value)) <= 15,
    ),
    _MaskRule(
        "ip address",
        re.compile(r"(?<![\w.:/-])(?<!ersion )(?:\d{1,3}\.){3}\d{1,3}(?![\w/-]|\.\d)"),
        True,
        _is_personal_address,
    ),
    _MaskRule(
        "ip address",
        re.compile(
            r"(?<![\w.:])(?=[0-9A-Fa-f:]{0,38}::?[0-9A-Fa-f])[0-9A-Fa-f]{1,4}(?::{1,2}[0-9A-Fa-f]{1,4}){3,7}(?![\w:/])"
        ),
        True,
        _is_personal_address,
    ),
)


def find_sensitive(text: str) -> tuple[Finding, ...]:
    """Return what must not leave, in order; masks are no findings, earlier rules come first."""
    taken = sorted(found.span() for found in _MASKED.finditer(text))
    findings = []
    for rule in _MASK_RULES:
        for found in _apply_rule(rule, text):
            if _is_free(taken, found.start, found.end):
                insort(taken, (found.start, found.end))
                findings.append(found)
    return tuple(sorted(findings, key=lambda found: found.start))


def mask(text: str) -> str:
    """Return `text` with every finding replaced by its kind; masking twice changes nothing."""
    pieces, position = [], 0
    for found in find_sensitive(text):
        label = "personal" if found.personal else "secret"
        pieces += [text[position : found.start], f"[{label}: {found.kind}]"]
        position = found.end
    return "".join((*pieces, text[position:]))


def _apply_rule(rule: _MaskRule, text: str) -> Iterator[Finding]:
    group = "value" if "value" in rule.pattern.groupindex else 0
    for match in rule.pattern.finditer(text):
        if rule.accept is None or rule.accept(match.group(group)):
            yield Finding(rule.kind, match.start(group), match.end(group), rule.personal)


def _is_free(taken: list[tuple[int, int]], start: int, end: int) -> bool:
    """Say whether a stretch touches none of the sorted, disjoint `taken` ones."""
    place = bisect_left(taken, (start, end))
    before = place == 0 or taken[place - 1][1] <= start
    return before and (place == len(taken) or end <= taken[place][0])
