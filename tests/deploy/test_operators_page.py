"""The deployment page: what its commands name exists; what needs no cluster is run."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.commands import parse
from support.kubernetes import pods
from support.operators_page import (
    PAGE,
    ROOT,
    Kubectl,
    blocks,
    command_lines,
    commands,
    kubectl,
    lessons_lines,
    names_of,
)

TEXT = PAGE.read_text("utf-8")
DEPLOY = ROOT / "deploy"
CALLS = [kubectl(words) for words in commands("kubectl")]
IDS = [f"{number}-{call.verb}" for number, call in enumerate(CALLS)]
OPEN_WEBUI = {("StatefulSet", "open-webui"), ("Secret", "lessons-secrets")}
"""What the page names in Open WebUI's own namespace."""


@functools.cache
def rendered(overlay: str) -> tuple[dict[str, Any], ...]:
    """Return the committed objects of an overlay."""
    text = (DEPLOY / "rendered" / f"{overlay}.yaml").read_text("utf-8")
    return tuple(yaml.safe_load_all(text))


def made_on_the_page() -> set[tuple[str, str]]:
    """Return what the page's own `kubectl create` commands make."""
    named = [call.named for call in CALLS if call.verb == "create"]
    return {one for names in named for one in names if one[0] in ("Job", "Secret")}


def one(kind: str, name: str) -> dict[str, Any]:
    """Return a rendered object of the small overlay."""
    found = [o for o in rendered("small") if (o["kind"], o["metadata"]["name"]) == (kind, name)]
    return found[0]


