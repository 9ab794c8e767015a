"""A shelf in memory gives what the filter's inlet injects; its store stays as it is."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from lessons_loop.eval.shelf import (
    KnownTexts,
    Shelf,
    copied_set,
    digest_of,
    joined,
    without,
)
from lessons_loop.filter.embed import Purpose, fingerprint
from lessons_loop.filter.errors import EmbedError, StoreError
from lessons_loop.filter.inject import BLOCK_OPEN, block
from lessons_loop.filter.lessons_filter import Filter
from lessons_loop.filter.valves import LessonsValves
from lessons_loop.promote.embedding.embedders import OpenAIEmbeddings
from lessons_loop.promote.proof.proving import LessonSet, lesson_set_of
from support import templates
from support.gate import (
    HashEmbedder,
    candidate,
    curated,
    flags,
    gate,
    lesson,
    on_folder,
    promotion,
    server_url,
    shown,
)
from support.patient import PATIENT_MS
from support.shelf import app_with

EMBEDDER = HashEmbedder(256)
TEXTS = {
    "Look serials up in equipment_machine by serial_key.": "operating hours of a machine",
    "Bound telemetry_hours by day_key before you sum the hours.": "sums over telemetry hours",
    "Bound telemetry_hours by day_key and end the query with LIMIT.": "long telemetry queries",
    "Rotate the ingress certificate with cert-manager, never by hand.": "expiring certificates",
    "Count open work orders by status, closed ones keep their machine.": "open work orders",
    "Restart the pod after a change of its config map.": "a config map that is not read",
    "Name sites by site_name, the code is internal.": "machines at one site",
}
ASKED = [
    "operating hours of the machine with serial SN-4711?",
    "sum the telemetry hours of last year",
    "what do I do about an expiring certificate of the ingress?",
    "how many open work orders does this machine have at one site",
    "good morning!",
    "thanks a lot",
    "",
    "the config map is not read by the pod, why? " + "log line without meaning, " * 900,
    "Betriebsstunden der Maschine SN-4711 und offene work orders bitte",
    "telemetry telemetry hours hours query LIMIT day_key",
]
CHATS = [
    ["operating hours of machine SN-4711?", "It ran 12 hours.", "and SN-4712?"],
    ["operating hours of machine SN-4711?", "It ran 12 hours.", "thanks!"],
    ["sum the telemetry hours", "By day?", "yes"],
    ["sum the telemetry hours", "Done.", "by the way, which certificate expires?"],
    ["open work orders?", "Three.", "only those at one site", "Two.", "and its certificates?"],
]


def turns(*texts):
    """Return user's and assistant's turns in alternation."""
    roles = ("user", "assistant")
    return [{"role": roles[at % 2], "content": text} for at, text in enumerate(texts)]


EVERYTHING = [*(turns(text) for text in ASKED), *(turns(*texts) for texts in CHATS)]


def filled(root):
    """Make a store with the lessons, promoted through the gate."""
    templates.copied(promoted, root)


def promoted(root):
    with gate(root, EMBEDDER) as session:
        for at, (text, trigger) in enumerate(TEXTS.items()):
            found = candidate(text, trigger=trigger, message=f"m{at}")
            session.apply(promotion(session, found))


def copied(root, embedder=EMBEDDER):
    state = root / "state" if server_url(root) else None
    return copied_set(server_url(root) or str(root), "sql", state, embedder)


class InletOf:
    """The real filter on a store, asked in a chat that is new each time."""

    def __init__(self, root, app):
        self.filter, self.app = Filter(), app
        self.filter.valves = Filter.Valves(
            store=server_url(root) or str(root), domains="sql", recall_timeout_ms=PATIENT_MS
        )
        self.chats = 0

    async def block_for(self, messages):
        """Return the block the inlet puts in, empty for none."""
        self.chats += 1
        body = await self.filter.inlet(
            body={"model": "m", "messages": messages},
            __user__={"id": "u"},
            __metadata__={"chat_id": f"chat-{self.chats}"},
            __request__=SimpleNamespace(app=self.app),
        )
        texts = [str(one["content"]) for one in body["messages"] if one["role"] == "system"]
        return next((text for text in texts if text.startswith(BLOCK_OPEN)), "")


def blocks_of_inlet(root, app, asked=EVERYTHING):
    async def all_of_them():
        inlet = InletOf(root, app)
        found = [await inlet.block_for(messages) for messages in asked]
        await inlet.filter.backend.close()
        return found

    return asyncio.run(all_of_them())


def blocks_of_shelf(shelf, asked=EVERYTHING):
    return [block(found) if (found := shelf.recalled(messages)) else "" for messages in asked]


def test_shelf_gives_what_the_inlet_injects(root):
    filled(root)
    wanted = blocks_of_inlet(root, app_with(EMBEDDER))
    assert blocks_of_shelf(Shelf(copied(root), EMBEDDER)) == wanted
    assert len(set(wanted)) >= 6 and "" in wanted


def test_without_an_embedder_words_alone_decide(root):
    filled(root)
    wanted = blocks_of_inlet(root, SimpleNamespace(state=SimpleNamespace()))
    assert blocks_of_shelf(Shelf(copied(root), None)) == wanted
    assert len(set(wanted)) >= 4


@on_folder
def test_a_late_lesson_is_recalled_as_after_publishing(root):
    filled(root)
    late = candidate("Join equipment_model for the maker.", trigger="who made it", message="late")
    vectors = EMBEDDER.embed([late.lesson.embedded_text], Purpose.DOCUMENT)
    more = Shelf(joined(copied(root), [curated(late.lesson)], vectors), EMBEDDER)
    before = shown(root).header
    with gate(root, EMBEDDER) as session:
        session.apply(promotion(session, late))
    after = shown(root).header
    assert (more.index.floor, more.index.lexical_floor) == (after.floor, after.lexical_floor)
    assert (before.floor, before.lexical_floor) != (after.floor, after.lexical_floor)
    asked = [*EVERYTHING, turns("who made it, the maker of SN-4711?")]
    texts = blocks_of_shelf(more, asked)
    assert texts == blocks_of_inlet(root, app_with(EMBEDDER), asked)
    assert "equipment_model" in texts[-1]


def tree(folder):
    """Return every file below with its bytes and its time."""
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_the_store_keeps_every_byte(root):
    filled(root)
    before, listed = tree(root), shown(root)
    found = copied(root)
    Shelf(without(found, [found.lessons[0].key]), EMBEDDER).recalled(turns(ASKED[0]))
    assert tree(root) == before
    assert (shown(root).keys, shown(root).header) == (listed.keys, listed.header)


def test_missing_domain_is_named(root):
    filled(root)
    place = dict(zip(*[iter(flags(root))] * 2, strict=True))
    with pytest.raises(StoreError, match="has no domain pumps: run `lessons init`"):
        copied_set(place["--store"], "pumps", root / "state", EMBEDDER)


@on_folder
def test_set_is_what_a_session_holds(root):
    filled(root)
    with gate(root, EMBEDDER) as session:
        found = lesson_set_of(session)
        assert [one.key for one in found.lessons] == list(session.curated)
        assert found.rev == session.holdings.header.rev > 0
    texts = [one.lesson.embedded_text for one in found.lessons]
    assert np.allclose(found.vectors, EMBEDDER.embed(texts, Purpose.DOCUMENT), atol=1e-5)


def made(*texts):
    """Return a set of lessons with these texts."""
    rows = tuple(curated(lesson(text)) for text in texts)
    vectors = EMBEDDER.embed([r.lesson.embedded_text for r in rows] or ["x"], Purpose.DOCUMENT)
    return LessonSet("sql", rows, vectors[: len(rows)], fingerprint(EMBEDDER), 3)


def test_leaving_out_keeps_rows_beside_their_vectors():
    found = made("Use LIMIT.", "Use an index.", "Use UTC.")
    left = without(found, [found.lessons[1].key, "unknown"])
    assert left.lessons == (found.lessons[0], found.lessons[2])
    assert np.array_equal(left.vectors, found.vectors[[0, 2]]) and left.rev == 3


def test_joining_replaces_the_same_key():
    found, more = made("Use LIMIT.", "Use UTC."), made("Use LIMIT.", "Use an index.")
    row = more.lessons[0].model_copy(update={"hits": 9})
    both = joined(found, (row, more.lessons[1]), more.vectors)
    assert [one.lesson.text for one in both.lessons] == ["Use UTC.", "Use LIMIT.", "Use an index."]
    assert both.lessons[1].hits == 9 and both.vectors.shape == (3, 256)
    with pytest.raises(ValueError, match="1 lessons with 2 vectors"):
        joined(found, (row,), more.vectors)


def test_joining_to_nothing_gives_the_lessons():
    empty = LessonSet("sql", (), np.zeros((0, 0), np.float32), fingerprint(EMBEDDER))
    more = made("Use LIMIT.")
    assert joined(empty, more.lessons, more.vectors).vectors.shape == (1, 256)
    assert Shelf(empty, EMBEDDER).recalled(turns("anything at all?")) == ()


def test_digest_is_about_what_recall_reads():
    found = made("Use LIMIT.", "Use UTC.")
    rows = found.lessons
    turned = LessonSet("sql", rows[::-1], found.vectors[::-1])
    used = LessonSet("sql", (rows[0].model_copy(update={"hits": 7}), rows[1]), found.vectors)
    other = rows[0].model_copy(update={"lesson": lesson("Use LIMIT.", trigger="something else")})
    assert digest_of(found) == digest_of(turned) == digest_of(used)
    assert len({digest_of(one) for one in (found, made("Use LIMIT."), made())}) == 3
    assert digest_of(LessonSet("sql", (other, rows[1]), found.vectors)) != digest_of(found)


def test_another_model_is_refused():
    with pytest.raises(StoreError, match="pass the store's own with --embedding"):
        Shelf(made("Use LIMIT."), HashEmbedder(256, salt="other"))


def test_an_embedder_out_of_reach_is_one_error():
    with pytest.raises(EmbedError):
        Shelf(made("Use LIMIT."), OpenAIEmbeddings("m", "http://127.0.0.1:9/v1", seconds=2.0))


def test_valves_bound_what_is_recalled():
    found = made("Sum telemetry hours by day.", "Bound telemetry hours.", "Telemetry hours in UTC.")
    asked = turns("telemetry hours by day in UTC")
    some = len(Shelf(found, EMBEDDER).recalled(asked))
    assert some > 1
    assert len(Shelf(found, EMBEDDER, LessonsValves(top_k=1)).recalled(asked)) == 1
    assert Shelf(found, EMBEDDER, LessonsValves(top_k=0)).recalled(asked) == ()


def test_texts_are_embedded_once_for_all_threads():
    counting = HashEmbedder(256)
    shared = KnownTexts(counting)
    shelf = Shelf(made(*TEXTS), shared)
    found = []
    several = [
        threading.Thread(target=lambda: found.append(blocks_of_shelf(shelf))) for _ in range(4)
    ]
    for one in several:
        one.start()
    for one in several:
        one.join(60)
    assert len(found) == 4 and all(one == found[0] for one in found)
    assert len(counting.asked) == len(set(counting.asked))
    Shelf(made(*TEXTS), shared)  # the everyday messages are known by now
    assert len(counting.asked) == len(set(counting.asked))
