"""Deployment tests: manifests, the policy proxy, images, many workers, upgrades."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

THREE_WORKERS = {"test_load", "test_workers", "test_workers_unfinished"}
"""They share the one Open WebUI that takes longest to start: first, and one after the other."""


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark everything in this folder as deploy, in groups that may run side by side."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.deploy)
            name = "three workers" if item.path.stem in THREE_WORKERS else item.path.stem
            item.add_marker(pytest.mark.xdist_group(name))
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(900))  # an image is built, Open WebUI loaded
    items.sort(key=lambda item: item.path.stem not in THREE_WORKERS)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A real nginx with the committed rules, and a recorder behind it."""
    from support.guarded import guarding

    with guarding(tmp_path_factory.mktemp("proxy")) as both:
        yield both


@pytest.fixture(scope="session")
def three_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One real Open WebUI with three workers for all tests that need several."""
    from lessons_loop.deploy.bench.load_stack import load_stack
    from lessons_loop.deploy.progress import Stages
    from support.workers import Workers

    folder = tmp_path_factory.mktemp("workers")
    with load_stack(folder, Stages(quiet=True)) as stack:
        yield Workers(stack)
