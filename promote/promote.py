"""The gate on its own: `python promote/promote.py --store …`, same flags as `lessons promote`."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

NEEDED = ("lessons_loop", "typer", "rich", "pydantic", "requests", "numpy", "chromadb")


def main() -> int:
    """Run `promote`: 0, 1 with one line for errors of ours, 2 for usage, 130 when interrupted."""
    if sys.path and Path(sys.path[0]).resolve() == Path(sys.argv[0]).resolve().parent:
        del sys.path[0]  # run by path: our file names must not shadow other modules
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        names = ", ".join(missing)
        print(
            f"lessons: {sys.executable} lacks {names}: "
            "run `pip install .` in the project's folder with it, or use the Python that has them",
            file=sys.stderr,
        )
        return 1
    import typer

    from lessons_loop.promote.commands import promote
    from lessons_loop.promote.entry import run_app
    from lessons_loop.promote.quiet import quiet_libraries

    quiet_libraries()
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    app.command()(promote)
    return run_app(app, sys.argv[1:], Path(sys.argv[0]).name)


if __name__ == "__main__":
    sys.exit(main())
