"""What a gate's session shows: curated, archive, candidates, events, embeddings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from lessons_loop.filter.embed import Vectors
from lessons_loop.filter.events import Usage
from lessons_loop.filter.models import Candidate, Curated
from lessons_loop.promote.decide.plan import open_holds
from lessons_loop.promote.embedding.once import EmbedOnce
from lessons_loop.promote.records import Archived
from lessons_loop.promote.store.candidates import StagedEvents, read_candidates, read_events
from lessons_loop.promote.store.holdings import Holdings
from lessons_loop.promote.store.places import LessonStore


class GateView:
    """The reading half of a session."""

    def __init__(
        self, domain: str, store: LessonStore, holdings: Holdings, embedding: EmbedOnce
    ) -> None:
        self.domain = domain
        self.store = store
        self.holdings = holdings
        self.embedding = embedding
        self.unreadable = 0
        """Rows of staging's candidates that were none, after `candidates()`."""

    @property
    def curated(self) -> Mapping[str, Curated]:
        """Curated lessons by key, as they stand now."""
        return MappingProxyType(self.holdings.curated)

    @property
    def unreadable_curated(self) -> Mapping[str, str]:
        """Curated rows that do not read, by id, with the reason; they are never published."""
        return MappingProxyType(self.holdings.unreadable)

    @property
    def archive(self) -> Mapping[str, Archived]:
        """Archived lessons by `Archived.id`; a held one that was decided later stays."""
        return MappingProxyType(self.holdings.archive)

    def held(self) -> list[Archived]:
        """Return the held lessons nobody has decided on since, oldest decision first."""
        return open_holds(self.curated, self.archive.values())

    def nearest_vectors(self) -> tuple[tuple[str, ...], Vectors]:
        """Return curated's keys and their unit rows, same order."""
        return self.holdings.matrix()

    def archive_vectors(self) -> tuple[tuple[str, ...], Vectors]:
        """Return the archive ids that have a vector of the present model, and their unit rows."""
        return self.holdings.archive_matrix()

    def candidates(self) -> list[Candidate]:
        """Return what staging proposes, oldest first; raise StoreLocked, StoreDamaged."""
        staged = read_candidates(self.store, self.domain)
        self.unreadable = staged.unreadable
        return staged.candidates

    def usages(self) -> list[tuple[str, Usage]]:
        """Return the usage events by row id; raise StoreLocked, StoreDamaged."""
        return self.events().usages

    def events(self) -> StagedEvents:
        """Return the events of every type, and the ids of rows that are none."""
        return read_events(self.store, self.domain)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return unit rows of texts as documents; asked once per text and run.

        Raises EmbedError.
        """
        return self.embedding.rows(texts)
