from __future__ import annotations

import json
import os
import stat
import tarfile
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lessons_loop.filter.errors import LessonsError, StoreDamaged, StoreError
from lessons_loop.promote.clock import stamp
from lessons_loop.promote.session import open_gate
from lessons_loop.promote.snapshot.files import (
    KEEP_LAST,
    KEEP_MOST,
    find_snapshot,
    list_snapshots,
    name_of,
    prune,
    taken_at,
)
from lessons_loop.promote.snapshot.kept import (
    Occasion,
    Snapshot,
    create_snapshot,
    old_folders,
    read_manifest,
    read_snapshot,
    rewrite_snapshot,
)
from support.gate import candidate, gate, on_folder, promotion, raw_client, retirement, stage
from support.gate import settings as gate_settings
from support.snapshots import fill, members, repack, snapshots

START = datetime(2026, 1, 1, tzinfo=UTC)


def take(root: Path, moment: datetime = START) -> Path:
    with open_gate(gate_settings(root), now=lambda: moment) as session:
        return create_snapshot(session)


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A snapshot with a row of everything."""
    root = tmp_path_factory.mktemp("full") / "store"
    fill(root)
    return take(root)


@pytest.fixture
def copy(full: Path, tmp_path: Path) -> Path:
    found = tmp_path / full.name
    found.write_bytes(full.read_bytes())
    return found


def test_snapshot_holds_everything(root: Path) -> None:
    fill(root)
    with gate(root) as session:
        found = read_snapshot(create_snapshot(session))
        keys, matrix = session.nearest_vectors()
        ids, archived = session.archive_vectors()
        assert found.curated == tuple(session.curated.values())
        assert found.archive == tuple(session.archive.values())
        assert list(found.candidates) == session.candidates()
        assert [event.id for event in found.events] == [id_ for id_, _ in session.usages()]
        assert found.uses == tuple(session.uses.rows())
        assert found.manifest.ledger == session.holdings.header.head
    np.testing.assert_array_equal([found.vectors[key] for key in keys], matrix)
    np.testing.assert_array_equal([found.archive_vectors[id_] for id_ in ids], archived)
    assert found.manifest.counts() == {
        "candidates": 1, "events": 1, "uses": 3, "curated": 1, "archive": 1, "vectors": 2
    }  # fmt: skip


def test_snapshot_is_a_plain_private_archive(full: Path) -> None:
    assert stat.S_IMODE(full.stat().st_mode) == 0o600
    names = [info.name for info, _ in members(full)]
    assert names[0] == "manifest.json" and len(names) == 7
    manifest = json.loads(members(full)[0][1])
    assert manifest["fingerprint"]["dimension"] == 64
    assert manifest["parts"]["curated.jsonl"]["count"] == 1


def test_same_content_gives_the_same_file(copy: Path) -> None:
    before = copy.read_bytes()
    rewrite_snapshot(copy, lambda found: found)
    rewritten = copy.read_bytes()
    assert read_manifest(copy).rewritten and rewritten != before
    assert rewrite_snapshot(copy, lambda found: found).read_bytes() == rewritten


def test_unreadable_rows_are_counted_not_kept(root: Path) -> None:
    fill(root)
    with raw_client(root, "staging") as client:
        events = client.get_collection("sql-lessons-events", embedding_function=None)
        rows = [{"type": "used", "keys": 5}, {"type": "tally", "at": "x"}]
        events.add(ids=["bad", "t"], documents=["x", "y"], metadatas=rows, embeddings=[[1.0]] * 2)
    found = read_snapshot(take(root))
    assert (len(found.events), found.manifest.unreadable) == (1, 1)


def test_lost_vectors_leave_the_texts(copy: Path) -> None:
    rewrite_snapshot(copy, lambda found: replace(found, vectors={}))
    found = read_snapshot(copy)
    assert len(found.curated) == 1 and found.vectors == {} and len(found.archive_vectors) == 1


def test_rewriting_drops_the_vectors_of_what_went(copy: Path) -> None:
    def without_archive(found: Snapshot) -> Snapshot:
        return replace(found, archive=(), uses=())

    found = read_snapshot(rewrite_snapshot(copy, without_archive))
    assert found.manifest.counts()["vectors"] == 1 and found.archive_vectors == {}


def test_writing_run_takes_one_snapshot_before(root: Path) -> None:
    found = candidate()
    with gate(root) as session:
        session.apply(promotion(session, found))
        assert session.snapshot == snapshots(root)[0].name
    with gate(root) as session:
        session.candidates()
        assert session.snapshot == ""
    with gate(root) as session:
        session.apply(retirement(session, found.lesson.key))
        session.apply(promotion(session, found))
    assert [read_manifest(path).counts()["curated"] for path in snapshots(root)] == [0, 1]


# --- names, order, age


def take_all(root: Path, moments: Sequence[datetime]) -> list[Path]:
    ahead = iter(moments)
    with gate(root) as session:
        session.now = lambda: next(ahead, moments[-1])
        return [create_snapshot(session) for _ in moments]


@on_folder
def test_thirty_days_are_kept(root: Path) -> None:
    taken = take_all(root, [START + timedelta(days=day) for day in range(45)])
    assert snapshots(root) == taken[-31:]


@on_folder
def test_last_eight_are_kept_however_old(root: Path) -> None:
    taken = take_all(root, [START + timedelta(days=40 * month) for month in range(10)])
    assert snapshots(root) == taken[-8:]


@on_folder
def test_hourly_snapshots_thin_out_to_one_a_day(root: Path) -> None:
    folder = root / "state" / "snapshots" / "sql"
    folder.mkdir(parents=True)
    hours = [START + timedelta(hours=hour) for hour in range(24 * 10)]
    for moment in hours:
        (folder / f"{stamp(moment)}.tar.gz").touch()
    prune(root / "state", "sql", hours[-1])
    left = [taken_at(path) for path in list_snapshots(root / "state", "sql")]
    days = {moment.date() for moment in hours}
    assert {moment.date() for moment in left} == days and left[-24:] == hours[-24:]
    assert len(left) <= 24 + len(days)


@on_folder
def test_asked_for_snapshot_is_not_thinned_out(root: Path) -> None:
    with open_gate(gate_settings(root), now=lambda: START) as session:
        session.occasion = Occasion("before the change")
        mine = create_snapshot(session)
    for minute in range(1, 2 * KEEP_MOST):
        other = START + timedelta(minutes=minute)
        (mine.parent / f"{stamp(other)}.tar.gz").touch()
    prune(root / "state", "sql", START + timedelta(days=2))
    left = list_snapshots(root / "state", "sql")
    assert mine in left and len(left) == 1 + KEEP_LAST


@on_folder
def test_spared_snapshot_outlives_its_age(root: Path) -> None:
    taken = take_all(root, [START + timedelta(minutes=n) for n in range(10)])
    gone = prune(root / "state", "sql", START + timedelta(days=90), spare=taken[0].name)
    assert gone == [taken[1]]


@on_folder
def test_clock_set_back_keeps_the_order(root: Path) -> None:
    taken = take_all(root, [START - timedelta(days=day) for day in (0, 400, 0, 0, 3)])
    assert snapshots(root) == taken and len(set(taken)) == 5


@on_folder
def test_domains_and_strangers_are_left_alone(root: Path) -> None:
    old = root / "state" / "snapshots" / "20260101T000000000000Z-run"
    take(root)
    old.mkdir()
    (old / "manifest.json").write_text("{}")
    (root / "state" / "snapshots" / "sql" / "by-hand.tar.gz").write_text("mine")
    draft = root / "state" / "snapshots" / "sql" / ".20260101T000000000000Z.tar.gz.tmp"
    draft.write_text("half")
    with open_gate(gate_settings(root, domain="other")) as session:
        other = create_snapshot(session)
    take_all(root, [START + timedelta(days=40 * month) for month in range(1, 11)])
    assert other.exists() and old_folders(root / "state") == [old]
    assert (root / "state" / "snapshots" / "sql" / "by-hand.tar.gz").exists()
    assert not draft.exists()


@pytest.fixture
def taken(tmp_path: Path) -> list[Path]:
    days = (0, 1, 1.5, 3)
    return take_all(tmp_path / "store", [START + timedelta(days=day) for day in days])


@pytest.mark.parametrize(
    ("when", "number"),
    [
        ("20260102T00", 1),
        ("20260104T000000000000Z", 3),
        ("2026-01-01", 0),
        ("2026-01-02", 2),
        ("2026-01-02T11:00", 1),
        ("2026-01-02T14:00+02:00", 2),
        ("2030-01-01", 3),
        (" latest ", 3),
    ],
)
def test_person_names_a_snapshot(taken: list[Path], when: str, number: int) -> None:
    assert find_snapshot(taken[0].parents[2], "sql", when) == taken[number]


@pytest.mark.parametrize(
    ("when", "told"),
    [
        ("20260102", "means 2 snapshots"),
        ("2025-12-31", "none is|that old"),
        ("yesterday", "is called 'yesterday'"),
        ("", "is called"),
        ("../../etc/passwd", "is called"),
    ],
)
def test_unknown_names_are_refused(taken: list[Path], when: str, told: str) -> None:
    with pytest.raises(StoreError, match=told):
        find_snapshot(taken[0].parents[2], "sql", when)


# --- damaged and crafted files


@pytest.mark.parametrize("kind", ["symlink", "folder", "fifo", "empty", "text"])
def test_only_plain_archives_are_read(full: Path, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x.tar.gz"
    if kind == "symlink":
        path.symlink_to(full)
    elif kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path.write_bytes(b"" if kind == "empty" else b"hello")
    with pytest.raises(StoreError):
        read_snapshot(path)


def test_future_format_is_named(copy: Path) -> None:
    found = members(copy)
    info, body = found[0]
    body = body.replace(b"lessons-snapshot/3", b"lessons-snapshot/9")
    repack(copy, [(info, body), *found[1:]])
    with pytest.raises(StoreDamaged, match=r"format 'lessons-snapshot/9'.*upgrade"):
        read_snapshot(copy)


@pytest.mark.parametrize(
    "craft", ["traversal", "absolute", "link", "hardlink", "device", "twice", "order", "more",
              "fewer", "behind"]
)  # fmt: skip
def test_crafted_members_are_refused(copy: Path, craft: str) -> None:
    found = members(copy)
    info, body = found[4]
    odd = tarfile.TarInfo({"traversal": "../x", "absolute": "/tmp/x"}.get(craft, info.name))
    odd.size = len(body)
    kinds = {"link": tarfile.SYMTYPE, "hardlink": tarfile.LNKTYPE, "device": tarfile.CHRTYPE}
    odd.type = kinds.get(craft, tarfile.REGTYPE)
    odd.linkname = "/etc/passwd" if craft.endswith("link") else ""
    if craft in ("traversal", "absolute", "link", "hardlink", "device"):
        found[4] = (odd, body)
    elif craft == "twice":
        found.insert(4, found[4])
    elif craft == "order":
        found[1], found[2] = found[2], found[1]
    elif craft == "more":
        found.append((odd, body))
    elif craft == "fewer":
        found.pop()
    repack(copy, found)
    if craft == "behind":
        copy.write_bytes(copy.read_bytes() + copy.read_bytes())
    with pytest.raises(StoreDamaged):
        read_snapshot(copy)


def test_bombs_are_not_unpacked(copy: Path) -> None:
    found = members(copy)
    info, body = found[0]
    manifest = json.loads(body)
    manifest["parts"]["candidates.jsonl"]["bytes"] = 2**31
    content = json.dumps(manifest).encode()
    info.size = len(content)
    repack(copy, [(info, content), *found[1:]])
    with pytest.raises(StoreDamaged, match="would unpack to"):
        read_snapshot(copy)


def forge(path: Path, change: str) -> None:
    """Change rows and make every count and hash anew, as whoever knows the format can."""
    found = {info.name: body for info, body in members(path)}
    name, old, new = {
        "text": ("curated.jsonl", b"Look serials up", b"Look people up."),
        "candidate": ("candidates.jsonl", b'"user_ref":"user-1"', b'"user_ref":5,"x":[1]'),
        "domain": ("archive.jsonl", b'\\"domain\\":\\"sql\\"', b'\\"domain\\":\\"oql\\"'),
        "event": ("events.jsonl", b'"message_ref":"u9"', b'"message_ref":"u8"'),
        "use": ("uses.jsonl", b'"message_ref":"u1"', b'"message_ref":"u7"'),
        "reference": ("curated.jsonl", b'"verdict_ref":2', b'"verdict_ref":9'),
        "status": ("curated.jsonl", b'"status":"curated"', b'"status":"held"'),
        "nan": ("vectors.npy", found["vectors.npy"][-8:], np.full(2, np.nan, "<f4").tobytes()),
        "long": ("vectors.npy", found["vectors.npy"][-8:], np.full(2, 9e9, "<f4").tobytes()),
        "pickle": ("vectors.npy", b"'<f4'", b"'|O' "),
        "shape": ("vectors.npy", b"(2, 64)", b"(9, 64)"),
    }[change]
    assert old in found[name]
    found[name] = found[name].replace(old, new)
    _repack_with_hashes(path, found)


def _repack_with_hashes(path: Path, found: dict[str, bytes]) -> None:
    import hashlib

    manifest = json.loads(found["manifest.json"])
    for name, part in manifest["parts"].items():
        part["sha256"] = hashlib.sha256(found[name]).hexdigest()
        part["bytes"] = len(found[name])
    found["manifest.json"] = json.dumps(manifest).encode()
    infos = []
    for name, body in found.items():
        info = tarfile.TarInfo(name)
        info.size = len(body)
        infos.append((info, body))
    repack(path, infos)


@pytest.mark.parametrize(
    "change", ["text", "candidate", "domain", "event", "use", "reference", "status", "nan", "long",
               "pickle", "shape"]
)  # fmt: skip
def test_forged_rows_are_refused(copy: Path, change: str) -> None:
    forge(copy, change)
    with pytest.raises(StoreDamaged):
        read_snapshot(copy)


@pytest.mark.parametrize("name", ["curated.jsonl", "archive.jsonl", "candidates.jsonl"])
@pytest.mark.parametrize("change", ["twice", "gone"])
def test_counts_and_repetitions_are_checked(copy: Path, name: str, change: str) -> None:
    found = {info.name: body for info, body in members(copy)}
    found[name] = found[name] * 2 if change == "twice" else b""
    _repack_with_hashes(copy, found)
    with pytest.raises(StoreDamaged):
        read_snapshot(copy)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_damage_is_refused_or_harmless(full: Path, data: st.DataObject) -> None:
    whole = full.read_bytes()
    spoiled = full.with_name("spoiled.tar.gz")
    if data.draw(st.booleans()):
        spoiled.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    else:
        place, bits = data.draw(st.integers(0, len(whole) - 1)), data.draw(st.integers(1, 255))
        spoiled.write_bytes(whole[:place] + bytes([whole[place] ^ bits]) + whole[place + 1 :])
    try:
        found = read_snapshot(spoiled)
    except LessonsError as error:
        assert "\n" not in str(error)
    else:
        assert as_text(found) == as_text(read_snapshot(full))


def as_text(found: Snapshot) -> str:
    vectors = {key: row.tolist() for key, row in found.vectors.items()}
    return repr((found.manifest, found.curated, found.archive, found.candidates, vectors))


def test_huge_staging_rows_do_not_end_a_run(root: Path) -> None:
    stage(root, [candidate("Read the pool size.", message=f"m{n}") for n in range(3)])
    with gate(root) as session:
        session.apply(promotion(session, candidate("Use the view.")))
    assert read_manifest(snapshots(root)[-1]).counts()["candidates"] == 3
    assert name_of(snapshots(root)[-1]).endswith("Z")
