from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lessons_loop.seeds.outline import Rule, read_rules


def texts(source: str, markdown: bool = True) -> list[str]:
    return [rule.text for rule in read_rules(source, markdown) if not rule.unread]


@pytest.mark.parametrize("bullet", ["-", "*", "+", "•", "–", "1.", "2)", "- [ ]", "- [x]", "- ✅"])
def test_one_rule_per_bullet(bullet: str) -> None:
    found = read_rules(f"{bullet} Use the key.\n{bullet} Bound the day.\n", markdown=False)
    assert [(rule.line, rule.text) for rule in found] == [
        (1, "Use the key."),
        (2, "Bound the day."),
    ]


def test_bullet_over_several_lines_is_one_rule() -> None:
    assert texts("- Use the key\n  of the machine. It is indexed.\n") == [
        "Use the key of the machine. It is indexed."
    ]


@pytest.mark.parametrize(
    ("source", "rules"),
    [
        ("- When it is refused:\n  - Add a bound\n", ["When it is refused, add a bound"]),
        ("- Staging:\n  - Use the replica\n", ["Staging: use the replica"]),
        ("- **Serials:** look up the key\n", ["Serials: look up the key"]),
        ("- Rules:\n  - Use the key\n", ["Use the key"]),
        ("Please follow these rules:\n\n- Use the key\n", ["Use the key"]),
        ("For the staging store:\n- Use the replica\n", ["For the staging store, use the replica"]),
        ("- Staging:\n  - Backups:\n    - Use c\n", ["Staging: backups: use c"]),
        (
            "- Set limits on pods:\n  - Use 512Mi\n",
            ["Set limits on pods: use 512Mi"],
        ),
        (
            "- Set limits on pods\n  - the default is none\n  - Check usage first\n",
            ["Set limits on pods (the default is none).", "Check usage first"],
        ),
    ],
)
def test_nested_bullets_carry_their_context(source: str, rules: list[str]) -> None:
    assert texts(source) == rules


# A list under "Never" says the opposite of its words: the worst mistake an import could make.
@pytest.mark.parametrize(
    "opener", ["## Never\n", "## Don'ts\n", "NEVER:\n\n", "Do not:\n\n", "**Avoid:**\n\n"]
)
def test_forbidding_openers_turn_rules_round(opener: str) -> None:
    found = texts(f"{opener}- Use ILIKE on serials\n- Using LIKE\n- Never trust x\n")
    assert found == ["Never use ILIKE on serials", "Avoid using LIKE", "Never trust x"]


@pytest.mark.parametrize(
    ("bullet", "rule"),
    [
        ("Guess a rate", "Never guess a rate"),
        ("Refunds: trigger them yourself", "Refunds: never trigger them yourself"),
        ("Count old ones: they are kept", "Never count old ones: they are kept"),
        ("Writing to production", "Avoid writing to production"),
        ("The table `x`", "Avoid the table `x`"),
        ("SELECT * on big tables", "Never SELECT * on big tables"),
        ("Avoid joins", "Avoid joins"),
    ],
)
def test_prohibitions_read_as_such(bullet: str, rule: str) -> None:
    assert texts(f"## Never\n- {bullet}\n") == [rule]


def test_forbidding_ends_with_its_section() -> None:
    assert texts("## Never\n- Use a\n## Always\n- Use b\n") == ["Never use a", "Use b"]


@pytest.mark.parametrize("opener", ["Niemals:", "Verboten:", "Nie:"])
def test_german_openers_forbid_in_german(opener: str) -> None:
    assert texts(f"{opener}\n\n- Bewegungen ohne Datum abfragen\n") == [
        "Niemals Bewegungen ohne Datum abfragen"
    ]


def test_crossed_bullets_forbid() -> None:
    assert texts("- ❌ Use ILIKE\n- ✅ Use the key\n") == ["Never use ILIKE", "Use the key"]


def test_headings_are_context_not_rules() -> None:
    found = read_rules(
        "# Fleet\n\n## Hours\n\n- Sum them\n\n## Rules\n\n- Use keys\n", markdown=True
    )
    assert [(rule.text, rule.context) for rule in found] == [
        ("Sum them", ("Fleet", "Hours")),
        ("Use keys", ("Fleet",)),
    ]


def test_title_without_sign_is_a_heading() -> None:
    found = read_rules("Serial numbers\n\n- Use the key\n", markdown=False)
    assert found == [Rule(3, "Use the key", ("Serial numbers",))]


@pytest.mark.parametrize("fence", ["```sql\n  SELECT 1\n  ```", "~~~\n  SELECT 1\n  ~~~"])
def test_code_stays_with_its_bullet(fence: str) -> None:
    found = read_rules(f"- Count like so:\n\n  {fence}\n\n- Use keys\n", markdown=True)
    assert [(rule.text, rule.code.strip()) for rule in found] == [
        ("Count like so:", "SELECT 1"),
        ("Use keys", ""),
    ]


