"""`python -m lessons_loop.deploy.bench`: see `table`."""

from lessons_loop.deploy.bench.table import main

if __name__ == "__main__":
    raise SystemExit(main())
