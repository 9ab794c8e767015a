"""Tell a failed tool result from a good, an empty and a merely echoed one, by shape.

Covered: JSON with an error or a bad code, the opening words of usual errors in
English, tracebacks, errno names, HTTP 4xx and 5xx. Long text counts as failed only
by its first or last line: a log may mention errors without being one.
Not covered: a wrong result that looks like any other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

_SHORT_RESULT = 400
"""Characters up to which an error phrase anywhere in a result decides."""
_ERROR_OPENING = re.compile(
    r"""^\W*(?:
        (?:fatal|panic|abort(?:ed)?|error|err|exception|fehler|erreur|failed|failure|refused|rejected
          |denied|forbidden|unauthorized|invalid|cannot|can't|could\ not|couldn't|unable\ to
          |no\ such|not\ (?:found|allowed|permitted|authorized)|unknown|unrecogni[sz]ed|unsupported
          |permission|access)\b(?!\ (?:granted|rate|ok|log|count|budget))
      |[\w./+-]{1,60}:(?:\d+:){0,2}\ (?:
          (?:fatal\ )?(?:error|fatal|panic|fehler|erreur)(?:\[\w+\])?(?:\ \(|:)
          |(?:cannot|can't|could\ not|unable\ to|invalid|unrecogni[sz]ed|unknown|unsupported)\ )
      |(?:[\w.-]{1,30}\ ){1,3}error\ ?\(?-?\d{1,6}\)?:
      |traceback\ \(most\ recent
      |(?:[a-z_]\w*\.)*[A-Za-z]*(?:Error|Exception|Fault|Timeout|Warning)\b(?:\s*[:(]|$)
      |(?:HTTP(?:/[\d.]+)?\s+|status(?:\s+code)?[:=\s]+)[45]\d\d\b
      |[45]\d\d\s+(?!(?:rows?|records?|results?|items?|files?|hits?|lines?|objects?|documents?|zeilen
          |treffer|dateien|eintr[äa]ge|datens[äa]tze|objekte|dokumente|lignes?|filas?|righe)\b)(?-i:[A-Z])
      |ORA-\d+|SQLSTATE|[A-Z]{2,5}-\d{4,5}:
      |\w{2,12}\ ERR!|curl:\ \(\d+\)|ERR_[A-Z_]+
      |[A-Z]+(?:_[A-Z]+)*_(?:ERROR|FAILED|FAILURE|EXCEPTION)\b
    )""",
    re.VERBOSE | re.IGNORECASE,
)
_ERROR_PHRASE = re.compile(
    r"""\b(?:
        connection\ (?:refused|reset|timed\ out)|timed?\ ?out|timeout\ (?:exceeded|expired|after)
      |permission\ denied|access\ (?:is\ )?denied|command\ not\ found
      |no\ such\ (?:file|table|column|host)
      |does\ not\ exist|doesn't\ exist|(?:is|was)\ (?:locked|refused|denied|rejected)
      |(?:is|was)\ not\ (?:found|allowed|defined|supported)
      |not\ authori[sz]ed|rate\ limit|too\ many\ requests|service\ unavailable|bad\ gateway
      |syntax\ error|exit(?:ed)?\ (?:code|status|with(?:\ code)?)[:\s]+[1-9]\d*|non-zero\ exit
      |E(?:NOTFOUND|CONNREFUSED|CONNRESET|TIMEDOUT|ACCES|NOENT|AI_AGAIN|PIPE|PERM)
      |out\ of\ memory|oomkilled|segmentation\ fault|quota\ exceeded|cannot\ be\ \w+ed
      |already\ in\ use|(?<!\b0\ )(?<!\bno\ )failed(?!\W{0,3}0\b)
    )\b|\[(?:error|emerg|crit|fatal)\]""",
    re.VERBOSE | re.IGNORECASE,
)
_ERROR_START = re.compile(
    r"(?:^|[:!]\s)(?:unable to|could not|couldn't|cannot|can't|failed to|refusing to"
    r"|authentication (?:failed|required)|unauthori[sz]ed|not authenticated|access denied)\b",
    re.MULTILINE | re.IGNORECASE,
)
_DEMAND = re.compile(
    r"^\W{0,3}usage:|^[A-Za-z][^\n|{\[]{0,150}\b(?:(?:has|have|needs?) to be (?:\w+ed|run|set)"
    r"|must (?:be|have|not be) |(?:is|are) required\b|not permitted\b|did you mean\b)"
    r"|(?:^|[.\n])\s{0,3}(?:please )?(?:use|try) [^.\n]{1,80}"
    r"\b(?:instead|to (?:restore|open|read|connect|load|decode|import))\b",
    re.IGNORECASE,
)
"""A first line that tells what the call lacked, or one that tells what to use instead."""
_STRONG_LINE = re.compile(
    r"^(?:Traceback \(most recent|\w*(?:Error|Exception): |ERROR: |FATAL: |error: |panic: )",
    re.MULTILINE,
)
_TRANSIENT_CUE = re.compile(
    r"""\b(?:time[ds]?\ ?-?out|timeout|locked|busy|temporar\w+|try\ again|unavailable|overload\w*
      |rate\ limit|too\ many\ requests|429|50[234]|bad\ gateway
      |connection\ (?:reset|refused|aborted)
      |deadlock|E(?:NOTFOUND|CONNREFUSED|CONNRESET|TIMEDOUT|AI_AGAIN)|name\ resolution)\b""",
    re.VERBOSE | re.IGNORECASE,
)
_EMPTY_RESULT = re.compile(
    r"""^[\W_]*(?:none|null|nil|undefined|empty|0
      |\(?0\ (?:rows?|results?|hits?|matches|records?|items?)\)?
      |no\ (?:rows?|results?|matches|hits|output|records?|data|entries)(?:\ (?:found|returned))?
      |keine\ (?:ergebnisse|zeilen|treffer)|sin\ resultados|aucun\ r[ée]sultat)?[\W_]*$""",
    re.VERBOSE | re.IGNORECASE,
)
_COLUMN_GAP = re.compile(r"\w.*?(?: {2,}|\t|[|│┃]).*?[^\W_]")
_STATUS_TAG = re.compile(
    r"(?:CREATE|ALTER|DROP|GRANT|REVOKE|TRUNCATE|COMMENT|VACUUM|ANALYZE|COPY|INSERT|UPDATE|DELETE"
    r"|MERGE|REINDEX|REFRESH)(?: [A-Z0-9]+){0,4}"
)
"""What databases answer to a statement that worked; the statement has the same words."""
_SUM = re.compile(r"[\s()\d.,]*\d\s*[-+*/^%x×÷][-+*/^%x×÷\s()\d.,=?]*\d[\s)=?]*")
_ERROR_KEYS = (
    *("error", "errors", "exception", "traceback", "fault", "errormessage", "error_message"),
    *("errortype", "error_type", "errorcode", "error_code", "faultstring", "error_description"),
)
_CODE_KEYS = ("status", "status_code", "statuscode", "code", "http_status")
_EXIT_KEYS = ("exit_code", "exitcode", "returncode", "return_code", "exit_status")
_BAD_STATUS = frozenset({"error", "failed", "failure", "fail", "denied", "rejected", "refused"})


def looks_failed(text: str) -> bool:
    """Say whether a tool result is an error by its shape."""
    stripped = text.strip()
    parsed = _json_container(stripped)
    if isinstance(parsed, Mapping):
        return _object_failed(parsed)
    if parsed is not None or not stripped:
        return False
    short = len(stripped) <= _SHORT_RESULT
    if short and _is_mixed_table(stripped):
        return False
    if short and any(f.search(stripped) for f in (_ERROR_PHRASE, _ERROR_START, _DEMAND)):
        return True
    lines = stripped.splitlines()
    ends = (lines[0], lines[-1]) if short else (lines[0],)
    return any(_ERROR_OPENING.match(line.strip()[:200]) for line in ends) or bool(
        _STRONG_LINE.search(stripped[:2000]) or _STRONG_LINE.search(stripped[-2000:])
    )


def _is_mixed_table(text: str) -> bool:
    """Say whether a text is a table of which only some rows tell an error: a list of states."""
    lines = [line for line in text.splitlines() if re.search(r"[^\W_]", line)]
    if len(lines) < 4 or not all(_COLUMN_GAP.search(line.strip()) for line in lines):
        return False
    bad = [line for line in lines if _ERROR_PHRASE.search(line) or _ERROR_OPENING.match(line)]
    return lines[0] not in bad and len(bad) * 2 < len(lines)


def looks_transient(text: str) -> bool:
    """Say whether a failure is of the sort that goes away by itself."""
    return _TRANSIENT_CUE.search(text) is not None


def looks_empty(text: str) -> bool:
    """Say whether a result holds nothing: no rows, null, empty lists, zero."""
    stripped = text.strip()
    parsed = _json_container(stripped)
    if parsed is not None:
        return _is_hollow(parsed)
    return _EMPTY_RESULT.match(stripped) is not None if len(stripped) < 80 else False


def looks_echoed(result: str, call: str) -> bool:
    """Say whether a result only gives back what the call contained (`echo hello`)."""
    words = result.split()
    if _STATUS_TAG.fullmatch(result.strip()):
        return False
    return len(words) <= 30 and " ".join(words) in " ".join(call.replace("\\n", " ").split())


def looks_arithmetic(arguments: str) -> bool:
    """Say whether a call only calculates with plain numbers: anybody could have done it."""
    parsed = _json_container(arguments.strip())
    values = parsed.values() if isinstance(parsed, Mapping) else [arguments]
    texts = [str(value) for value in values]
    return any(_SUM.fullmatch(text) for text in texts) and not any(
        re.search(r"[^\W\d_]{2}", text) for text in texts
    )


def _json_container(text: str) -> object:
    if text[:1] not in "{[":
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _object_failed(found: Mapping[str, object]) -> bool:
    lowered = {str(key).casefold(): value for key, value in found.items()}
    if any(lowered.get(key) not in (None, "", False, [], {}, 0) for key in _ERROR_KEYS):
        return True
    if any(lowered.get(key) is False for key in ("success", "ok", "succeeded")):
        return True
    if any(_is_bad_code(lowered.get(key)) for key in _CODE_KEYS):
        return True
    exits = [lowered.get(key) for key in _EXIT_KEYS]
    return any(isinstance(code, int) and code != 0 for code in exits)


def _is_bad_code(value: object) -> bool:
    if isinstance(value, str):
        return value.casefold() in _BAD_STATUS or bool(re.fullmatch(r"[45]\d\d(?: .*)?", value))
    return isinstance(value, int) and 400 <= value < 600


def _is_hollow(found: object, depth: int = 0) -> bool:
    if depth > 20:
        return False
    if isinstance(found, Mapping):
        return all(_is_hollow(value, depth + 1) for value in found.values())
    if isinstance(found, list):
        return all(_is_hollow(value, depth + 1) for value in found)
    return found in (None, "", 0, False)
