"""Runs the filter's tests against the pasted files too: LESSONS_BUNDLE=1 pytest."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).parent.parent
BUNDLES = [ROOT / "deploy" / "openwebui" / f"lessons_{name}.py" for name in ("rating", "filter")]
"""What both hold is tested in the last one."""
FILTER_MODULES = {p.stem for p in (ROOT / "filter").glob("*.py")} - {"__init__"}
ON_BUNDLE = bool(os.environ.get("LESSONS_BUNDLE"))


def load_bundle(file: Path) -> None:
    """Register a pasted file as every module of the filter that is in it."""
    name = f"bundled_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    for part in re.findall(r"^# filter/(\w+)\.py", file.read_text("utf-8"), re.MULTILINE):
        sys.modules[f"lessons_loop.filter.{part}"] = module


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """On the bundle, run the filter's tests only: tests/test_<module>.py."""
    if not ON_BUNDLE or collection_path.is_dir():
        return None
    return collection_path.stem.removeprefix("test_") not in FILTER_MODULES or None


# On busy cores torch's threads wait for each other: 800 ms for one short text instead of 10.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A busy machine stops a process for longer than hypothesis allows an example (200 ms). In CI the
# examples are the same each time: a change is judged by itself, new ones are found at home.
settings.register_profile(
    "busy",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="CI" in os.environ,
    print_blob=True,
)
settings.load_profile("busy")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts so what it puts in the background; children would inherit a dead Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # `nohup` likewise
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

if ON_BUNDLE:
    for bundled in BUNDLES:
        load_bundle(bundled)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep what shares a server together where files run side by side."""
    from support.groups import scheduler

    return scheduler(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep settings of the machine out of the tests."""
    for name in list(os.environ):
        if name.startswith("LESSONS_") and name != "LESSONS_BUNDLE":
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo database, for every test that only reads it."""
    from lessons_loop.deploy.demo.data import build_database

    path = tmp_path_factory.mktemp("demo") / "demo.sqlite"
    build_database(path)
    return path


@pytest.fixture(scope="session")
def chroma_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One real Chroma server for every test that leaves it running."""
    from support.chroma_server import ChromaServer

    with ChromaServer(tmp_path_factory.mktemp("chroma")) as server:
        yield server


@pytest.fixture(scope="session")
def embedding() -> Iterator[str]:
    """Return the gate's setting of an embedding endpoint that serves the test embedder."""
    from support.judging import EmbeddingServer

    with EmbeddingServer() as server:
        yield server.setting


@pytest.fixture
def store_url(chroma_server: Any) -> str:
    """Return the store setting of a tenant of this test's own, nothing made in it yet."""
    from support.chroma_server import fresh_url

    return fresh_url(chroma_server)


@pytest.fixture(params=["folder", "server"])
def store_kind(request: pytest.FixtureRequest) -> str:
    """Run a test of store or gate on both stores."""
    return str(request.param)


@pytest.fixture
def root(store_kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Return the folder that stands for a store, see `support.gate`."""
    folder = tmp_path / "store"
    if store_kind == "server":
        from support.gate import put_on_server

        put_on_server(folder, request.getfixturevalue("store_url"))
    return folder
