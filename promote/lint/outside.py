"""Lint addresses and recipients: whatever is neither local nor allowed is outside."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from lessons_loop.promote.lint.findings import Finding, holds, rejects

_I = re.IGNORECASE
_URL = re.compile(r"\b([a-z][a-z0-9+.-]{1,20})://([^\s'\"<>)\]]*)", _I)
_MAIL = re.compile(r"[\w.+%-]+@([a-z0-9-]+(?:\.[a-z0-9-]+)+)", _I)
_HOST = re.compile(
    r"(?<![\w@./$-])((?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+"
    r"(?:com|net|org|io|dev|app|cloud|example|local|internal|intranet|corp|lan|xyz|biz|online|site"
    r"|de|fr|uk|eu|ru|cn|jp|nl|ch|br|tv|cc|onion))(?![\w.(-])(:\d+)?(/[^\s'\",;)]*)?",
    _I,
)
_IPV4 = re.compile(r"(?<![\w.])(\d{1,3}(?:\.\d{1,3}){3})(?![\w.])")
_CHANNEL = re.compile(
    r"\b(?:send|post|forward|notify|report|message|ping|cc|mail|tell)\b\W+(?:[\w'’]+\W+){0,12}"
    r"([@#][a-z][\w.-]{2,30})",
    _I,
)
_FILE_OPTION = re.compile(r"(?<!\w)--?[a-z][\w-]*[ =]@[\w./-]+")
"""`--data-binary @file` reads a file."""
_LOCAL = ("localhost", "127.0.0.1", "0.0.0.0", "host.docker.internal", "cluster.local")
_PRODUCTS = ("asp.net", "ado.net", "vb.net", "ml.net", "socket.io", "draw.io", "crates.io")
_LABEL = re.compile(
    r"(?<![\w@./-])((?:[a-z0-9-]+\.)+(?:io|com))/([a-z][a-z0-9-]*)(?![\w./?=:-])", _I
)
_IMAGE = re.compile(r"(?<![\w./:-])[a-z][a-z0-9-]+/[a-z][\w.-]*:(?:latest|v?\d[\w.-]*)\b")
_LABEL_HOST = re.compile(r"(?:^|\.)(?:kubernetes|k8s|cert-manager|istio|helm|argoproj)\.io$", _I)
"""Prefixes of Kubernetes labels and annotations: names, not addresses."""


_BARE_ADDRESS = re.compile(
    r"(?<![:\w/])//([a-z0-9-]+(?:\.[a-z0-9-]+)*\.[a-z]{2,})(?=[/?:)\s]|$)", _I
)
_OTHER_SCRIPT = re.compile(r"(?<![\w.])([^\W\d_a-zA-Z]{2,}\.[^\W\d_a-zA-Z]{2,})(?![\w.])")
"""`数据.公司`: a host in another script; its sentences hold no full stop inside."""
_PICTURE = re.compile(r"!\[[^\]]{0,80}\]\(")


def find_outside(text: str, allowed: Iterable[str] = ()) -> Iterator[Finding]:
    """Yield URLs, hosts and recipients that are neither local nor on the allow-list."""
    allow = tuple(host.strip().casefold() for host in allowed if host.strip())
    for host in _addresses(text):
        if host.casefold().endswith(".local") and not _is_allowed(host.casefold(), allow):
            yield holds("outside", f"'{host}' may be a setting or an address")
        elif not _is_allowed(host.casefold(), allow):
            yield rejects("outside", f"names the address '{host}', which is not on the allow-list")
    if found := _PICTURE.search(text):
        yield rejects("outside", f"shows a picture from an address: '{found.group()}'")
    if found := _IMAGE.search(text):
        yield holds("outside", f"names the image '{found.group()}' of a third party")
    for found in _LABEL.finditer(text):
        if not (_is_allowed(found.group(1).casefold(), allow) or _LABEL_HOST.search(found[1])):
            yield holds("outside", f"'{found.group()}' may be a label or an address")


def _addresses(text: str) -> Iterator[str]:
    for found in _URL.finditer(text):
        yield found.group(2).rpartition("@")[2].split("/")[0].split(":")[0] or found.group(1)
    for pattern in (_MAIL, _IPV4, _CHANNEL):
        yield from (found.group(1) for found in pattern.finditer(_FILE_OPTION.sub(" ", text)))
    for pattern in (_BARE_ADDRESS, _OTHER_SCRIPT):
        yield from (found.group(1) for found in pattern.finditer(text))
    plain = _LABEL.sub(" ", _URL.sub(" ", _MAIL.sub(" ", text)))
    for found in _HOST.finditer(plain):
        if found.group(1).casefold() not in _PRODUCTS:
            yield found.group(1)


def _is_allowed(host: str, allow: tuple[str, ...]) -> bool:
    return any(host == name or host.endswith("." + name) for name in (*_LOCAL, *allow))
