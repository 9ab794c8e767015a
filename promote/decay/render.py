"""How decay is told: one line per lesson, its numbers below."""

from __future__ import annotations

from collections.abc import Mapping

from lessons_loop.filter.models import Curated
from lessons_loop.promote.decay.rules import Standing
from lessons_loop.promote.decay.run import DecayReport
from lessons_loop.promote.showing import plain


def decay_lines(report: DecayReport, *, would: bool) -> list[str]:
    """Return what decay did, or would do; watched lessons are only told."""
    parts = (
        ("would demote" if would else "demoted", report.demoted, ""),
        ("proposed", report.proposed, "; a person wrote it: lessons demote {} --reason TEXT"),
        ("watched", report.watched, ""),
    )
    return [
        line
        for word, found, more in parts
        for one in found
        for line in _lines(word, one, report.texts, more.format(one.key[:12]))
    ]


def _lines(word: str, one: Standing, texts: Mapping[str, Curated], more: str) -> list[str]:
    low, high = one.bounds
    text = plain(texts[one.key].lesson.text)
    why = f"{one.why}; {one.users} users, 95 % between {low:.0%} and {high:.0%}{more}"
    return [f"{word:13} {one.key[:12]}  {text}", f"{'':14}{why}"]
