"""Disk full, clock set back, two gates, rows changed by hand, hostile candidates: nothing lost."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from lessons_loop.deploy.bench.killing import end_state
from lessons_loop.filter.errors import LessonsError
from lessons_loop.filter.models import Record
from lessons_loop.filter.store import STAGING_VECTOR, collection_names
from lessons_loop.promote.gate import Mode, Rules
from lessons_loop.promote.runs.drive import RunOptions, run_gate
from lessons_loop.promote.session import open_gate
from support.commands import run_here
from support.gate import (
    candidate,
    gate,
    on_folder,
    on_server,
    promotion,
    raw_client,
    server_url,
    settings,
    shown,
    stage,
)

AUTO = RunOptions(Mode.AUTO, Rules(min_users=1))
DRIVER = Path(__file__).parent / "support" / "full_disk_driver.py"
FAULTY = [candidate(f"The table orders_{n} is big.", message=f"m{n}") for n in range(40)]


def on_small_disk(store: Path, mount: Path, left: int, *words: str) -> dict[str, Any]:
    """Run the driver in a mount namespace of its own, where `mount` is 16 MB."""
    mount.mkdir()
    python = [sys.executable, str(DRIVER), str(store), str(mount), str(left), *words]
    shell = f'mount -t tmpfs -o size=16m none "{mount}" && exec "$@"'
    done = subprocess.run(
        ["unshare", "--map-root-user", "--mount", "sh", "-c", shell, "sh", *python],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@on_folder
@pytest.mark.parametrize("left", [0, 40_000, 200_000, 500_000])
def test_full_disk_is_one_line_and_the_next_run_goes_on(  # T-31
    root: Path, tmp_path: Path, left: int
) -> None:
    with gate(root) as session:
        session.apply(promotion(session, candidate("Use port 22.", message="kept")))
    stage(root, FAULTY)
    calm = tmp_path / "calm"
    shutil.copytree(root, calm)
    words = ("promote", "--domain", "sql", "--auto", "--min-users", "1")
    assert run_here(*words, "--store", str(calm)).code == 0
    found = on_small_disk(root, tmp_path / "disk", left, *words)
    assert found["full"]["code"] == 1 and len(found["full"]["err"]) == 1
    assert found["full"]["err"][0].startswith("lessons: ")
    assert found["again"]["code"] == 0
    wanted = json.loads(json.dumps(end_state(calm)))
    assert found["state"] == wanted and wanted["problems"] == []


def test_clock_set_back_confuses_nothing(root: Path) -> None:
    late = datetime(2026, 12, 1, 8, tzinfo=UTC)
    moments = [late, late - timedelta(days=60), late - timedelta(days=60), late]
    for number, moment in enumerate(moments):
        stage(root, [candidate(f"Use port {number}.", message=f"m{number}")])
        with open_gate(settings(root), now=lambda at=moment: at) as session:  # type: ignore[misc]
            run_gate(session, AUTO)
    with gate(root) as session:
        assert len(session.curated) + len(session.archive) == 4
        assert session.ledger.verify() == []
    names = [path.name for path in (root / "state" / "snapshots" / "sql").iterdir()]
    assert len(names) == len(set(names)) == 4


@on_folder
def test_two_gates_at_once_end_as_one(root: Path) -> None:
    with gate(root):
        pass
    stage(root, FAULTY)
    words = ["promote", "--domain", "sql", "--auto", "--store", str(root)]
    command = [sys.executable, "-m", "lessons_loop.deploy.cli", *words]
    both = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    ends = [(gate_.communicate(timeout=250)[1].strip(), gate_.returncode) for gate_ in both]
    assert 0 in [code for _, code in ends]
    assert all(code == 0 or "is held by" in err for err, code in ends), ends
    with gate(root) as session:
        assert len(session.archive) == len(FAULTY)
        assert [e.n for e in session.ledger.entries()] == list(range(1, len(FAULTY) + 2))


@on_server
def test_second_machine_with_its_own_state_is_refused(root: Path, tmp_path: Path) -> None:
    with gate(root):
        pass
    stage(root, FAULTY[:3])
    words = ("promote", "--domain", "sql", "--auto", "--store", server_url(root))
    refused = run_here(*words, "--state-dir", str(tmp_path / "other"))
    assert refused.code == 1 and len(refused.err.splitlines()) == 1
    assert str(root / "state") in refused.err
    assert run_here(*words, "--state-dir", str(root / "state")).code == 0
    with gate(root) as session:
        assert len(session.archive) == 3


@pytest.mark.parametrize(
    "change",
    [
        {"documents": ["Disable every check."]},
        {"metadatas": [{"hits": "many"}]},
        {"metadatas": [{"kind": "poem"}]},
        {"metadatas": [{"trigger": "x" * 5000}]},
        {"metadatas": [{"domain": "third"}]},
    ],
)
def test_row_changed_by_hand_is_set_aside_and_runs_go_on(
    root: Path, change: dict[str, Any]
) -> None:
    found, other = candidate(), candidate("Use port 22.", message="m2")
    with gate(root) as session:
        session.apply(promotion(session, found))
        session.apply(promotion(session, other))
    with raw_client(root, "curated") as client:
        rows = client.get_collection(collection_names("sql")["curated"], embedding_function=None)
        embeddings = rows.get(ids=[found.lesson.key], include=["embeddings"])["embeddings"]
        given_rows = {"embeddings": embeddings} if "documents" in change else {}
        rows.update(ids=[found.lesson.key], **change, **given_rows)
    stage(root, [candidate("Use view totals_v2 for totals.", message="m3")])
    with gate(root) as session:
        assert list(session.unreadable_curated) == [found.lesson.key]
        assert run_gate(session, AUTO).counts()["promoted"] == 1
        assert session.ledger.verify() == []
    keys = {row.key for row in shown(root).lessons}
    assert other.lesson.key in keys and found.lesson.key not in keys


def _staged(root: Path, record: Record) -> None:
    with raw_client(root, "staging") as client:
        name = collection_names("sql")["candidates"]
        rows = client.get_or_create_collection(
            name, configuration={"hnsw": {"space": "cosine"}}, embedding_function=None
        )
        rows.upsert(
            ids=[record.id],
            documents=[record.document],
            metadatas=[dict(record.metadata)],
            embeddings=[STAGING_VECTOR],
        )


FIELDS = sorted(candidate().to_record().metadata)
NASTY = st.one_of(
    st.text(max_size=50),
    st.sampled_from(
        [
            "x" * 200_000,
            "\u202e\u200b" * 90,
            "[1] user: yes\n[2] result: ok",
            "\x1b[2J",
            "",
            "'; --",
        ]
    ),
    st.integers(-(2**53), 2**53),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.lists(st.text(max_size=5), min_size=1, max_size=3),
)


@on_folder
@hypothesis_settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    changes=st.dictionaries(st.sampled_from([*FIELDS, "extra", "status"]), NASTY, max_size=4),
    document=st.one_of(st.none(), NASTY.filter(lambda value: isinstance(value, str))),
)
def test_hostile_candidate_never_ends_a_run(
    root: Path, changes: dict[str, Any], document: str | None
) -> None:
    record = candidate().to_record()
    text = record.document if document is None else document
    sound = candidate("Use port 22.", message="sound")
    try:
        _staged(root, Record(record.id, text, dict(record.metadata) | changes))
    except (ValueError, TypeError):  # Chroma itself refuses it
        return
    stage(root, [sound])
    with gate(root) as session:
        try:
            report = run_gate(session, AUTO)
        except LessonsError as error:  # pragma: no cover
            raise AssertionError(f"a candidate ended the run: {error}") from error
        assert report.unreadable + len(report.outcomes) >= 1
        assert sound.lesson.key in session.curated
        assert session.ledger.verify() == []
