"""Rules every command obeys, tested on all of them, whoever adds one."""

from __future__ import annotations

import pytest

from support.commands import Named, every_command, parse

COMMANDS = every_command()
IDS = [found.name for found in COMMANDS]


@pytest.fixture(autouse=True)
def store_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LESSONS_STORE", "./lessons")


@pytest.mark.parametrize("found", COMMANDS, ids=IDS)
def test_example_parses(found: Named) -> None:
    assert found.examples, "the help needs a line `Example: lessons …`"
    for line in found.examples:
        assert line.startswith(f"lessons {found.name}")
        parse(line)


@pytest.mark.parametrize("found", COMMANDS, ids=IDS)
def test_every_option_says_what_it_is(found: Named) -> None:
    silent = [one.opts[0] for one in found.command.params if not (one.help or "").strip()]
    assert [name for name in silent if name != "--help"] == []


@pytest.mark.parametrize("found", COMMANDS, ids=IDS)
def test_every_command_has_json(found: Named) -> None:
    flag = found.option("--json")
    assert flag is not None and flag.is_flag


def test_secret_options_have_a_variable_and_no_shown_default() -> None:
    names = ("--token", "--llm-api-key")
    secret = [one for found in COMMANDS for name in names if (one := found.option(name))]
    assert len(secret) >= 3
    assert all(one.envvar and not one.show_default for one in secret)
