"""Options of `lessons promote` that say which lessons have stopped helping."""

from __future__ import annotations

from typing import Annotated

import typer

DemoteStale = Annotated[
    bool,
    typer.Option(
        "--demote-stale", help="Take out lessons users judge badly; seeds are only proposed."
    ),
]
MinHits = Annotated[
    int, typer.Option(min=1, help="Judged uses needed: one per user, lesson and day.")
]
MinSuccessRate = Annotated[
    float, typer.Option(min=0.0, max=1.0, help="Share of them that has to go well.")
]
MaxChance = Annotated[
    float,
    typer.Option(min=0.0, max=1.0, help="Greatest chance that it was bad luck; 1: never asked."),
]
KeepUses = Annotated[
    int,
    typer.Option(
        envvar="LESSONS_KEEP_USES",
        min=0,
        show_default=False,
        help="Answers without a thumb to remember, the newest; default: all.",
    ),
]
JudgeByTools = Annotated[
    bool,
    typer.Option("--judge-by-tools", help="Tools' results judge answers without a thumb."),
]
