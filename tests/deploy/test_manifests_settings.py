"""What the pods are given is what their programs read: variables, arguments, Chroma's file."""

from __future__ import annotations

import ast
import json
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from lessons_loop.promote.embedding.embedders import parse_embedding
from lessons_loop.promote.runs.pause import read_pause
from lessons_loop.promote.state import clean_domain, locate
from lessons_loop.promote.store.server_place import ServerStore
from support.cluster_rules import secret_keys
from support.commands import parse, run_here
from support.gate import flags, on_server
from support.kubernetes import (
    CLUSTERS,
    DEPLOY,
    Object,
    containers,
    load_objects,
    named,
    of_kind,
    pod_template,
    pods,
    whole_cluster,
)
from support.sandbox import CHROMA_PATH, chroma_folders

EVALUATIONS = {"LESSONS_EVAL_API_KEY"}
SOURCES = [DEPLOY.parent / part for part in ("filter", "promote", "seeds", "eval", "deploy")]


@cache
def read_names() -> frozenset[str]:
    """Return every LESSONS_… name that stands in the code as a text of its own."""
    trees = [
        ast.parse(path.read_text())
        for folder in SOURCES
        for path in folder.rglob("*.py")
        if "openwebui" not in path.parts
    ]
    nodes = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return frozenset(
        node.value
        for node in nodes
        if isinstance(node.value, str) and node.value.startswith("LESSONS_")
    )


def gate_containers(layer: str) -> list[Object]:
    templates = dict(pods(load_objects(layer)))
    return [
        one
        for owner in ("CronJob/lessons-gate", "Deployment/lessons-desk")
        for one in containers(templates[owner])
    ]


def environment(objects: list[Object], container: Object) -> dict[str, str]:
    """Return a container's variables; those of the Secret are empty."""
    found: dict[str, str] = {}
    for source in container.get("envFrom", ()):
        found |= named(objects, "ConfigMap", source["configMapRef"]["name"])["data"]
    return found | {one["name"]: one.get("value", "") for one in container.get("env", ())}


@pytest.mark.parametrize("layer", CLUSTERS)
def test_code_reads_every_variable_it_is_given(layer: str) -> None:
    for one in gate_containers(layer):
        given = environment(load_objects(layer), one)
        assert {*given} - read_names() == {"HOME"}
        assert given["HOME"] == "/tmp"  # T-43: without one, chromadb cannot be imported
        assert given["LESSONS_STATE"] in {m["mountPath"] for m in one["volumeMounts"]}
    assert secret_keys() <= read_names()


def test_evaluation_reads_what_it_is_given() -> None:
    (one,) = containers(dict(pods(load_objects("evaluation")))["CronJob/lessons-eval"])
    objects = whole_cluster("small")
    given = environment(objects, one)
    assert {*given} - read_names() == {"HOME"}
    assert {*named(objects, "ConfigMap", "lessons-settings")["data"]} <= {*given}
    parse(f"lessons {shlex.join(one['args'])} --store http://lessons-chroma:8000")


@pytest.mark.parametrize("layer", CLUSTERS)
def test_gate_and_desk_are_given_the_same(layer: str) -> None:
    keys = ("image", "envFrom", "env", "volumeMounts")
    given = [[one[key] for key in keys] for one in gate_containers(layer)]
    assert all(one == given[0] for one in given) and len(given) == 3


@pytest.mark.parametrize("layer", CLUSTERS)
def test_salt_is_needed_and_keys_are_not(layer: str) -> None:
    for one in gate_containers(layer):
        needed = {
            found["key"]: not found.get("optional", False)
            for variable in one["env"]
            if (found := variable.get("valueFrom", {}).get("secretKeyRef"))
        }
        assert needed == {name: name == "LESSONS_SALT" for name in secret_keys() - EVALUATIONS}


def test_no_key_stands_in_the_settings() -> None:
    for layer in CLUSTERS:
        names = {*named(load_objects(layer), "ConfigMap", "lessons-settings")["data"]}
        assert not names & secret_keys()


@pytest.mark.parametrize("layer", CLUSTERS)
def test_arguments_are_commands_of_this_release(layer: str) -> None:
    lines = [one["args"] for one in gate_containers(layer) if "args" in one]
    assert [words[0] for words in lines] == ["init", "promote"]
    for words in lines:
        parse(f"lessons {shlex.join(words)} --store http://lessons-chroma:8000")


@on_server
@pytest.mark.parametrize("layer", ["base", "production"])
def test_gate_of_an_empty_store_ends_well(layer: str, root: Path) -> None:
    """T-42: nothing to do is no failure."""
    init, gate = (one["args"] for one in gate_containers(layer) if "args" in one)
    assert run_here(*init, *flags(root), "--domain", "sql").code == 0
    model = ["--llm-url", "http://127.0.0.1:9/v1", "--llm-model", "m"]
    done = run_here(*gate, *flags(root), *model)
    assert (done.code, done.err) == (0, ""), done.err
    assert "nothing to do" in done.out


@pytest.mark.parametrize("layer", CLUSTERS)
def test_settings_are_understood(layer: str) -> None:
    given = named(load_objects(layer), "ConfigMap", "lessons-settings")["data"]
    assert parse_embedding(given["LESSONS_EMBEDDING"], {}) is not None
    assert isinstance(locate(given["LESSONS_STORE"], Path(given["LESSONS_STATE"])), ServerStore)
    assert clean_domain(given["LESSONS_DOMAIN"]) == given["LESSONS_DOMAIN"]
    assert read_pause(Path("/nowhere"), given) is None


