"""Post a run's line to a webhook: off unless a URL is given.

Covered: HTTPS only (http on this machine's own addresses), a time limit in total, no
redirects, no answer read, credentials of the address in no message. A failure is one
warning and never the run's.
Not covered: whoever the administrator names as the receiver. Counts, ids and names of
rules are sent, no text of a lesson.
"""

from __future__ import annotations

import ipaddress
import threading
from urllib.parse import urlsplit

from lessons_loop.filter.address import public_url
from lessons_loop.promote.runs.register import RunLine

SECONDS = 10.0
STEP_SECONDS = 5.0


def notify(url: str, line: RunLine, seconds: float = SECONDS) -> str:
    """Post the line; return "" or what went wrong, as one line without secrets."""
    if refusal := refuse_url(url):
        return f"the run was not posted: {refusal}"
    failures: list[str] = ["no answer"]
    work = threading.Thread(target=_post, args=(url.strip(), line, failures), daemon=True)
    work.start()
    work.join(seconds)
    if work.is_alive():
        failures = [f"no answer within {seconds:.0f} s"]
    return f"the run was not posted to {_host(url)}: {failures[0]}" if failures else ""


def refuse_url(url: str) -> str:
    """Return why an address is not posted to, "" where it may be."""
    try:
        parts = urlsplit(url.strip())
        host = parts.hostname or ""
        parts.port  # noqa: B018  # raises where it is none
    except ValueError:
        return "--notify-url is no address"
    if parts.scheme not in ("http", "https") or not host:
        return "--notify-url is no https address"
    if parts.scheme == "http" and not _is_loopback(host):
        return f"--notify-url is not https: http goes to this machine only, not to {host[:80]!r}"
    return ""


def message(line: RunLine) -> dict[str, object]:
    """Return what is posted: the line, and `text`, which chat services show."""
    return {"text": summary(line), **line.model_dump(mode="json")}


def summary(line: RunLine) -> str:
    """Return a run in one line."""
    head = f"lessons {line.domain}" + (f", run {line.run}" if line.run else "")
    if line.paused:
        return f"{head}: paused ({line.paused})"
    if line.error:
        return f"{head}: failed: {line.error}"
    counts = line.outcomes.model_dump()
    told = [f"{count} {name.replace('_', ' ')}" for name, count in counts.items() if count]
    waiting = f"; {line.waiting} waiting for a person" if line.waiting else ""
    kind = "preview: " if line.preview else ""
    return f"{head}: {kind}{', '.join(told) or 'nothing to do'}{waiting}"


def _post(url: str, line: RunLine, failures: list[str]) -> None:
    import requests

    try:
        with requests.post(
            url,
            json=message(line),
            timeout=(STEP_SECONDS, STEP_SECONDS),
            allow_redirects=False,
            stream=True,
        ) as answer:
            ok = 200 <= answer.status_code < 300
            moved = " (redirects are not followed)" if 300 <= answer.status_code < 400 else ""
            failures[:] = [] if ok else [f"HTTP {answer.status_code}{moved}"]
    except (requests.RequestException, ValueError, OSError) as error:  # its text has the address
        failures[:] = [type(error).__name__]


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _host(url: str) -> str:
    parts = urlsplit(public_url(url.strip()))
    return f"{parts.scheme}://{parts.hostname}"
