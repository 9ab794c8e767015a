from __future__ import annotations

import stat
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from lessons_loop.filter.errors import StoreError, StoreMissing
from lessons_loop.filter.published import read_published
from lessons_loop.filter.server import open_server, parse_server
from lessons_loop.filter.store import StorePaths, open_embedded
from lessons_loop.promote.session import GateSettings, open_gate
from lessons_loop.promote.state import clean_domain
from lessons_loop.promote.store.initialise import initialise
from support.gate import HashEmbedder, gate


def collections(folder: Path) -> dict[str, str]:
    client = open_embedded(folder)
    found = {
        item.name: str(item.configuration_json["hnsw"]["space"])
        for item in client.list_collections()
    }
    client.close()  # type: ignore[attr-defined]
    return found


def picture(root: Path) -> dict[str, Any]:
    paths = StorePaths(root)
    files = {
        str(file.relative_to(root)): file.read_bytes()
        for file in root.rglob("*")
        if file.is_file() and "chroma.sqlite3" not in file.name
    }
    return {"files": files, "gate": collections(paths.gate), "staging": collections(paths.staging)}


def test_store_is_made_with_all_its_parts(tmp_path: Path) -> None:
    root = tmp_path / "store"
    report = initialise(str(root), ["sql", "openwebui"], HashEmbedder())
    assert report == (("sql", "openwebui"), (), "")
    paths = StorePaths(root)
    assert collections(paths.gate) == {
        "sql-lessons": "cosine",
        "sql-lessons-archive": "cosine",
        "openwebui-lessons": "cosine",
        "openwebui-lessons-archive": "cosine",
    }
    assert set(collections(paths.staging)) == {
        "sql-lessons-candidates",
        "sql-lessons-events",
        "openwebui-lessons-candidates",
        "openwebui-lessons-events",
    }
    assert stat.S_IMODE(paths.salt.stat().st_mode) == 0o600
    assert read_published(paths.published("sql")) is not None


def test_second_init_changes_nothing(tmp_path: Path) -> None:
    initialise(str(tmp_path), ["sql"], HashEmbedder())
    before = picture(tmp_path)
    assert initialise(str(tmp_path), ["sql"], HashEmbedder()) == ((), ("sql",), "")
    assert picture(tmp_path) == before


def test_stray_white_space_in_names_is_dropped(tmp_path: Path) -> None:  # T-41
    assert initialise(f" {tmp_path} ", [" sql\n", "sql"]).created == ("sql",)


@pytest.mark.parametrize("name", ["经验", "lessons/prod", "SQL", "", "-a", "a b", "a" * 41, "../x"])
def test_unusable_name_is_shown_with_its_rule(name: str) -> None:  # T-41
    with pytest.raises(StoreError, match=r"domain .* is not allowed: 1 to 40 of a-z"):
        clean_domain(name)


@pytest.mark.parametrize(
    ("store", "reason"),
    [
        ("http://localhost:8000", "needs a state directory of its own: pass --state-dir"),
        ("HTTPS://chroma", "needs a state directory of its own: pass --state-dir"),
        ("ftp://chroma", "is no usable address"),
        (" ", "no store given: pass --store or set LESSONS_STORE"),
    ],
)
def test_unusable_store_is_refused(store: str, reason: str) -> None:
    with pytest.raises(StoreError, match=reason):
        initialise(store, ["sql"])


def test_store_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("")
    with pytest.raises(StoreError, match="store cannot be used"):
        initialise(str(tmp_path / "store"), ["sql"])


def test_no_domain_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no domain given"):
        initialise(str(tmp_path), [])


def test_gate_makes_its_domain_itself(root: Path) -> None:
    with gate(root) as session:
        assert session.created
    with gate(root) as session:
        assert not session.created


# --- on a server


def server_picture(url: str, database: str) -> dict[str, str]:
    with closing(open_server(parse_server(url), database)) as client:  # type: ignore[type-var]
        return {
            one.name: str(one.configuration_json["hnsw"]["space"])
            for one in client.list_collections()
        }


def test_server_gets_databases_and_collections(tmp_path: Path, store_url: str) -> None:
    report = initialise(store_url, ["sql", "openwebui"], HashEmbedder(), tmp_path)
    assert (report.created, report.present) == (("sql", "openwebui"), ())
    assert set(server_picture(store_url, "curated")) == {"sql-lessons", "openwebui-lessons"}
    assert server_picture(store_url, "staging") == {
        f"{domain}-lessons-{kind}": "cosine"
        for domain in ("sql", "openwebui")
        for kind in ("candidates", "events")
    }
    assert set(server_picture(store_url, "gate")) == {
        "sql-lessons-archive",
        "openwebui-lessons-archive",
    }
    again = initialise(store_url, ["sql", "openwebui"], HashEmbedder(), tmp_path)
    assert (again.created, again.present) == ((), ("sql", "openwebui"))


def test_server_init_says_how_to_share_the_salt(
    tmp_path: Path, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = initialise(store_url, ["sql"], HashEmbedder(), tmp_path)
    salt = (tmp_path / "salt").read_text()
    assert report.advice.endswith(f'LESSONS_SALT="$(cat {tmp_path}/salt)"')
    assert salt not in report.advice and (tmp_path / "salt").stat().st_mode & 0o077 == 0
    monkeypatch.setenv("LESSONS_SALT", "fake-salt-of-the-house")
    assert initialise(store_url, ["sql"], HashEmbedder(), tmp_path).advice == ""


def test_salt_line_bears_a_folder_with_spaces(tmp_path: Path, store_url: str) -> None:
    advice = initialise(store_url, ["sql"], state=tmp_path / "a b").advice
    line = advice.partition("same salt: ")[2]
    told = subprocess.run(["sh", "-c", f'{line}; echo "$LESSONS_SALT"'], capture_output=True)
    assert told.stdout.strip() == (tmp_path / "a b" / "salt").read_bytes().strip()


def test_server_without_databases_names_init(tmp_path: Path, store_url: str) -> None:
    settings = GateSettings(store_url, "sql", tmp_path, HashEmbedder())
    expected = r"database curated is missing: run `lessons init"
    with pytest.raises(StoreMissing, match=expected), open_gate(settings):
        pass
    assert not (tmp_path / "ledger.jsonl").exists()


def test_init_refuses_a_server_that_lost_everything(tmp_path: Path, store_url: str) -> None:
    initialise(store_url, ["sql"], HashEmbedder(), tmp_path)
    for domain in ("sql", "third"):
        with pytest.raises(StoreMissing, match=r"tenant .* is missing, but the ledger in"):
            initialise(f"{store_url}-empty", [domain], HashEmbedder(), tmp_path)


def test_lost_staging_is_made_anew_by_init(tmp_path: Path, store_url: str) -> None:
    initialise(store_url, ["sql"], HashEmbedder(), tmp_path)
    with closing(open_server(parse_server(store_url), "staging")) as client:  # type: ignore[type-var]
        client.delete_collection("sql-lessons-candidates")
    initialise(store_url, ["sql"], HashEmbedder(), tmp_path)
    assert "sql-lessons-candidates" in server_picture(store_url, "staging")