def link_names(service: Object) -> set[str]:
    """Return the variables kubelet makes of a Service where links are on."""
    name = service["metadata"]["name"].upper().replace("-", "_")
    found = {f"{name}_SERVICE_HOST", f"{name}_SERVICE_PORT", f"{name}_PORT"}
    for port in service["spec"]["ports"]:
        found.add(f"{name}_SERVICE_PORT_{port['name'].upper()}")
        base = f"{name}_PORT_{port['port']}_{port['protocol']}"
        found |= {base} | {f"{base}_{end}" for end in ("PROTO", "PORT", "ADDR")}
    return found


def test_no_services_variable_is_a_setting() -> None:
    from chromadb.config import Settings

    chromas = {name.upper() for name in Settings.model_fields}
    for layer in CLUSTERS:
        for service in of_kind(load_objects(layer), "Service"):
            names = link_names(service)
            assert not names & read_names() and not names & chromas
            assert not {name for name in names if name.startswith("CHROMA_")}


def chroma_pod() -> Object:
    return pod_template(named(load_objects("base"), "StatefulSet", "lessons-chroma"))


def chroma_config() -> dict[str, str]:
    """Return the files of the pod's ConfigMap."""
    objects = of_kind(load_objects("base"), "ConfigMap")
    (found,) = [o for o in objects if o["metadata"]["name"].startswith("lessons-chroma-config-")]
    return dict(found["data"])


def chroma_file() -> dict[str, Any]:
    return dict(yaml.safe_load(chroma_config()["chroma.yaml"]))


def test_chromas_file_fits_its_pod() -> None:
    file, (chroma,) = chroma_file(), containers(chroma_pod())
    assert file["allow_reset"] is False
    assert file["port"] == chroma["ports"][0]["containerPort"]
    mounts = {mount["mountPath"]: mount["name"] for mount in chroma["volumeMounts"]}
    chromas = named(load_objects("base"), "StatefulSet", "lessons-chroma")["spec"]
    (claim,) = chromas["volumeClaimTemplates"]
    assert mounts[file["persist_path"]] == claim["metadata"]["name"]
    assert chroma["args"] == ["run", "/config/chroma.yaml"]


ASK = """
import json, sys, time, urllib.request
base = "http://127.0.0.1:8000/api/v2/"
for _ in range(100):
    try:
        urllib.request.urlopen(base + "heartbeat", timeout=2).read()
        break
    except OSError:
        time.sleep(0.2)
found = {}
for method, path in [("GET", "heartbeat"), ("GET", "healthcheck"), ("POST", "reset")]:
    try:
        call = urllib.request.Request(base + path, method=method)
        found[path] = urllib.request.urlopen(call, timeout=5).status
    except urllib.error.HTTPError as error:
        found[path] = error.code
print(json.dumps(found), flush=True)
"""


def contained(tmp_path: Path, *, links: dict[str, str]) -> list[str]:
    """Return Chroma's own command line in what its pod allows: see `containers.py` for the gate."""
    (tmp_path / "data").mkdir(exist_ok=True)
    config = str(tmp_path / "config")
    Path(config).mkdir(exist_ok=True)
    for name, text in chroma_config().items():
        (Path(config) / name).write_text(text)
    call = ["bwrap", "--unshare-all", "--die-with-parent", "--cap-drop", "ALL", "--clearenv"]
    user = chroma_pod()["spec"]["securityContext"]
    call += ["--uid", str(user["runAsUser"]), "--gid", str(user["runAsGroup"])]
    own = [(Path(path), path) for path in ("/usr", "/lib", "/lib64", "/bin", "/etc")]
    for path, place in [*own, (Path(sys.base_prefix), sys.base_prefix), *chroma_folders()]:
        if path.exists():
            call += ["--ro-bind", str(path), place]
    call += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--ro-bind", config, "/config"]
    call += ["--bind", str(tmp_path / "data"), "/data", "--remount-ro", "/"]
    names = {"HOME": "/tmp", "PATH": CHROMA_PATH, **links}
    for name, value in names.items():
        call += ["--setenv", name, value]
    return call


def served(tmp_path: Path, links: dict[str, str]) -> dict[str, int]:
    """Start Chroma as in its pod, ask it from inside, end it by SIGTERM; return its answers."""
    (chroma,) = containers(chroma_pod())
    command = shlex.join([*chroma["command"], *chroma["args"]])
    script = f"{command} >/tmp/log 2>&1 & python -c {shlex.quote(ASK)}; kill $!; wait $!; echo $?"
    call = [*contained(tmp_path, links=links), "sh", "-c", script]
    done = subprocess.run(call, capture_output=True, text=True, timeout=200)
    answers, code = done.stdout.splitlines()
    return json.loads(answers) | {"exit": int(code)}


def test_chroma_serves_as_its_pod_says(tmp_path: Path) -> None:
    found = served(tmp_path, {})
    assert found["heartbeat"] == found["healthcheck"] == 200
    assert found["reset"] >= 400 and found["exit"] == 0
    assert (tmp_path / "data" / "chroma.sqlite3").exists()


def test_chroma_would_read_a_services_variable(tmp_path: Path) -> None:
    """Why links are off: beside a Service named `chroma` it would not start."""
    (chroma,) = containers(chroma_pod())
    links = {"CHROMA_PORT": "tcp://10.0.0.9:8000"}
    call = [*contained(tmp_path, links=links), *chroma["command"], *chroma["args"]]
    done = subprocess.run(call, capture_output=True, text=True, timeout=200)
    assert "Connect to Chroma" not in done.stdout and "tcp://10.0.0.9:8000" in done.stderr
