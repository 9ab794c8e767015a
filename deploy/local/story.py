"""How `lessons demo` tells what happened: plain text, wide or narrow terminals alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from lessons_loop.deploy.webui.exchange import Call, Exchange
from lessons_loop.filter.inject import BLOCK_CLOSE, BLOCK_OPEN

RESULT_LIMIT = 300
LABEL_WIDTH = 10
OPENING = """\
A real Open WebUI is started with an empty lesson store. Its chat model is the practice \
model: a script that stands in for a language model and follows a lesson only when it \
finds it in the system message it received. What you see proves the machinery, not that \
lessons help a language model; that is measured by an evaluation with a real one."""

REAL_OPENING = """\
A real Open WebUI is started with an empty lesson store. Its chat model, its distiller and \
its reviewer is {model}. It may answer otherwise than the loop needs: the \
demo then ends with the step that was not observed. Two chats are no measurement of whether \
lessons help; that is an evaluation's."""
CLOSING = "A script stood in for the model: this proves the machinery, not the benefit."
REAL_CLOSING = "The model was {model}. Two chats prove the machinery, not the benefit."


class Story:
    """Prints the story on standard output; silent when `quiet`.

    `model` names the real model, empty where the practice model stands in.
    """

    def __init__(self, *, quiet: bool = False, model: str = "") -> None:
        self.console = Console(highlight=False, quiet=quiet)
        self.model = model

    def opening(self) -> None:
        """Say what will be shown and what it does not prove."""
        self.plain(REAL_OPENING.format(model=self.model) if self.model else OPENING)

    def chapter(self, title: str) -> None:
        """Begin a chapter."""
        self.console.print()
        self.console.print(Text(title, style="bold"))

    def plain(self, text: str, indent: int = 0) -> None:
        """Print text as it is, wrapped."""
        self.console.print(Padding(Text(text.rstrip()), (0, 0, 0, indent)))

    def line(self, label: str, text: str) -> None:
        """Print text behind a label, wrapped beside it."""
        grid = Table.grid(padding=(0, 1, 0, 0))
        grid.add_column(width=LABEL_WIDTH)
        grid.add_column(overflow="fold")
        grid.add_row(Text(label, style="dim"), Text(text.rstrip()))
        self.console.print(Padding(grid, (0, 0, 0, 2)))

    def exchange(self, exchange: Exchange) -> None:
        """Tell one chat: question, what the provider was told, calls, what the user saw."""
        self.line("user", exchange.question)
        if lesson := injected_block(exchange.system[0] if exchange.system else ""):
            self.line("system", f"(as the provider received it)\n{lesson}")
        for call in exchange.calls:
            self.call(call)
        for text in exchange.status:
            self.line("status", text)
        for name in exchange.sources:
            self.line("source", name)
        self.line("assistant", exchange.answer)

    def call(self, call: Call) -> None:
        """Tell one tool call and how it ended."""
        self.line("call", f"{call.tool} {call.arguments}")
        self.line("REFUSED" if call.refused else "result", shortened(call.result))

    def candidate(self, candidate: dict[str, Any], shown: str) -> None:
        """Show the candidate as `lessons show` does."""
        self.plain(f"$ lessons show {candidate['id'][:12]}", 2)
        self.plain(shown, 4)

    def verdicts(self, report: dict[str, Any], command: Sequence[str]) -> None:
        """Show the gate's verdicts with their reasons."""
        self.plain(f"$ lessons {' '.join(command)}", 2)
        for verdict in report.get("verdicts", ()):
            self.line("verdict", str(verdict.get("decision", "")).upper())
            self.line("lesson", str(verdict.get("text", "")))
            self.line("reason", str(verdict.get("reason", "")))

    def closing(self, first: Exchange, second: Exchange, lesson: str) -> None:
        """Print the two chats side by side."""
        table = Table(title=None, show_edge=False, pad_edge=False)
        for title in ("", "first chat", "second chat"):
            table.add_column(title)
        table.add_row("tool calls", str(len(first.calls)), str(len(second.calls)))
        table.add_row("refused queries", str(first.refused), str(second.refused))
        table.add_row("lesson in the prompt", held(first, lesson), held(second, lesson))
        self.chapter("First chat, second chat")
        self.console.print(Padding(table, (0, 0, 0, 2)))
        self.console.print()
        told = REAL_CLOSING.format(model=self.model) if self.model else CLOSING
        self.plain(f"Every step was observed. {told}")


def held(exchange: Exchange, lesson: str) -> str:
    """Say whether the provider was given the lesson."""
    return "yes" if any(lesson in text for text in exchange.system) else "no"


def injected_block(system: str) -> str:
    """Return the lessons block of a system message, empty where there is none."""
    if BLOCK_OPEN not in system or BLOCK_CLOSE not in system:
        return ""
    start, end = system.index(BLOCK_OPEN), system.index(BLOCK_CLOSE) + len(BLOCK_CLOSE)
    return system[start:end]


def shortened(text: str) -> str:
    """Return a tool result on one line, cut to what a reader takes in."""
    line = " ".join(text.split())
    return line if len(line) <= RESULT_LIMIT else line[:RESULT_LIMIT] + " …"
