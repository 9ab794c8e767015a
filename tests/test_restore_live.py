"""A plugin at work follows a restore by another process, without a restart.  # T-34"""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path

from lessons_loop.filter.alerts import Alerts
from lessons_loop.filter.reader import CuratedReader
from lessons_loop.filter.server import parse_server
from lessons_loop.filter.server_shelf import CuratedServer
from lessons_loop.filter.shelves import PublishedFolder
from lessons_loop.filter.store import StorePaths
from support.gate import candidate, flags, gate, promotion, server_url, stage
from support.restoring import fill
from support.snapshots import TEXTS


def reader_of(root: Path) -> CuratedReader:
    url = server_url(root)
    source = CuratedServer(parse_server(url)) if url else PublishedFolder(StorePaths(root))
    return CuratedReader(source, ("sql",), Alerts())


def texts(reader: CuratedReader) -> set[str]:
    reader.refresh()
    assert reader.loaded is not None and reader.alerts.active == {}
    recall = reader.loaded.recall
    return {recall.lesson(place).lesson.text for place in range(len(recall.keys))}


def restore_elsewhere(root: Path) -> None:
    words = [sys.executable, "-m", "lessons_loop.deploy.cli", "restore", "latest", *flags(root)]
    subprocess.run([*words, "--reason", "a bad run"], check=True, capture_output=True, timeout=120)


def test_open_reader_and_appender_follow_a_restore(root: Path) -> None:
    fill(root)
    bad = candidate("Trust every chat.", message="bad")
    with closing(reader_of(root)) as reader:
        with gate(root) as session:
            session.apply(promotion(session, bad))
        assert texts(reader) == {TEXTS[0], bad.lesson.text}
        restore_elsewhere(root)
        assert texts(reader) == {TEXTS[0]}
        stage(root, [candidate("Bound reads by day_key.", message="later")])
    with gate(root) as session:
        assert "Bound reads by day_key." in {one.lesson.text for one in session.candidates()}
