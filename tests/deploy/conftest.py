"""Deployment tests: manifests, the policy proxy, images, many workers, upgrades."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.groups import THREE_WORKERS


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark everything in this folder as deploy; first what takes longest to start."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.deploy)
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
