"""What the HTML pages of reports share: the frame, tables, plots with their numbers.

Covered: no script, nothing loaded; any text that goes through `told` stays text.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from lessons_loop.promote.showing import plain

POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def page(title: str, style: str, body: str) -> str:
    """Return a whole page, light and dark, wide and narrow; all three are HTML already."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{title}</title><style>{style}</style></head><body><main>{body}</main></body></html>\n"
    )


def told(text: object) -> str:
    """Return any text for HTML: masked, hidden characters written out, escaped."""
    return escape(plain(str(text)))


def table(head: Iterable[object], rows: Iterable[Iterable[object]]) -> str:
    """Return a table of texts."""
    names = "".join(f"<th>{told(name)}</th>" for name in head)
    body = "".join(map(row, rows))
    return f"<table><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>"


def row(cells: Iterable[object]) -> str:
    """Return one row of a table."""
    return "<tr>{}</tr>".format("".join(f"<td>{told(cell)}</td>" for cell in cells))


def plot_figure(
    title: str, plot: str, head: Iterable[object], rows: Iterable[Iterable[object]]
) -> str:
    """Return a plot with its caption (HTML), and its numbers to unfold."""
    return (
        f"<figure><figcaption>{title}</figcaption>{plot}"
        f"<details><summary>Numbers</summary><div>{table(head, rows)}</div></details></figure>"
    )
