"""What `lessons status` says of a store, whichever way it was read."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from lessons_loop.filter.schema import SCHEMA
from lessons_loop.promote.runs.register import RunLine
from lessons_loop.promote.runs.summary import LessonRecord

HANGS = "a worker holds spool.lock: where that lasts, end the one that hangs"


@dataclass
class DomainStatus:
    """One domain's counts; None: could not be read, `problems` says why."""

    domain: str
    curated: int | None = None
    published: int | None = None
    """What recall reads."""
    candidates: int | None = None
    unreadable: int = 0
    """Rows of staging that are no candidates; only `--check` looks."""
    held: int | None = None
    oldest_waiting: str = ""
    """When the oldest candidate or held lesson came."""
    events: int | None = None
    """Answers and thumbs the next run will count."""
    schema: int | None = None
    """Which release may read it; below this release's: it has to be migrated."""
    embedding: str = ""
    fingerprint: dict[str, Any] | None = None
    """The embedding model the stored vectors came from; its anchors only with `--check`."""
    floor: float | None = None
    archive: dict[str, int] = field(default_factory=dict)
    """Archived rows by status."""
    used: int = 0
    """Curated lessons that were ever shown."""
    hits: int = 0
    successes: int = 0
    failures: int = 0
    proofs: dict[str, Any] = field(default_factory=dict)
    """Curated lessons by what was measured about them: `counts`, and keys of `harmful` ones."""
    summary_at: str = ""
    """When the gate wrote down what is said here; empty: the store itself was read."""

    @property
    def waiting(self) -> int:
        """Candidates and held lessons a person may decide on."""
        return (self.candidates or 0) + (self.held or 0)


@dataclass(frozen=True)
class Hidden:
    """Curated lessons that chats do not get, or not as they should, and why."""

    domain: str
    lessons: int
    cause: str
    remedy: str
    keys: tuple[str, ...] = ()


@dataclass
class StoreStatus:
    """A whole store."""

    store: str
    domains: list[DomainStatus]
    spool: int | None
    """None: a server's plugin keeps its spool where it runs."""
    spool_bad: int
    """Spool files that were none of ours, kept in `spool/bad`."""
    spool_since: str = ""
    """When the record that waits longest was spooled; empty: none waits."""
    spool_held: bool = False
    """Whether a worker holds the spool's lock now."""
    checked: bool = False
    """Whether the store itself was read, not what the gate wrote down about it."""
    last_run: str = ""
    ledger_lines: int | None = None
    """None: not read."""
    ledger_verified: bool = False
    ledger_checked: int = 0
    """How many lines, from the end, were verified."""
    pause: str = ""
    """Who paused the gate, when and why; empty: it is not paused."""
    preview: str = ""
    """Set while unattended runs only preview, because nobody has confirmed one."""
    runs: list[RunLine] = field(default_factory=list)
    records: dict[str, list[LessonRecord]] = field(default_factory=dict)
    """Used lessons by domain, worst first, then most used."""
    hidden: list[Hidden] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def schema(self) -> int | None:
        """The lowest schema of a domain, None where none was read."""
        return min((one.schema for one in self.domains if one.schema), default=None)

    def tell_schema(self) -> None:
        """Add the problem of a store that only reads are allowed on."""
        if self.schema is not None and self.schema < SCHEMA:
            told = f"schema {self.schema}, this release writes {SCHEMA}: run `lessons migrate`"
            self.problems.append(told)

    @property
    def decay(self) -> str:
        """Say what decay rests on."""
        hits = sum(domain.hits for domain in self.domains)
        good = sum(domain.successes for domain in self.domains)
        bad = sum(domain.failures for domain in self.domains)
        stale = sum(domain.archive.get("stale", 0) for domain in self.domains)
        told = f"live: {hits} uses, {good + bad} judged"
        told += f" ({good / (good + bad):.0%} good)" if good + bad else ""
        return told + (f", {stale} stale in the archive" if stale else "")

    def as_json(self) -> dict[str, Any]:
        """Return everything, for machines."""
        plain = asdict(self) | {"decay": self.decay}
        plain["schema"] = {"store": self.schema, "release": SCHEMA}
        plain["runs"] = [line.model_dump(mode="json") for line in self.runs]
        plain["records"] = {
            domain: [record.model_dump(mode="json") for record in found]
            for domain, found in self.records.items()
        }
        return plain
