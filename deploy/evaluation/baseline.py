"""`lessons up --baseline`: how the models do on the demo domain before its seeds, and behind them.

Measured by the harness's own agent in a child process. A baseline is a courtesy of the start:
whatever goes wrong with it is one warning.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import requests

from lessons_loop.deploy.local.home import Home
from lessons_loop.deploy.local.recorder import Endpoint
from lessons_loop.deploy.local.sources import Embedding, Models
from lessons_loop.deploy.local.store import TOOL_FILE, gate_environment, prepare_store
from lessons_loop.deploy.processes import Child, StartError, last_line, session_for, start
from lessons_loop.deploy.progress import Stages
from lessons_loop.filter.address import public_url
from lessons_loop.filter.errors import LessonsError

if TYPE_CHECKING:
    from lessons_loop.deploy.local.installation import Options

DOMAIN = "sql"
MODELS_SECONDS = 10.0
POLL_SECONDS = 0.5
RUNS = 3
"""Of the practice model; a real model is asked once: it takes its time, and may cost."""


class NoBaseline(LessonsError):
    """Nothing was measured."""


@contextmanager
def around_seeds(
    options: Options,
    home: Home,
    models: Models,
    embedding: Embedding,
    environ: Mapping[str, str],
    stages: Stages,
) -> Iterator[None]:
    """Measure before the block, which loads the seeds, and after it, where that is wished for."""
    if not options.baseline:
        yield
        return
    wanted = Measuring(home, models, embedding, environ, stages)
    prepare_store(replace(options, seeds=False), home, embedding, environ, stages)
    measured = wanted.tried("baseline", options.domains)
    yield
    if measured and options.seeds and embedding.gate:
        wanted.tried("after", options.domains)


class Measuring:
    """Runs the evaluation's child and shows how far it is."""

    def __init__(
        self,
        home: Home,
        models: Models,
        embedding: Embedding,
        environ: Mapping[str, str],
        stages: Stages,
    ) -> None:
        self.home, self.models, self.stages = home, models, stages
        self.environment = gate_environment(environ, home, embedding)

    def tried(self, kind: str, domains: str) -> bool:
        """Measure; return False, with one warning told, where that did not work."""
        try:
            if DOMAIN not in [name.strip() for name in domains.split(",")]:
                raise NoBaseline(f"its questions are on the domain {DOMAIN}, which is left out")
            told = self._measured(kind)
        except LessonsError as error:
            self.stages.note(f"warning: nothing was measured ({kind}): {error}")
            return False
        self.stages.note(told)
        return True

    def _measured(self, kind: str) -> str:
        model = self.environment.get("LESSONS_EVAL_MODEL") or only_model(self.models)
        settings = eval_environment(self.models, self.home, model)
        runs = RUNS if self.models.practice else 1
        log = self.home.root / f"{kind}.log"
        log.unlink(missing_ok=True)
        module = "lessons_loop.deploy.evaluation.baseline_run"
        command = [sys.executable, "-m", module, kind, str(runs), str(self.home.store.state)]
        child = start(
            f"measuring ({kind})", command, log, self.environment | settings, self.home.root
        )
        try:
            self._wait(child, kind)
        finally:
            child.stop()
        return last_line(log)

    def _wait(self, child: Child, kind: str) -> None:
        """Wait for the child, its last line shown meanwhile; raise StartError when it fails."""
        with self.stages.changing(f"measuring ({kind})") as show:
            while (code := child.ended()) is None:
                show(last_line(child.log))
                time.sleep(POLL_SECONDS)
        if code:
            raise StartError(last_line(child.log))


def eval_environment(models: Models, home: Home, model: str) -> dict[str, str]:
    """Return the settings of the harness's agent on this installation, its key among them."""
    return {
        "LESSONS_EVAL_URL": models.openai_url,
        "LESSONS_EVAL_MODEL": model,
        "LESSONS_EVAL_API_KEY": models.key,
        "LESSONS_EVAL_TOOLS": str(TOOL_FILE),
        "LESSONS_EVAL_TOOL_VALVES": json.dumps({"database": str(home.database)}),
        "LESSONS_EVAL_DATABASE": str(home.database),
    }


def only_model(models: Models) -> str:
    """Return the one model that is offered; raise NoBaseline where there are several or none."""
    url = models.openai_url
    session = session_for(url)
    sign = Endpoint(url, "", models.key).sign
    try:
        answer = session.get(
            f"{url.rstrip('/')}/models", auth=sign, timeout=MODELS_SECONDS, allow_redirects=False
        )
        names = [str(entry["id"]) for entry in answer.json()["data"]] if answer.ok else []
    except (requests.RequestException, ValueError, KeyError, TypeError):
        names = []
    if len(names) != 1:
        raise NoBaseline(
            f"{public_url(url)} offers {len(names)} models: set LESSONS_EVAL_MODEL to one"
        )
    return names[0]
