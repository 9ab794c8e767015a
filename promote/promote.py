"""The gate on its own: `python promote/promote.py --store …`, same flags as `lessons promote`."""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> int:
    """Run `promote`: 0, 1 with one line for errors of ours, 2 for usage, 130 when interrupted."""
    if sys.path and Path(sys.path[0]).resolve() == Path(sys.argv[0]).resolve().parent:
        del sys.path[0]  # run by path: our file names must not shadow other modules
    import typer

    from lessons_loop.filter.errors import LessonsError
    from lessons_loop.promote.commands import promote
    from lessons_loop.promote.quiet import quiet_libraries

    quiet_libraries()
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    app.command()(promote)
    try:
        app(standalone_mode=True)
    except LessonsError as error:
        print(f"lessons: {error}", file=sys.stderr)
        return 1
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(bool(end.code))
    return 0


if __name__ == "__main__":
    sys.exit(main())
