from __future__ import annotations

import re
import shlex
import subprocess
from typing import Any

import jsonschema
import pytest
import yaml

from support.chroma_server import ChromaServer
from support.commands import parse
from support.compose import EXAMPLE, FILE, Unset, example, load, schema
from support.containers import load_objects
from support.image import ROOT

GIVEN = {"LESSONS_SALT": "00" * 32, "WEBUI_SECRET_KEY": "obviously-fake"}
COMPOSE = load(GIVEN)
SERVICES: dict[str, Any] = COMPOSE["services"]
OURS = sorted(set(SERVICES) - {"open-webui"})
CAN_OPEN = {"prepare": "root", "open-webui": "root"}
"""Who runs as root, and is known to."""


def networks(name: str) -> set[str]:
    return set(SERVICES[name].get("networks") or ())


def test_compose_file_fits_the_specification() -> None:
    jsonschema.Draft202012Validator(schema()).validate(COMPOSE)


def test_schema_refuses_a_slip() -> None:
    broken = {"services": {"a": {"image": "x:1", "enviroment": {}}}}
    assert list(jsonschema.Draft202012Validator(schema()).iter_errors(broken))


def test_open_webui_shares_no_network_with_chroma() -> None:
    assert networks("open-webui") & networks("lessons-chroma") == set()
    assert {name for name in SERVICES if networks(name) & networks("lessons-chroma")} == {
        "lessons-chroma",
        "lessons-proxy",
        *(name for name in SERVICES if name.startswith("gate")),
    }
    assert networks("open-webui") & networks("lessons-proxy") == {"chat"}


def test_open_webui_and_gate_share_no_network() -> None:
    for name in (one for one in SERVICES if one.startswith("gate")):
        assert networks(name) == {"store", "models"}
    assert networks("open-webui") == {"chat", "web"}


def mounts(name: str) -> dict[str, str]:
    """Return the volumes of a service by where they are."""
    pairs = [volume.split(":")[:2] for volume in SERVICES[name].get("volumes", ())]
    return {place: volume for volume, place in pairs}


def test_what_must_last_is_on_volumes_given_to_its_user() -> None:
    kept = yaml.safe_load((ROOT / "deploy" / "base" / "chroma.conf").read_text("utf-8"))
    assert mounts("lessons-chroma")[kept["persist_path"]] == "chroma"
    owner, *places = SERVICES["prepare"]["command"]
    assert {place: mounts("prepare")[place] for place in places} == {
        kept["persist_path"]: "chroma",
        SERVICES["gate"]["environment"]["LESSONS_STATE"]: "state",
    }
    for name in (one for one in OURS if one not in ("prepare", "lessons-proxy")):
        assert SERVICES[name]["user"] == owner and "prepare" in waits_for(name)
        assert name == "lessons-chroma" or mounts(name) == {"/state": "state"}
    assert {"chroma", "state"} <= {*COMPOSE["volumes"]}


@pytest.mark.parametrize("name", sorted({*OURS} - {"prepare"}))
def test_read_only_services_have_scratch_space(name: str) -> None:
    assert any(place.startswith("/tmp:size=") for place in SERVICES[name]["tmpfs"])


def test_proxy_starts_anew_with_chroma() -> None:
    """nginx looks the name up once; a new container may have another address."""
    assert SERVICES["lessons-proxy"]["depends_on"]["lessons-chroma"]["restart"] is True


def test_gate_by_hand_comes_only_when_asked() -> None:
    asked = {name for name, one in SERVICES.items() if one.get("profiles")}
    assert asked == {"gate"}


def test_store_and_proxy_have_no_way_out() -> None:
    shut = {name for name, one in COMPOSE["networks"].items() if (one or {}).get("internal")}
    assert networks("lessons-chroma") | networks("lessons-proxy") == shut


def test_only_the_page_is_published_on_this_host() -> None:
    ports = {name: one["ports"] for name, one in SERVICES.items() if "ports" in one}
    assert ports == {"open-webui": ["127.0.0.1:3000:8080"]}


@pytest.mark.parametrize("name", OURS)
def test_our_services_are_closed(name: str) -> None:
    one = SERVICES[name]
    assert one["read_only"] and one["cap_drop"] == ["ALL"] and one["pids_limit"]
    assert one["security_opt"] == ["no-new-privileges:true"]
    assert not {"privileged", "pid", "ipc", "devices", "network"} & set(one)
    assert "docker.sock" not in str(one)


@pytest.mark.parametrize("name", sorted(set(SERVICES) - set(CAN_OPEN)))
def test_no_service_is_root_unawares(name: str) -> None:
    uid, gid = SERVICES[name]["user"].split(":")
    assert int(uid) > 0 and int(gid) > 0 and "cap_add" not in SERVICES[name]


def test_root_prepares_volumes_and_ends() -> None:
    one = SERVICES["prepare"]
    assert one["network_mode"] == "none" and one["cap_add"] == ["CHOWN"] and one["restart"] == "no"


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_every_image_has_a_version(name: str) -> None:
    assert re.search(r":v?\d+\.\d+\.\d+[\w.-]*$", SERVICES[name]["image"])


