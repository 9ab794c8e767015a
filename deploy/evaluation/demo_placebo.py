"""The placebo arm of `make eval`: a second copy of the plugin, on a store of irrelevant lessons.

The plugin knows no arm: each copy reads its own store, and each account has one of them. Only
an Open WebUI made for the run may have two: everybody else there would get placebos.
"""

from __future__ import annotations

from lessons_loop.deploy.local.installation import Running
from lessons_loop.deploy.webui.plugin_file import PLUGIN_ID, plugin_source
from lessons_loop.eval.placebo import placebo_set
from lessons_loop.filter.embed import Embedder
from lessons_loop.filter.store import StorePaths
from lessons_loop.promote.embedding.calibrate import calibrate
from lessons_loop.promote.files import public_folder, write_atomic
from lessons_loop.promote.proof.proving import LessonSet
from lessons_loop.promote.store.publish import PUBLISHED_MODE, Edition, render

PLACEBO_ID = "lessons_placebo"
PLACEBO_NAME = "Lessons, placebo"


def install_placebo(running: Running, found: LessonSet, embedder: Embedder, seed: int) -> str:
    """Put the second copy in place; return its id. Raises StoreError, OpenWebUIError."""
    paths = StorePaths(running.home.root / "placebo")
    write_placebo(paths, found, embedder, seed)
    admin = running.admin
    admin.install_function(PLACEBO_ID, PLACEBO_NAME, plugin_source())
    valves = admin.valves("functions", PLUGIN_ID)
    admin.set_valves("functions", PLACEBO_ID, valves | {"store": str(paths.root)})
    return PLACEBO_ID


def write_placebo(paths: StorePaths, found: LessonSet, embedder: Embedder, seed: int) -> None:
    """Publish as many irrelevant lessons under the same vectors, with the floors of the originals.

    What recall finds by vectors stays, so that about as many are recalled.
    """
    placebo = placebo_set(found, seed)
    calibration = calibrate(found.lessons, found.vectors, embedder)
    edition = Edition(found.domain, found.rev, placebo.lessons, found.vectors, found.fingerprint)
    header, body = render(edition, calibration)
    file = paths.published(found.domain)
    public_folder(file.parent)
    write_atomic(file, header.model_dump_json().encode() + b"\n" + body, PUBLISHED_MODE)
