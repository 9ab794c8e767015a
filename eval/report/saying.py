"""What a comparison says in plain words."""

from __future__ import annotations

from lessons_loop.eval.stats.compare import Comparison
from lessons_loop.eval.stats.power import NEVER
from lessons_loop.eval.trials import Arm
from lessons_loop.promote.counting import many

NAMES = {
    Arm.OFF: "no lessons",
    Arm.ON: "lessons",
    Arm.PLACEBO: "placebo lessons",
    Arm.OFF_AGAIN: "no lessons again",
}
STAND_IN = (
    "A script stood in for the model: these figures prove that the machinery works, "
    "not that lessons help a model."
)


def points(value: float) -> str:
    """Return a lift as people read it, with its sign."""
    return f"{value * 100:+.1f}"


def bounds(low: float, high: float) -> str:
    """Return an interval of rates."""
    return f"{low * 100:.0f} to {high * 100:.0f} %"


def chance(p: float) -> str:
    """Return p as people read it."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}" if p < 0.1 else f"p = {p:.2f}"


def evidence(found: Comparison) -> str:
    """Return lift, interval and p."""
    between = f"95 %: {points(found.low)} to {points(found.high)}"
    against = f"{points(found.lift)} points against {NAMES[found.off_arm]}"
    return f"{against} ({between}), {chance(found.p)}"


def sentence(found: Comparison) -> str:
    """Return the verdict on one arm against another."""
    on, what = NAMES[found.on_arm], evidence(found)
    one = not on.endswith("lessons")
    said = {
        "helps": f"{on} help{'s' * one}: {what}.",
        "harmful": f"{on} harm{'s' * one}: {what}.",
        "neutral": f"{on} make{'s' * one} no difference beyond {found.margin * 100:g} points: "
        f"{what}.",
        "underpowered": f"{on}: nothing is proved either way, {what}.",
    }
    return f"{found.verdict}. {_capital(said[found.verdict])}"


def seen(smallest_lift: float) -> str:
    """Return what the set can see."""
    if smallest_lift >= NEVER:
        return "So few questions or topics can prove no lift at all: ask more of them."
    return f"A set like this sees a lift of {smallest_lift * 100:.1f} points in 8 of 10 runs."


def few_topics(found: Comparison) -> str:
    """Return what an interval over questions takes for granted; empty where it is over topics."""
    if found.by_topic or not found.questions:
        return ""
    few = many(found.topics, "topic")
    return f"Only {few}: the interval takes questions of one topic as independent."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
