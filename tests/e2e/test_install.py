from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from lessons_loop.deploy.webui.plugin_file import plugin_source
from support.openwebui import MODEL, PASSWORD, PLUGIN, RATING_PLUGIN, VALVES, Server
from support.provider import system_text

LESSONS = [sys.executable, "-m", "lessons_loop.deploy.cli"]
GADGETS = "How do I count the gadgets in the warehouse?"


@pytest.fixture
def bare(openwebui: Server) -> Iterator[Server]:
    """A running server without the plugin; it is put back afterwards."""
    remove(openwebui)
    yield openwebui
    remove(openwebui)
    openwebui.install(plugin_source(), VALVES)


def remove(server: Server) -> None:
    for function in server.admin.functions():
        server.admin.ask("DELETE", f"/api/v1/functions/id/{function['id']}/delete")


def run(server: Server, command: str, *words: str, token: str = "") -> tuple[int, str, str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("LESSONS_")}
    env |= {"LESSONS_OPENWEBUI_TOKEN": token or server.admin.token, "COLUMNS": "80"}
    env |= {"LESSONS_EMBEDDING": f"openai:fake-embed@{server.provider.url}"}
    call = [*LESSONS, command, "--url", server.admin.url, *words]
    done = subprocess.run(call, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert env["LESSONS_OPENWEBUI_TOKEN"] not in done.stdout + done.stderr
    return done.returncode, done.stdout, done.stderr


def state(server: Server) -> tuple[object, object, object]:
    found = server.admin.function(PLUGIN) or {}
    return found.get("is_active"), found.get("is_global"), found.get("content") == plugin_source()


def test_installed_plugin_recalls_at_once(bare: Server) -> None:
    store = str(bare.paths.root)
    code, out, err = run(bare, "install", "--store", store, "--domain", "sql", "--distill")
    assert code == 0 and "0.1.0 created, active for all models" in out
    assert all("wait" in line for line in err.splitlines())  # what earlier tests staged
    assert state(bare) == (True, True, True)
    assert bare.admin.valves("functions", PLUGIN) == {
        "store": store,
        "domains": "sql",
        "distill_enabled": True,
    }
    run(bare, "install", "--set", "min_similarity=0.3")
    assert bare.admin.chat(MODEL, GADGETS).status_code == 200
    assert "gadget_ledger" in system_text(bare.provider.received(GADGETS)[0])


def test_second_run_changes_nothing(bare: Server) -> None:
    assert run(bare, "install", "--distill")[0] == 0
    before = bare.admin.function(PLUGIN)
    code, out, _ = run(bare, "install", "--distill")
    assert code == 0 and "nothing changed" in out
    assert bare.admin.function(PLUGIN) == before


def test_update_keeps_valves_and_an_admins_name(bare: Server) -> None:
    old = plugin_source().replace("version: 0.1.0", "version: 0.0.9", 1)
    bare.admin.store_function(PLUGIN, "House rules", old)
    bare.admin.set_valves("functions", PLUGIN, {"top_k": 2, "domains": "sql"})
    code, out, _ = run(bare, "install", "--set", "debug=true")
    found = bare.admin.function(PLUGIN) or {}
    assert code == 0 and "0.1.0 updated" in out and found["name"] == "House rules"
    kept = {"top_k": 2, "domains": "sql", "debug": True}
    assert bare.admin.valves("functions", PLUGIN) == kept
    run(bare, "install", "--set", "top_k=")
    assert bare.admin.valves("functions", PLUGIN) == {"domains": "sql", "debug": True}


def test_switched_off_plugin_is_switched_on_and_said(bare: Server) -> None:
    assert run(bare, "install")[0] == 0
    bare.admin.ask("POST", f"/api/v1/functions/id/{PLUGIN}/toggle")
    code, out, _ = run(bare, "install")
    assert code == 0 and "it was switched off; this command switched it on" in out
    assert state(bare) == (True, True, True)


def test_plugin_pasted_under_another_id_is_not_doubled(bare: Server) -> None:
    bare.admin.install_function("lessons_loop", "Lessons Loop", plugin_source() + "\n")
    code, out, _ = run(bare, "install", "--json")
    done = json.loads(out)
    assert code == 0 and (done["function"], done["outcome"]) == ("lessons_loop", "updated")
    ids = {function["id"] for function in bare.admin.functions()}
    assert ids == {"lessons_loop", RATING_PLUGIN}


def test_ratings_come_along_or_are_left_out(bare: Server) -> None:
    code, out, _ = run(bare, "install", "--no-rating")
    assert code == 0 and "left as they were (--no-rating)" in out
    assert bare.admin.function(RATING_PLUGIN) is None
    code, out, _ = run(bare, "install", "--json")
    done = json.loads(out)
    assert code == 0 and done["rating"]["outcome"] == "created" and done["changed"]
    found = bare.admin.function(RATING_PLUGIN) or {}
    assert (found["type"], found["is_active"]) == ("event", True)
    assert found["content"] == plugin_source(RATING_PLUGIN)
    bare.admin.ask("POST", f"/api/v1/functions/id/{RATING_PLUGIN}/toggle")
    code, out, _ = run(bare, "doctor", "--store", str(bare.paths.root))
    assert "ratings" in out and "switched off" in out
    code, out, _ = run(bare, "install")
    assert code == 0 and "unchanged, thumbs are noted" in out
    assert "it was switched off; this command switched it on" in out


def test_api_key_of_an_admin_will_do(bare: Server) -> None:
    bare.admin.ask("POST", "/api/v1/auths/admin/config", api_keys_allowed(bare))
    key = bare.admin.ask("POST", "/api/v1/auths/api_key")["api_key"]
    assert run(bare, "install", token=key)[0] == 0


def api_keys_allowed(server: Server) -> dict[str, object]:
    return dict(server.admin.ask("GET", "/api/v1/auths/admin/config")) | {"ENABLE_API_KEYS": True}


def test_anybody_elses_token_is_refused_in_one_line(bare: Server) -> None:
    user = bare.user("curious")
    for token, told in ((user.token, "not an admin's"), ("obviously-fake", "does not know")):
        code, out, err = run(bare, "install", token=token)
        assert (code, out, err.count("\n")) == (1, "", 1) and told in err
    assert bare.admin.functions() == []


def test_refused_plugin_says_where_the_reason_is(bare: Server) -> None:
    from lessons_loop.deploy.webui.client import OpenWebUIError
    from lessons_loop.deploy.webui.install import install

    broken = plugin_source() + "\nraise RuntimeError('no')\n"
    with pytest.raises(OpenWebUIError, match="its own log has the reason"):
        install(bare.admin, broken, {})
    assert PASSWORD not in broken


def test_doctor_finds_a_sound_installation_sound(bare: Server) -> None:
    store = str(bare.paths.root)
    run(bare, "install", "--store", store, "--domain", "sql")
    code, out, err = run(bare, "doctor", "--store", store, "--json")
    found = json.loads(out)
    assert (code, found["healthy"]) == (0, True), (out, err)
    checks = {row["check"]: (row["level"], row["text"]) for row in found["findings"]}
    for name in ("open webui", "plugin", "plugin source", "ratings", "recall", "embedding"):
        assert checks[name][0] == "ok", checks[name]
    assert checks["host's engine"][0] == "ok"
    assert "the same model as the store's" in checks["host's engine"][1]


def test_doctor_names_what_is_wrong_and_what_helps(bare: Server) -> None:
    run(bare, "install", "--store", "/elsewhere/lessons", "--domain", "cooking")
    bare.admin.ask("POST", f"/api/v1/functions/id/{PLUGIN}/toggle")
    code, out, _ = run(bare, "doctor", "--store", str(bare.paths.root))
    assert code == 1
    assert f"→ lessons install --url {bare.admin.url}" in out
    for told in ("switched off", "does not read sql", "/elsewhere/lessons"):
        assert told in " ".join(out.split())
