from __future__ import annotations

from pathlib import Path

import pytest

from lessons_loop.filter.models import Kind
from lessons_loop.seeds.load import Seed, SeedProblems, read_seeds

GOOD = "title: {title}\nrule: Read rainfall in the table rain.\nwhen: rainfall is asked for\n"


def guide(tmp_path: Path, content: str, name: str = "rain.guide.yaml") -> Path:
    folder = tmp_path / "weather"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(content, "utf-8")
    return folder


def seeds(folder: Path, domain: str = "weather") -> tuple[Seed, ...]:
    return read_seeds(folder, domain).seeds


def test_a_directive_becomes_a_seed(tmp_path: Path) -> None:
    text = (
        "- title: Rain in one Table\n  rule: Read the unit of rain from the column rain.unit.\n"
        "  when: rainfall is asked for\n  scope: [units, hail]\n"
    )
    (seed,) = seeds(guide(tmp_path, text))
    assert (seed.id, seed.file, seed.line) == ("rain-in-one-table", "weather/rain.guide.yaml", 1)
    assert seed.lesson.text == "Read the unit of rain from the column rain.unit."
    assert (seed.lesson.trigger, seed.lesson.kind) == ("rainfall is asked for", Kind.SCHEMA_MAP)
    assert seed.lesson.tags == ("units", "hail", "rain", "one", "table")
    assert seed.lesson.source == "seed:weather"


@pytest.mark.parametrize("name", ["a.guide.yaml", "a.guide.yml", "a.guide.json"])
def test_one_directive_needs_no_list(tmp_path: Path, name: str) -> None:
    text = '{"title": "Rain", "rule": "Read rain.", "when": "rain is asked for", "scope": "units"}'
    (seed,) = seeds(guide(tmp_path, text, name))
    assert (seed.id, seed.lesson.tags) == ("rain", ("units", "rain"))


@pytest.mark.parametrize(
    ("scope", "domains"),
    [
        ("", ["weather", "sql"]),
        ("scope: hail\n", ["weather", "sql"]),
        ("scope: domain:weather\n", ["weather"]),
        ("scope: [hail, 'domain:sql']\n", ["sql"]),
        ("scope: ['domain:sql', 'domain:weather']\n", ["weather", "sql"]),
    ],
)
def test_scope_keeps_a_directive_to_its_domains(
    tmp_path: Path, scope: str, domains: list[str]
) -> None:
    folder = guide(tmp_path, GOOD.format(title="Rain") + scope)
    found = [domain for domain in ("weather", "sql") if seeds(folder, domain)]
    assert found == domains
    assert all("domain:" not in tag for seed in seeds(folder, found[0]) for tag in seed.lesson.tags)


def test_passed_over_file_is_an_empty_one(tmp_path: Path) -> None:
    found = read_seeds(guide(tmp_path, GOOD.format(title="Rain") + "scope: domain:sql\n"))
    assert (found.seeds, found.empty) == ((), ("weather/rain.guide.yaml",))


# T-35
@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("title: Rain\nwhen: rain\n", "rain.guide.yaml:1: directive Rain: rule: is missing"),
        ("title: Rain\nrule: Read rain.\n", "1: directive Rain: when: is missing"),
        ("rule: Read rain.\nwhen: rain\n", "rain.guide.yaml:1: title: is missing"),
        (GOOD.format(title="Rain") + "kind: fail-fix\n", "4: directive Rain: kind: is no field of"),
        (GOOD.format(title="Rain") + "text: x\n", "(title, rule, when, scope)"),
        (GOOD.format(title="Rain") + "when: x\n", "4: directive Rain: when: is given twice"),
        (GOOD.format(title="7"), "directive 7: title: must be text"),
        (GOOD.format(title="雨"), "directive 雨: title: must have a letter"),
        (GOOD.format(title="x" * 90), "title: must have a letter a-z or a digit and make an id of"),
        (GOOD.format(title="Rain") + "scope: 7\n", "scope: must be a list of texts"),
        (GOOD.format(title="Rain") + "scope: {a: b}\n", "scope: must be a list of texts"),
        (GOOD.format(title="Rain") + "scope: domain:We ather\n", "scope: domain:NAME wants"),
        (GOOD.format(title="Rain") + f"scope: {list('abcdefghi')}\n", "scope: is longer than 8"),
        ("title: Rain\nrule: a: b\nwhen: x\n", "2: directive Rain: rule: cannot be read"),
        ("title: Rain\nrule: [a]\nwhen: x\n", "directive Rain: rule: must be text"),
        (f"title: Rain\nrule: {'x' * 401}\nwhen: x\n", "rule: is longer than 400 characters"),
        (f"title: Rain\nrule: Read.\nwhen: {'x' * 161}\n", "when: is longer than 160 characters"),
        ("just words\n", "rain.guide.yaml:1: must be a list of directives"),
        ("- just words\n", "is no directive with named fields"),
        ("title: Rain\nrule: Read two\u202e.\nwhen: x\n", "rule: contains hidden character U+202E"),
    ],
)
def test_mistakes_name_file_directive_field(tmp_path: Path, content: str, said: str) -> None:
    with pytest.raises(SeedProblems) as raised:
        seeds(guide(tmp_path, content))
    problems = [str(problem) for problem in raised.value.problems]
    assert any(said in problem for problem in problems), problems
    assert all("\n" not in problem for problem in problems)


def test_secrets_in_a_title_are_refused_unseen(tmp_path: Path) -> None:
    secret = "sk-test-FAKE0123456789abcdefFAKE"
    with pytest.raises(SeedProblems) as raised:
        seeds(guide(tmp_path, GOOD.format(title=f"Use {secret}")))
    assert "seeds are public" in str(raised.value)


def test_ids_clash_across_both_forms(tmp_path: Path) -> None:
    folder = guide(tmp_path, GOOD.format(title="Rain"))
    guide(tmp_path, "- {id: rain, text: Read x., kind: fail-fix, trigger: x}\n", "a.yaml")
    with pytest.raises(SeedProblems) as raised:
        seeds(folder)
    assert "was used before, in weather/a.yaml:1" in str(raised.value)