def run(*words: str, cwd: Path = ROOT) -> str:
    """Run a program and return what it printed; its failure is the test's."""
    done = subprocess.run(words, capture_output=True, text=True, cwd=cwd, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


@functools.cache
def known_options(*verb: str) -> str:
    """Return kubectl's own help of a command and of what all commands take."""
    return run("kubectl", *verb, "--help") + run("kubectl", "options")


@pytest.mark.parametrize("overlay", ["small", "production"])
@pytest.mark.parametrize("call", CALLS, ids=IDS)
def test_named_objects_exist(call: Kubectl, overlay: str) -> None:
    there = names_of(list(rendered(overlay))) | made_on_the_page()
    for named in call.named:
        assert named in (OPEN_WEBUI if call.namespace == "open-webui" else there)


@pytest.mark.parametrize("call", CALLS, ids=IDS)
def test_each_command_says_where(call: Kubectl) -> None:
    assert call.namespace in {"lessons", "open-webui"} or "-k" in call.options


@pytest.mark.parametrize("call", CALLS, ids=IDS)
def test_kubectl_knows_the_options(call: Kubectl) -> None:
    below = {"Secret": ("secret", "generic"), "Job": ("job",)} if call.verb == "create" else {}
    known = known_options(call.verb, *below.get(call.named[0][0] if call.named else "", ()))
    for option in call.options:
        assert re.search(rf"(?<![\w-]){option}[,=:]", known), option


def test_labels_asked_for_are_those_of_pods() -> None:
    """`logs deploy/…` reads one of several pods; `logs -l` ten lines of each, unless told."""
    asked = [call for call in CALLS if "-l" in call.options]
    labels = [template["metadata"]["labels"] for _, template in pods(list(rendered("production")))]
    for call in asked:
        key, _, value = call.options["-l"].partition("=")
        assert any(own.get(key) == value for own in labels), call
        assert call.verb != "logs" or call.options["--tail"] == "-1"
    read = {named for call in CALLS if call.verb == "logs" for named in call.named}
    assert asked and ("Deployment", "lessons-proxy") not in read


@pytest.mark.parametrize("line", lessons_lines())
def test_lessons_commands_parse(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in one("ConfigMap", "lessons-settings")["data"].items():
        monkeypatch.setenv(name, value)
    parse(line)


def test_commands_are_found_at_all() -> None:
    assert len(CALLS) > 20 and len(lessons_lines()) > 15
    assert {call.verb for call in CALLS} >= {"apply", "create", "exec", "logs", "scale", "wait"}


def test_blocks_are_sound_shell() -> None:
    run("bash", "-n", "-c", "".join(blocks()))


@pytest.mark.parametrize(("stdin", "stdout"), [(True, True), (True, False), (False, True)])
def test_desk_is_a_terminal_where_somebody_sits(stdin: bool, stdout: bool) -> None:
    """A review asks its questions on one; what goes into a file must not be ended by CR LF."""
    (function,) = re.findall(r"^desk\(\) \{.*$", TEXT, re.M)
    script = f'kubectl() {{ echo "$@" >&2; }}\n{function}\ndesk candidates'
    ours, theirs = os.openpty()
    done = subprocess.run(
        ["bash", "-uc", script],
        stdin=theirs if stdin else subprocess.DEVNULL,
        stdout=theirs if stdout else subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={"USER": "anna"},
        text=True,
        timeout=60,
    )
    os.close(ours), os.close(theirs)
    start = "exec -i -t" if stdin and stdout else "exec -i"
    where = "deploy/lessons-desk -n lessons -- env LOGNAME=anna lessons candidates"
    assert done.stderr == f"{start} {where}\n"


def test_desk_is_waited_for_before_it_is_used() -> None:
    """A pod that is not there yet, or one that is going, takes no command."""
    (opening,) = [line for line in command_lines() if "--replicas=1" in line]
    assert "; kubectl rollout status deploy/lessons-desk -n lessons" in opening
    for block in blocks():
        shut = False
        for line in block.splitlines():
            shut = (shut or line.startswith("kubectl apply")) and line != "opendesk"
            assert not (shut and line.startswith("desk ")), line


def test_copied_overlay_renders_like_its_original(tmp_path: Path) -> None:
    shutil.copytree(DEPLOY / "base", tmp_path / "deploy" / "base")
    shutil.copytree(DEPLOY / "overlays", tmp_path / "deploy" / "overlays")
    copying = next(words for words in commands("cp") if "-r" in words)
    run(*copying, cwd=tmp_path)
    places = {call.options["-k"] for call in CALLS if "-k" in call.options}
    assert len(places) == 1
    made = run("kubectl", "kustomize", places.pop(), cwd=tmp_path)
    assert tuple(yaml.safe_load_all(made)) == rendered("small")


def test_rules_without_containers_keep_nothing_of_the_cluster() -> None:
    (adapting,) = commands("sed")
    rules = re.sub("#.*", "", run(*adapting))
    assert rules.count("127.0.0.1:8081") == 1 and "server 127.0.0.1:8001;" in rules
    assert not re.search(r"lessons-chroma:|8080| /tmp/|/dev/stdout", rules)


def test_secret_made_by_the_page_is_the_one_pods_ask_for() -> None:
    creating = next(w for w in commands("kubectl") if w[1:4] == ["create", "secret", "generic"])
    made = yaml.safe_load(run(*creating, "--dry-run=client", "-o", "yaml"))
    (desk,) = one("Deployment", "lessons-desk")["spec"]["template"]["spec"]["containers"]
    asked = [e["valueFrom"]["secretKeyRef"] for e in desk["env"] if "valueFrom" in e]
    needed = [ref for ref in asked if not ref.get("optional")]
    assert {ref["name"] for ref in needed} == {made["metadata"]["name"]}
    assert {ref["key"] for ref in needed} == set(made["data"])
    assert {ref["key"] for ref in asked} - set(made["data"]) <= set(
        re.findall(r"LESSONS_\w+", TEXT)
    )


def test_settings_named_are_settings_there_are() -> None:
    settings = set(one("ConfigMap", "lessons-settings")["data"])
    secrets = {"LESSONS_SALT", "LESSONS_LLM_API_KEY", "LESSONS_EMBEDDING_KEY"}
    named = set(re.findall(r"LESSONS_[A-Z_]+", TEXT))
    assert named - settings - secrets == {"LESSONS_OPENWEBUI_TOKEN"}


def test_addresses_named_are_services() -> None:
    ports = {
        (o["metadata"]["name"], port["port"])
        for o in rendered("small")
        if o["kind"] == "Service"
        for port in o["spec"]["ports"]
    }
    named = re.findall(r"http://(lessons-\w+)(?:\.lessons\.svc)?:(\d+)", TEXT)
    assert named and {(name, int(port)) for name, port in named} == ports


def test_image_is_this_release() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    assert set(re.findall(r"lessons-loop-gate:([\w.]+)", TEXT)) == {version}


def test_files_named_exist() -> None:
    links = re.findall(r"\]\((?!http|#)([^)#]+)", TEXT)
    assert links and all((DEPLOY / link).exists() for link in links)
    made = {words[-1] for words in commands("cp")}
    for place in set(re.findall(r"\bdeploy/(?:[\w-]+/)*[\w-]+\.[\w.]*\w", TEXT)) - made:
        assert (ROOT / place).exists(), place


def test_headings_linked_exist() -> None:
    for file, anchor in re.findall(r"\]\(([\w./]*)#([\w-]+)\)", TEXT):
        headings = re.findall(r"^#+ (.+)$", (DEPLOY / (file or "README.md")).read_text(), re.M)
        slugs = {re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in headings}
        assert anchor in slugs, anchor


def test_page_is_read_in_ten_minutes() -> None:
    assert len(TEXT.split()) < 2200
