"""The gate's containers for real: the cluster's arguments, environment, user and mounts."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lessons_loop.filter.models import Candidate
from lessons_loop.filter.seal import sealed
from support.compose import load
from support.containers import SALT, CannotStart, Cluster, Pod, parsed
from support.gate import candidate, stage
from support.llm_server import LlmServer, says
from support.names import NameServer
from support.processes import soon
from support.sandbox import user_ids

PREVIEW = "preview: unattended runs write nothing until `lessons confirm`"
GOOD = "Look serials up in equipment_machine.serial_no, never with ILIKE on the notes."
WEAK = "Always be careful."
Done = subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("one")) as made:
        made.serve("StatefulSet", "lessons-chroma")
        yield made


@pytest.fixture(scope="module")
def gate(cluster: Cluster) -> Pod:
    return cluster.pod("CronJob", "lessons-gate")


@pytest.fixture(scope="module")
def first(gate: Pod) -> tuple[Done, Done]:
    """What the first run said: init, then the gate."""
    return gate.run("init"), gate.run("gate")


@pytest.fixture(scope="module")
def desk(cluster: Cluster, first: tuple[Done, Done]) -> Callable[..., Done]:
    """Run a command at the desk, as `kubectl exec deploy/lessons-desk -- lessons …` does."""
    pod = cluster.pod("Deployment", "lessons-desk")
    return lambda *words, **more: pod.run("desk", command=["lessons", *words], **more)


def fill(cluster: Cluster, *found: Candidate) -> None:
    """Put candidates into staging, sealed as the plugin does."""
    root = cluster.folder / "root"
    root.mkdir(exist_ok=True)
    (root / "server.url").write_text(cluster.reach(8000))
    stage(root, sealed(SALT.encode(), found))


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def one_line(done: Done, *words: str) -> None:
    assert done.returncode == 1 and done.stdout.strip() in ("", PREVIEW)
    assert len(done.stderr.splitlines()) == 1 and "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr


def test_first_run_makes_the_store_and_previews(first: tuple[Done, Done]) -> None:
    made, ran = first
    assert (made.returncode, made.stdout, made.stderr) == (0, "sql: created\n", "")
    assert ran.returncode == 0 and ran.stdout.count(PREVIEW) == 2 and ran.stderr == ""
    assert "nothing to do" in ran.stdout


def test_second_start_changes_nothing(gate: Pod, first: tuple[Done, Done]) -> None:
    ledger = gate.cluster.volume("lessons-state") / "ledger.jsonl"
    before = ledger.read_bytes()
    assert gate.run("init").stdout == "sql: was there\n" and ledger.read_bytes() == before


def test_nothing_is_written_outside_the_state(gate: Pod, first: tuple[Done, Done]) -> None:  # T-43
    assert files(gate.cluster.volume("lessons-state")) >= {"ledger.jsonl", "state.json"}
    assert files(gate.folder / "tmp") == set()


def test_salt_is_told_to_nobody(gate: Pod, first: tuple[Done, Done]) -> None:  # T-47
    assert SALT not in "".join(one.stdout + one.stderr for one in first)
    state = gate.cluster.volume("lessons-state")
    held = [
        path for path in state.rglob("*") if path.is_file() and SALT.encode() in path.read_bytes()
    ]
    assert held == [] and not (state / "salt").exists()


def test_containers_have_no_rights(gate: Pod) -> None:
    for container in ("init", "gate"):
        done = gate.run(container, command=["cat", "/proc/self/status"])
        found = user_ids(done.stdout, ("Uid", "Gid", "CapEff", "CapBnd", "NoNewPrivs"))
        nothing = {"CapEff": "0" * 16, "CapBnd": "0" * 16, "NoNewPrivs": "1"}
        assert found == {"Uid": "10001", "Gid": "10001", **nothing}


def test_root_file_system_is_read_only(gate: Pod) -> None:
    home = gate.sandbox("gate").image.folders[0][1]
    for place in ("/x", "/usr/x", "/etc/x", "/var/x", f"{home}/x", "/root/x"):
        assert "Read-only file system" in gate.run("gate", command=["touch", place]).stderr, place
    assert gate.run("gate", command=["touch", "/state/x", "/tmp/x"]).returncode == 0
    assert gate.run("gate", command=["rm", "/state/x", "/tmp/x"]).returncode == 0


@pytest.mark.parametrize("home", [None, "/nonexistent", "/"])
def test_home_does_not_matter(gate: Pod, first: tuple[Done, Done], home: str | None) -> None:
    done = gate.run("gate", env={"HOME": home})  # T-43
    assert done.returncode == 0 and done.stderr == "" and files(gate.folder / "tmp") == set()


def test_no_name_is_looked_up_but_the_store_s(gate: Pod, first: tuple[Done, Done]) -> None:  # T-43
    with NameServer(gate.cluster.holder) as asked:
        assert gate.run("gate").returncode == 0
        assert asked.names() == []
        gate.run("gate", command=["python", "-c", "import socket; socket.getaddrinfo('a.test', 1)"])
        assert "a.test" in soon(asked.names)[0]


@pytest.mark.parametrize("container", ["init", "gate"])
def test_without_its_secret_nothing_starts(tmp_path: Path, container: str) -> None:
    for secrets, told in (({}, 'secret "lessons-secrets" not found'), ({"X": "1"}, "LESSONS_SALT")):
        pod = Cluster(tmp_path / told[:3], secrets=secrets).pod("CronJob", "lessons-gate")
        with pytest.raises(CannotStart, match=told):
            pod.environment(container)


def test_state_that_cannot_be_written_is_named(cluster: Cluster, first: tuple[Done, Done]) -> None:
    pod = cluster.pod("CronJob", "lessons-gate")
    for one in pod.containers.values():
        state = next(mount for mount in one["volumeMounts"] if mount["mountPath"] == "/state")
        state["readOnly"] = True  # what a damaged disk becomes
    one_line(pod.run("init"), "/state/", "read-only file system")
    assert "/state/" in pod.run("gate").stderr  # a preview, which needs to write nothing


def test_foreign_volume_is_told_from_ours(cluster: Cluster, first: tuple[Done, Done]) -> None:
    pod = cluster.pod("CronJob", "lessons-gate")
    pod.spec = {
        **pod.spec,
        "volumes": [{"name": name, "emptyDir": {}} for name in ("state", "tmp")],
    }
    for container in ("init", "gate"):
        one_line(
            pod.run(container), "expected in /state; /state holds none", "put that folder back"
        )


def test_no_terminal_is_told_at_once(desk: Callable[..., Done]) -> None:  # T-33
    one_line(desk("promote", "--review", "human"), "needs a terminal")  # its run has a limit


def test_desk_shows_confirms_promotes_and_restores(
    cluster: Cluster, desk: Callable[..., Done], gate: Pod
) -> None:
    fill(cluster, candidate(GOOD), candidate(WEAK, message="message-2", user="user-2"))
    shown = parsed(desk("candidates", "--json"))
    assert GOOD in str(shown) and WEAK in str(shown)
    assert parsed(gate.run("gate", args=["promote", "--unattended", "--json"]))["preview"]
    assert parsed(desk("candidates", "--json")) == shown  # the preview wrote nothing
    assert desk("confirm").returncode == 0
    key = candidate(GOOD).lesson.key
    snapshot = parsed(desk("snapshot", "create", "--reason", "before", "--json"))
    promoted = desk("promote", key, "--reason", "seen to work", "--reviewer", "alex", "--force")
    assert promoted.returncode == 0, promoted.stderr
    assert desk("status").stdout.count("1 curated") == 1
    assert snapshot and desk("restore", "latest", "--exact", "--reason", "trial").returncode == 0
    assert desk("status").stdout.count("1 curated") == 0
    assert desk("verify").returncode == 0


def test_gate_beside_a_busy_desk_says_who(cluster: Cluster, first: tuple[Done, Done]) -> None:
    program = (
        "from pathlib import Path; from lessons_loop.promote.store.lock import gate_lock\n"
        "with gate_lock(Path('/state/gate.lock')): print('held', flush=True); input()"
    )
    desk = cluster.pod("Deployment", "lessons-desk")
    holding = desk.start("desk", command=["python", "-c", program], stdin=True)
    assert holding.stdout and holding.stdout.readline() == "held\n"
    try:
        done = cluster.pod("CronJob", "lessons-gate").run("gate")
    finally:
        holding.communicate("\n", timeout=120)
    one_line(done, "/state/gate.lock is held by")


# T-42
def test_evicted_run_is_completed_by_the_next(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        cluster.serve("StatefulSet", "lessons-chroma")
        gate = cluster.pod("CronJob", "lessons-gate")
        desk = cluster.pod("Deployment", "lessons-desk")
        assert gate.run("init").returncode == gate.run("gate").returncode == 0
        assert desk.run("desk", command=["lessons", "confirm"]).returncode == 0
        ledger = cluster.volume("lessons-state") / "ledger.jsonl"
        before = count(ledger)
        found = evicted(cluster, gate, ledger)
        assert before < count(ledger)
        again = gate.run("gate")
        assert again.returncode == 0, again.stderr
        assert count(ledger) == before + found  # each decided once
        assert desk.run("desk", command=["lessons", "verify"]).returncode == 0
        after = gate.run("gate").stdout
        assert "no candidates" in after or "nothing to do" in after


def evicted(cluster: Cluster, gate: Pod, ledger: Path) -> int:
    """End a run that has begun to decide; return how many candidates there were.

    On a busy machine a run may be through before it is told to end: then once more, with others.
    """
    for turn in range(5):
        numbers = range(40 * turn, 40 * turn + 40)
        waiting = [
            candidate(f"Be careful with case {number}.", message=f"m-{number}", user=f"u-{number}")
            for number in numbers
        ]
        fill(cluster, *waiting)
        if ended_amid(gate, ledger, count(ledger) + 2):
            return numbers.stop
    raise AssertionError("every run was through before it was told to end")


def ended_amid(gate: Pod, ledger: Path, lines: int) -> bool:
    """End a run once the ledger has more lines than this; say whether it was still at work."""
    running = gate.start("gate")
    soon(lambda: count(ledger) > lines or running.poll() is not None, 120, pause=0.01)
    running.send_signal(signal.SIGTERM)
    told = running.communicate(timeout=120)
    assert running.returncode in (0, 143), told
    return running.returncode == 143


def count(ledger: Path) -> int:
    return len(ledger.read_text().splitlines())


@pytest.mark.parametrize("how", ["down", "frozen"])
def test_store_that_does_not_answer_ends_a_run(tmp_path: Path, how: str) -> None:
    with Cluster(tmp_path) as cluster:
        server = cluster.serve("StatefulSet", "lessons-chroma")
        gate = cluster.pod("CronJob", "lessons-gate")
        assert gate.run("init").returncode == 0
        server.send_signal(signal.SIGKILL if how == "down" else signal.SIGSTOP)
        for container in ("init", "gate") if how == "down" else ("gate",):
            one_line(gate.run(container), "http://lessons-chroma:8000")  # which has a limit
        server.send_signal(signal.SIGCONT)


def test_compose_s_schedule_waits_and_ends_politely(gate: Pod, first: tuple[Done, Done]) -> None:
    services = load({"LESSONS_SALT": SALT, "WEBUI_SECRET_KEY": "x"})["services"]
    waiting = gate.start("gate", args=services["gate-schedule"]["command"])
    assert waiting.stdout and "promotes nothing" in waiting.stdout.readline()
    assert "the gate runs every Sun at 03:00, Etc/UTC; next: " in waiting.stdout.readline()
    waiting.send_signal(signal.SIGTERM)
    out, err = waiting.communicate(timeout=120)
    assert waiting.returncode == 143 and out == "" and "Traceback" not in err


def test_production_promotes_what_the_model_lets_pass(tmp_path: Path) -> None:
    settings = {"LESSONS_LLM_URL": "http://model:9000/v1", "LESSONS_LLM_MODEL": "reviewer"}
    seen = [
        candidate(GOOD, message=f"m-{who}", user=f"u-{who}", chat=f"c-{who}") for who in ("a", "b")
    ]
    with (
        LlmServer(
            [says("The quoted rows prove that the table answers such questions.\nVERDICT: PROMOTE")]
        ) as model,
        Cluster(tmp_path, "production", settings=settings) as cluster,
    ):
        cluster.serve("StatefulSet", "lessons-chroma")
        cluster.offer("model", 9000, int(model.url.split(":")[2].split("/")[0]))
        gate = cluster.pod("CronJob", "lessons-gate")
        assert gate.run("init").returncode == gate.run("gate").returncode == 0
        desk = cluster.pod("Deployment", "lessons-desk")
        assert desk.run("desk", command=["lessons", "confirm"]).returncode == 0
        fill(cluster, *seen)
        done = gate.run("gate")
        assert done.returncode == 0, done.stderr
        assert len(model.requests) == 1 and "1 curated" in (
            desk.run("desk", command=["lessons", "status"]).stdout
        )
