"""A status as lines of at most `width` columns."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rich.cells import cell_len, set_cell_size

from lessons_loop.deploy.doctor.render import beside
from lessons_loop.deploy.status.facts import HANGS, DomainStatus, StoreStatus
from lessons_loop.filter.spool import STUCK_SECONDS
from lessons_loop.promote.clock import parse_iso, utc_now
from lessons_loop.promote.counting import many
from lessons_loop.promote.proof.summary import ProofSummary
from lessons_loop.promote.runs.register import RunLine
from lessons_loop.promote.runs.summary import LessonRecord
from lessons_loop.promote.showing import plain
from lessons_loop.promote.waiting import aged

COLUMN = 13
"""Where the texts begin."""
SHOWN_RECORDS = 10
BARS = "▁▂▃▄▅▆▇█"


def render_status(
    found: StoreStatus, width: int = 80, now: datetime | None = None, *, every: bool = False
) -> str:
    """Return the whole status; `every` lists all used lessons, not only the telling ones."""
    moment = now or utc_now()
    lines = [("store", found.store)]
    for domain in found.domains:
        lines += domain_lines(domain, moment)
    lines += [
        ("hidden", f"{one.domain}: {one.lessons} {one.cause}: {one.remedy}") for one in found.hidden
    ]
    lines += gate_lines(found, moment)
    lines += [("note", note) for note in found.notes]
    lines += [("problem", problem) for problem in found.problems]
    shown = [row for head, text in lines for row in beside(head, text, width, COLUMN)]
    return "\n".join([*shown, *run_lines(found.runs, width), *record_lines(found, width, every)])


def domain_lines(domain: DomainStatus, now: datetime) -> list[tuple[str, str]]:
    """Return one domain's lines."""
    counts = f"{shown(domain.curated)} curated ({shown(domain.published)} published)"
    staged = f"{many(domain.candidates, 'candidate')}, {shown(domain.held)} held"
    unreadable = f", {domain.unreadable} unreadable rows" if domain.unreadable else ""
    floor = "" if domain.floor is None else f", floor {domain.floor:.2f}"
    none = "none: recall is lexical" if domain.published else "none before the first lesson"
    lines = [
        (domain.domain, f"{counts}, {staged}{unreadable}"),
        ("", f"embedding {domain.embedding or none}{floor}"),
    ]
    if domain.waiting and (then := parse_iso(domain.oldest_waiting)):
        lines.insert(1, ("", f"the oldest waits {aged(now, then)}: lessons candidates"))
    return [*lines, *(("", text) for text in proof_lines(domain))]


def proof_lines(domain: DomainStatus) -> list[str]:
    """Return what was measured about single lessons; nothing where nothing was."""
    found = ProofSummary.model_validate(domain.proofs)
    lines = [f"measured: {told}"] if (told := found.told()) else []
    ids = ", ".join(key[:12] for key in found.harmful)
    return lines + ([f"harmful: {ids}, held by the next run: lessons show ID"] if ids else [])


def gate_lines(found: StoreStatus, now: datetime) -> list[tuple[str, str]]:
    """Return what concerns the whole store."""
    lines = [("spool", spool_text(found, now)), ("schema", shown(found.schema))]
    lines.append(("last run", found.last_run or "none"))
    if found.pause:
        lines.append(("paused", found.pause))
    if found.preview:
        lines.append(("preview", f"{found.preview}: lessons confirm"))
    return [*lines, ("ledger", ledger_text(found)), ("decay", found.decay)]


def spool_text(found: StoreStatus, now: datetime) -> str:
    """Return what waits in the spool, and since when where that is too long."""
    if found.spool is None:
        return "in Open WebUI's own data folder"
    told = f"{many(found.spool, 'record')} waiting for staging"
    since = parse_iso(found.spool_since)
    if since is not None and (now - since).total_seconds() > STUCK_SECONDS:
        told += f" since {found.spool_since}: "
        told += HANGS if found.spool_held else "is Open WebUI running?"
    return told + (f", {found.spool_bad} unreadable" if found.spool_bad else "")


def ledger_text(found: StoreStatus) -> str:
    """Return what was verified of the ledger."""
    if found.ledger_lines is None:
        return "not read"
    count = many(found.ledger_lines, "line")
    if not found.ledger_verified:
        return f"{count}, NOT verified: lessons verify"
    part = found.ledger_checked < found.ledger_lines
    return f"{count}, the last {found.ledger_checked} verified" if part else f"{count}, verified"


def shown(count: int | None) -> str:
    """Return a count, `?` where it could not be read."""
    return "?" if count is None else str(count)


def spark(values: Sequence[int]) -> str:
    """Return one bar a value, a dot for none."""
    top = max(values, default=0)
    return "".join(BARS[round(7 * value / top)] if value else "·" for value in values)


def run_lines(runs: Sequence[RunLine], width: int) -> list[str]:
    """Return the last runs: what was promoted as bars, then a table, newest last."""
    if not runs:
        return []
    bars = spark([line.outcomes.promoted for line in runs])
    several = len({line.domain for line in runs}) > 1
    head = f"{'last runs':{COLUMN}}{bars}  promoted by run"
    title = "when        mode       prom held  rej  dup stale  wait"
    rows = [cut(run_row(line, several), width) for line in runs]
    return ["", cut(head, width), cut(title, width), *rows]


def run_row(line: RunLine, several: bool) -> str:
    """Return one run as a row."""
    did = line.outcomes
    counts = (did.promoted, did.held, did.rejected, did.duplicates)
    numbers = " ".join(f"{count:>4}" for count in counts)
    when = line.started[5:16].replace("T", " ")
    row = (
        f"{when:11} {plain(line.mode)[:10]:10} {numbers} {did.demoted:>5} {shown(line.waiting):>5}"
    )
    return f"{row}  {' '.join(remarks(line, several))}".rstrip()


def remarks(line: RunLine, several: bool) -> list[str]:
    """Return what a row's numbers do not say."""
    found = [line.domain] if several else []
    found += ["preview"] if line.preview else []
    found += ["paused"] if line.paused else []
    return found + (["error"] if line.error else [])


def record_lines(found: StoreStatus, width: int, every: bool) -> list[str]:
    """Return the used lessons' records: the worst first, then the most used."""
    lines: list[str] = []
    for domain, records in found.records.items():
        chosen = records if every else telling(records)
        if not chosen:
            continue
        more = len(records) - len(chosen)
        rest = f" ({more} more: --all)" if more else ""
        lines += ["", cut(f"{domain}: {many(len(records), 'lesson')} used{rest}", width)]
        lines.append(f"{'id':12} {'hits':>5} {'good':>4} {'bad':>4} {'users':>5} {'used':10} text")
        lines += [cut(record_row(record), width) for record in chosen]
    return lines


def telling(records: Sequence[LessonRecord]) -> list[LessonRecord]:
    """Return the worst and the most used ones."""
    half = SHOWN_RECORDS // 2
    worst = [record for record in records if record.failures][:half]
    best = sorted(records, key=lambda record: (-record.hits, record.key))
    rest = [record for record in best if record not in worst]
    return worst + rest[: SHOWN_RECORDS - len(worst)]


def record_row(record: LessonRecord) -> str:
    """Return one lesson's record as a row."""
    counts = f"{record.hits:>5} {record.successes:>4} {record.failures:>4} {record.judges:>5}"
    return f"{record.key[:12]} {counts} {record.last_used[:10]:10} {plain(record.text)}"


def cut(line: str, width: int) -> str:
    """Return a line of at most `width` cells."""
    return line if cell_len(line) <= width else set_cell_size(line, width - 1).rstrip() + "…"
