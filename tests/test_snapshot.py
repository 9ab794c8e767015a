from __future__ import annotations

import json
import os
import stat
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lessons_loop.filter.errors import LessonsError, StoreDamaged, StoreError
from lessons_loop.promote.snapshot.files import (
    name_of,
)
from lessons_loop.promote.snapshot.kept import (
    Snapshot,
    create_snapshot,
    read_manifest,
    read_snapshot,
    rewrite_snapshot,
)
from support.gate import candidate, gate, promotion, raw_client, retirement, stage
from support.restoring import fill
from support.snapshot_files import take
from support.snapshots import members, repack, snapshots


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
