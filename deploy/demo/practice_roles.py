"""The practice model as distiller, as reviewer and for Open WebUI's small tasks.

A script, not a language model: as distiller it knows one thing to learn, a
refused query followed by a changed one that worked; as reviewer it promotes only
what speaks of the demo data and shows a result.
"""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any, NamedTuple

TASKS: dict[str, dict[str, Any]] = {
    '"follow_ups"': {"follow_ups": ["Which work orders are open on it?", "When was it serviced?"]},
    '"tags"': {"tags": ["Machines", "Demo"]},
    '"title"': {"title": "Machine question"},
    '"queries"': {"queries": []},
    '"text"': {"text": ""},
    '"prompt"': {"prompt": "a machine on a site"},
}
DEMO_TABLES = (
    *("equipment_machine", "equipment_model", "equipment_site", "telemetry_hours"),
    *("work_order", "fault_catalogue", "reporting_window"),
)
_LINE = re.compile(
    r"^\[(\d+)\] (USER|ASSISTANT|CALL|RESULT|FAILED|DOCUMENT)\b([^:\n]*):[ ]?", re.MULTILINE
)
_TABLE = re.compile(r"\b(?:FROM|JOIN)\s+(\w+)", re.IGNORECASE)
_DIRECTIVE = re.compile(
    r"ignore (?:all|any|previous|the)|disregard|system prompt|\bapprove\b|you are the reviewer"
    r"|verdict:|\bpromote this\b",
    re.IGNORECASE,
)


class Numbered(NamedTuple):
    """One line of the transcript in the distill prompt."""

    number: int
    role: str
    tool: str
    text: str


class Fix(NamedTuple):
    """A refused call and the changed one that worked, with their results."""

    refused: Numbered
    error: Numbered
    changed: Numbered
    result: Numbered


def task_reply(prompt: str) -> str | None:
    """Return the JSON for one of Open WebUI's task prompts, None when it is none."""
    if not prompt.lstrip().startswith("### Task:"):
        return None
    asked = prompt.partition("### Chat History")[0]
    return next((json.dumps(reply) for key, reply in TASKS.items() if key in asked), None)


def is_distill_prompt(system: str) -> bool:
    """Say whether a system message asks to distill lessons."""
    return "NOTHING" in system and '"lessons"' in system


def is_review_prompt(system: str) -> bool:
    """Say whether a system message asks for a verdict on a candidate."""
    return "VERDICT" in system and "PROMOTE" in system and "REJECT" in system


def distill_reply(transcript: str) -> str:
    """Return the lessons a numbered transcript proves, as JSON, or NOTHING."""
    fix = find_fix(read_numbered(transcript.partition("</transcript>")[0]))
    lesson = build_lesson(fix) if fix else None
    return json.dumps({"lessons": [lesson]}, ensure_ascii=False) if lesson else "NOTHING"


def read_numbered(transcript: str) -> list[Numbered]:
    """Cut a transcript at its line numbers; a line may run over several."""
    marks = list(_LINE.finditer(transcript))
    ends = [mark.start() for mark in marks[1:]] + [len(transcript)] * bool(marks)
    return [
        Numbered(
            int(mark.group(1)),
            mark.group(2),
            mark.group(3).strip(),
            transcript[mark.end() : end].strip(),
        )
        for mark, end in zip(marks, ends, strict=True)
    ]


def find_fix(lines: list[Numbered]) -> Fix | None:
    """Return the last refused query with the changed one that worked after it."""
    calls = [
        (call, result)
        for call, result in pairwise(lines)
        if call.role == "CALL" and result.role in ("RESULT", "FAILED") and "run_sql" in call.tool
    ]
    worked = [pair for pair in calls if pair[1].role == "RESULT"]
    refused = [pair for pair in calls if pair[1].role == "FAILED"]
    for changed, result in reversed(worked):
        for call, error in reversed(refused):
            if call.number < changed.number and call.text != changed.text:
                return Fix(call, error, changed, result)
    return None


def build_lesson(fix: Fix) -> dict[str, Any] | None:
    """Return the lesson a fix proves, from the tables and columns of the call that worked."""
    good, bad = fix.changed.text, fix.refused.text
    parts = []
    if "serial_key" in good and "serial_raw" in bad:
        parts.append(
            "Look a machine up by equality on equipment_machine.serial_key, "
            "never by a text match on serial_raw"
        )
    if "fault_catalogue" in good and "note" in bad:
        parts.append(
            "Find work_order rows of a fault by fault_code through fault_catalogue.meaning, "
            "never by a text match on note"
        )
    if "reporting_window" in good:
        day = "telemetry_hours.day_key" if "telemetry_hours" in good else "work_order.opened_day"
        parts.append(f"bound {day} with first_day_key and last_day_key of reporting_window")
    if not parts:
        return None
    text = "; ".join(parts)
    return {
        "text": f"{text[0].upper()}{text[1:]}.",
        "kind": "fail-fix",
        "trigger": trigger_of(good),
        "tags": [table for table in DEMO_TABLES if table in _TABLE.findall(good)][:4],
        "lines": [line.number for line in fix],
        "quote": fix.result.text[:100],
    }


def trigger_of(sql: str) -> str:
    """Return the class of question a working query answers."""
    if "telemetry_hours" in sql:
        return "operating hours of a machine given by its serial number"
    if "fault_catalogue" in sql:
        return "counting work orders that concern a fault"
    return "looking up a machine by its serial number, such as its work orders, site or model"


def review_reply(prompt: str) -> str:
    """Return reasons and a strict last line on a candidate, REJECT when unsure."""
    verdict, reason = judge_candidate(read_candidate(prompt))
    return f"Practice model (a script, not a language model): {reason}.\nVERDICT: {verdict}"


def read_candidate(prompt: str) -> dict[str, Any]:
    """Return the JSON object in a review prompt, empty when there is none."""
    start, end = prompt.find("{"), prompt.rfind("}")
    try:
        found = json.loads(prompt[start : end + 1])
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def judge_candidate(candidate: dict[str, Any]) -> tuple[str, str]:
    """Return the verdict and why."""
    text = str((candidate.get("lesson") or {}).get("text", ""))
    seen = [sighting for sighting in candidate.get("evidence") or () if isinstance(sighting, dict)]
    whole = json.dumps(candidate, ensure_ascii=False)
    if not any(table in text for table in DEMO_TABLES):
        return "REJECT", "it does not speak of the demo data, which is all I know"
    if _DIRECTIVE.search(whole) or any(sighting.get("orders_in_excerpt") for sighting in seen):
        return "REJECT", "something in it gives orders to its reader"
    if not any(_shows_success(text, str(sighting.get("excerpt"))) for sighting in seen):
        return "REJECT", "no excerpt shows the advised columns in a query that returned rows"
    return "PROMOTE", "the excerpt shows a query with the advised columns and the rows it returned"


def _shows_success(text: str, excerpt: str) -> bool:
    """Say whether the last call in an excerpt uses what the lesson names, and returned rows."""
    lines = read_numbered(excerpt)
    calls = [line.text for line in lines if line.role in ("CALL", "FAILED")]
    worked = [line for line in lines if line.role == "RESULT" and '"rows":[[' in line.text]
    named = set(re.findall(r"[a-z]+(?:_[a-z]+)+", text))
    return bool(worked) and named <= set(re.findall(r"[a-z]+(?:_[a-z]+)+", " ".join(calls)))
