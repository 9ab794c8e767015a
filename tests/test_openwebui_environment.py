from __future__ import annotations

import json
from pathlib import Path

from lessons_loop.deploy.webui.server import ServerSettings, environment


def settings(folder: Path) -> ServerSettings:
    return ServerSettings(
        data=folder,
        port=8080,
        secret="obviously-fake-secret",
        password="obviously-fake-password",
        store=folder / "lessons",
        models={"OPENAI_API_BASE_URL": "http://127.0.0.1:9/v1"},
        embedding={"RAG_EMBEDDING_MODEL": "m"},
        tools=("run_sql",),
    )


def test_own_settings_win_over_the_users(tmp_path: Path) -> None:
    found = environment(settings(tmp_path), {"DATA_DIR": "elsewhere", "HOME": "kept"})
    assert found["DATA_DIR"] == str(tmp_path)
    assert found["HOME"] == "kept"


def test_another_installations_database_is_left_alone(tmp_path: Path) -> None:
    base = {"DATABASE_URL": "postgresql://elsewhere", "REDIS_URL": "redis://elsewhere"}
    assert not base.keys() & environment(settings(tmp_path), base).keys()


def test_tool_is_on_in_every_new_chat(tmp_path: Path) -> None:
    found = environment(settings(tmp_path), {})
    assert json.loads(found["DEFAULT_MODEL_METADATA"]) == {"toolIds": ["run_sql"]}


def test_loopback_never_goes_through_a_proxy(tmp_path: Path) -> None:
    found = environment(settings(tmp_path), {"NO_PROXY": "corp.example"})
    assert found["NO_PROXY"] == "corp.example,127.0.0.1,localhost"


def test_repr_hides_secrets(tmp_path: Path) -> None:
    assert "obviously-fake" not in repr(settings(tmp_path))  # T-47