def test_versions_are_the_cluster_s() -> None:
    theirs = set(re.findall(r"image: (\S+)", yaml.safe_dump_all(load_objects("base"))))
    ours = {one["image"] for one in SERVICES.values()} - {SERVICES["open-webui"]["image"]}
    assert ours == theirs
    pinned = re.search(r"open-webui==([\d.]+)", (ROOT / "pyproject.toml").read_text("utf-8"))
    assert pinned and SERVICES["open-webui"]["image"].endswith(f":v{pinned[1]}")


def test_store_and_proxy_read_the_cluster_s_files() -> None:
    for name, file in (("lessons-chroma", "chroma.conf"), ("lessons-proxy", "nginx.conf")):
        source = next(v for v in SERVICES[name]["volumes"] if v.endswith(":ro")).split(":")[0]
        assert (FILE.parent / source).resolve() == ROOT / "deploy" / "base" / file


def test_gate_s_settings_are_the_cluster_s() -> None:
    config = next(o for o in load_objects("base") if o["metadata"]["name"] == "lessons-settings")
    secrets = {"LESSONS_SALT", "LESSONS_LLM_API_KEY", "LESSONS_EMBEDDING_KEY"}
    theirs = set(config["data"]) | secrets
    environment = SERVICES["gate"]["environment"]
    assert theirs - set(environment) <= {"LESSONS_PAUSE"}  # a switch of the hour, given by hand
    for name in ("LESSONS_STORE", "LESSONS_STATE", "LESSONS_DOMAIN", "LESSONS_EMBEDDING"):
        assert environment[name] == config["data"][name], name


def test_chat_side_gets_no_key_of_the_gate() -> None:
    names = {n for n in SERVICES["open-webui"]["environment"] if n.startswith("LESSONS_")}
    assert names == {"LESSONS_STORE", "LESSONS_SALT"}
    assert SERVICES["open-webui"]["environment"]["LESSONS_STORE"] == "http://lessons-proxy:8080"


@pytest.mark.parametrize("missing", sorted(GIVEN))
def test_without_a_secret_nothing_starts(missing: str) -> None:
    with pytest.raises(Unset, match=rf"{missing}: set it in compose\.env"):
        load({**GIVEN, missing: ""})


def test_example_names_every_secret_and_holds_none() -> None:
    assert set(GIVEN) <= set(example()) and not any(example().values())
    used = set(re.findall(r"\$\{(\w+)", FILE.read_text("utf-8")))
    assert set(example()) <= used
    ignored = (ROOT / ".gitignore").read_text("utf-8").split()
    assert f"deploy/{EXAMPLE.stem}" in ignored


def test_every_service_that_stays_is_watched() -> None:
    staying = {n for n, one in SERVICES.items() if one["restart"] == "unless-stopped"}
    watched = {name for name in staying if "healthcheck" in SERVICES[name]}
    assert staying - watched == {"gate-schedule"}  # it waits for a week; its log says for when


def test_waits_lead_to_services_that_can_end_them() -> None:
    for name, one in SERVICES.items():
        for other, how in (one.get("depends_on") or {}).items():
            known = SERVICES[other]
            ends = how["condition"] == "service_completed_successfully"
            assert (known["restart"] == "no") if ends else ("healthcheck" in known), name


def test_gate_by_hand_opens_whatever_init_says() -> None:
    """`compose run` starts what a service depends on anew, and gives up where that fails."""
    assert "gate-init" not in waits_for("gate")
    assert SERVICES["gate"]["depends_on"]["lessons-chroma"]["condition"] == "service_started"
    assert "gate-init" in waits_for("gate-schedule")


def waits_for(name: str) -> set[str]:
    """Return what must have run before a service, through all others."""
    found = set(SERVICES[name].get("depends_on") or ())
    return found.union(*(waits_for(one) for one in found))


def test_init_is_the_cluster_s() -> None:
    (job,) = [o for o in load_objects("base") if o["kind"] == "CronJob"]
    (init,) = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["initContainers"]
    assert SERVICES["gate-init"]["command"] == init["args"]


def test_schedule_is_the_cluster_s() -> None:
    (job,) = [o["spec"] for o in load_objects("base") if o["kind"] == "CronJob"]
    (gate,) = job["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    words = SERVICES["gate-schedule"]["command"]
    assert (words[words.index("--at") + 1], job["schedule"]) == ("Sun 03:00", "0 3 * * 0")
    assert words[words.index("--tz") + 1] == job["timeZone"]
    assert ["promote", "--unattended", *words[words.index("--") + 1 :]] == gate["args"]


def test_gate_s_commands_are_commands() -> None:
    for name in (one for one in SERVICES if one.startswith("gate")):
        words = [str(word) for word in SERVICES[name]["command"]]
        front = 2 if words[0] == "schedule" else 1
        parse(shlex.join(["lessons", *words[:front], "--store", "x", *words[front:]]))


def test_chroma_s_health_check_tells_up_from_down(tmp_path: Any) -> None:
    words = SERVICES["lessons-chroma"]["healthcheck"]["test"][1:]
    with ChromaServer(tmp_path / "chroma") as server:
        here = [word.replace("/8000", f"/{server.port}") for word in words]
        assert subprocess.run(here, timeout=60).returncode == 0
    assert subprocess.run(here, timeout=60, stderr=subprocess.DEVNULL).returncode != 0