def test_code_behind_a_paragraph_is_its_own() -> None:
    found = read_rules("Use the view.\n\nCount like so:\n\n```\nSELECT 1\n```\n", markdown=True)
    assert [rule.code for rule in found] == ["", "SELECT 1\n"]


def test_code_without_a_rule_is_told() -> None:
    assert [rule.unread for rule in read_rules("```\nx\n```\n", markdown=True)] != [""]


@pytest.mark.parametrize(
    ("table", "rule", "trigger"),
    [
        ("|Error|Fix|\n|-|-|\n|`E1` shown|Restart it|\n", "`E1` shown: restart it.", "`E1` shown"),
        ("|Fix|Symptom|\n|-|-|\n|Restart it|Hangs|\n", "Hangs: restart it.", "Hangs"),
        ("|Rule|Why|\n|-|-|\n|Use keys|they are indexed|\n", "Use keys. They are indexed.", ""),
        ("|Do|Don't|\n|-|-|\n|Use keys|Use LIKE|\n", "Use keys. Never use LIKE.", ""),
        ("|Wenn|Was tun|\n|-|-|\n|es hängt|Prüfe x|\n", "Es hängt: prüfe x.", "es hängt"),
        ("|Topic|Text|\n|-|-|\n|Keys|Use them|\n", "Keys: use them.", "Keys"),
        ("|Alert|Command|\n|-|-|\n|Full disk|`df -h`|\n", "Full disk: run `df -h`", "Full disk"),
    ],
)
def test_tables_are_read_by_their_titles(table: str, rule: str, trigger: str) -> None:
    found = read_rules(table, markdown=True)
    assert [(one.text[:1].upper() + one.text[1:], one.trigger) for one in found] == [
        (rule, trigger)
    ]


def test_numbered_procedure_is_one_rule() -> None:
    source = "### How to restart\n\n1. Drain it.\n2. Run\n   ```\n   stop x\n   ```\n3. Wait.\n"
    assert texts(source) == ["To restart: drain it; run `stop x`; wait"]


def test_numbered_rules_stay_apart() -> None:
    assert texts("## Queries\n\n1. Use keys\n2. Bound days\n") == ["Use keys", "Bound days"]


def test_prose_is_split_at_instructions() -> None:
    source = "You are a helper. Use SQLite. It is the only dialect here. Never guess, e.g. a name."
    assert texts(source) == [
        "You are a helper.",
        "Use SQLite. It is the only dialect here.",
        "Never guess, e.g. a name.",
    ]


def test_lines_without_full_stops_are_rules() -> None:
    assert texts("Use SQLite\nNever use ILIKE\nAdd a LIMIT at the very end\n") == [
        "Use SQLite",
        "Never use ILIKE",
        "Add a LIMIT at the very end",
    ]


def test_wrapped_prose_is_not_cut() -> None:
    wrapped = (
        "Look every machine up by its serial key because\nIDs of other systems are not unique."
    )
    assert texts(wrapped) == [" ".join(wrapped.split())]


@pytest.mark.parametrize("hidden", ["<!-- Use root -->", "<!--\n\n- a\n-->", "---\nuse: x\n---"])
def test_what_is_not_read_is_told(hidden: str) -> None:
    found = read_rules(f"{hidden}\n\n- Use keys\n", markdown=True)
    assert [rule.text for rule in found] == ["", "Use keys"] and found[0].unread


def test_lists_in_tags_are_read() -> None:
    source = "<rules>\n- Use a\n</rules>\n<avoid>\n- Use b\n</avoid>\n<div>\n- Use c\n</div>\n"
    assert texts(source) == ["Use a", "Never use b", "Use c"]


def test_instead_ends_a_prohibition() -> None:
    source = "## Never\n\n- Use LIKE\n- Instead: use the key\n\nInstead:\n\n- Use keys\n"
    assert texts(source) == ["Never use LIKE", "Instead: use the key", "Use keys"]


def test_forbidding_reaches_subsections() -> None:
    assert texts("## What we do not do\n### SQL\n- Use LIKE\n") == ["Never use LIKE"]


def test_markup_goes_and_names_stay() -> None:
    source = r"- Use *the* **key** [docs](http://x.example) `a_b` snake_case_name <name> 2 \* 3"
    assert texts(source) == ["Use the key docs `a_b` snake_case_name <name> 2 * 3"]


@given(st.text(max_size=400))
def test_any_text_is_read(source: str) -> None:
    for markdown in (True, False):
        for rule in read_rules(source, markdown):
            assert rule.line >= 1 and "\n" not in rule.text


def test_deep_nesting_is_read() -> None:
    source = "".join("  " * depth + "- Use a:\n" for depth in range(200))
    assert read_rules(source, markdown=True) is not None
