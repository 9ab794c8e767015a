from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lessons_loop.filter.models import Kind
from lessons_loop.seeds.load import SeedProblems, read_seeds

GOOD = "- id: {id}\n  text: {text}\n  kind: fail-fix\n  trigger: t\n"


def folder_with(tmp_path: Path, **files: str) -> Path:
    folder = tmp_path / "weather"
    folder.mkdir()
    for name, content in files.items():
        (folder / name.replace("_", ".")).write_text(content, "utf-8")
    return folder


def problems_of(folder: Path) -> list[str]:
    with pytest.raises(SeedProblems) as raised:
        read_seeds(folder)
    return [str(problem) for problem in raised.value.problems]


def test_reads_every_field(tmp_path: Path) -> None:
    text = (
        "- id: rain-1\n  text: 'Read rain: in mm.'\n  kind: schema-map\n  trigger: rain\n"
        "  tags: [rain, '2024']\n  note: null\n  origin: {chat: c, msg: m}\n"
    )
    found = read_seeds(folder_with(tmp_path, a_yaml=text))
    seed = found.seeds[0]
    assert (found.domain, seed.id, seed.line, seed.note) == ("weather", "rain-1", 1, "")
    assert (seed.lesson.text, seed.lesson.tags) == ("Read rain: in mm.", ("rain", "2024"))
    assert (seed.lesson.domain, seed.lesson.source) == ("weather", "seed:weather")
    assert json.loads(seed.origin) == {"chat": "c", "msg": "m"}  # T-41


# T-35
@pytest.mark.parametrize("content", ["", "# todo\n", "---\n", "null\n", "[]\n"])
def test_empty_files_hold_no_lessons(tmp_path: Path, content: str) -> None:
    found = read_seeds(folder_with(tmp_path, a_yaml=content))
    assert (found.seeds, found.empty) == ((), ("weather/a.yaml",))


# T-35
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            "- id: a1\n  text: Use blue.\n  text: Use green.\n  kind: fail-fix\n  trigger: t\n",
            "a.yaml:3: lesson a1: text: is given twice",
        ),
        (
            GOOD.format(id="a1", text="A") + GOOD.format(id="a1", text="B"),
            "a.yaml:5: lesson a1: id: was used before, in weather/a.yaml:1",
        ),
        (
            GOOD.format(id="a1", text="Use  A.") + GOOD.format(id="a2", text="use a"),
            "a.yaml:5: lesson a2: text: says the same as lesson a1",
        ),
        (
            GOOD.format(id="c1", text="note: always quote colons"),
            "a.yaml:2: lesson c1: text: cannot be read: mapping values are not allowed here",
        ),
        ("- id: a1\n---\n- id: a2\n", "a.yaml:3: has several documents"),
        ("id: a1\ntext: A\n", "a.yaml:1: must be a list of lessons"),
        ("- just words\n", "a.yaml:1: is no lesson with named fields"),
        ("- id: a1\n  kind: fail-fix\n  trigger: t\n", "a.yaml:1: lesson a1: text: is missing"),
        (GOOD.format(id="A 1", text="A"), "a.yaml:1: lesson A 1: id: must be lower-case"),
        ("- text: A\n  kind: fail-fix\n  trigger: t\n", "a.yaml:1: id: is missing"),
        (GOOD.format(id="a1", text="yes"), "a.yaml:2: lesson a1: text: must be text"),
        (GOOD.format(id="a1", text="[A, B]"), "a.yaml:2: lesson a1: text: must be text"),
        (GOOD.format(id="a1", text="''"), "a.yaml:2: lesson a1: text: is empty"),
        (
            GOOD.format(id="a1", text="x" * 401),
            "a.yaml:2: lesson a1: text: is longer than 400 characters",
        ),
        (GOOD.format(id="a1", text="A") + "  colour: red\n", "a1: colour: is no field"),
        (GOOD.format(id="a1", text="A") + "  tags: [a, null]\n", "tags: must be a list of texts"),
        (GOOD.format(id="a1", text="A") + f"  tags: {list('abcdefghi')}\n", "longer than 8 tags"),
        (GOOD.format(id="a1", text="!!python/name:os.system x"), "text: must be text"),
        (GOOD.format(id="a1", text="&a [*a]"), "text: must be text"),
        (GOOD.replace("fail-fix", "folklore").format(id="a1", text="A"), "a1: kind: Input should"),
        ("- id: a1\n\ttext: A\n", "a.yaml:2: lesson a1"),
        ("- {id: a1\n", "cannot be read"),
    ],
)
def test_mistakes_name_file_line_lesson_field(tmp_path: Path, content: str, said: str) -> None:
    found = problems_of(folder_with(tmp_path, a_yaml=content))
    assert any(said in problem for problem in found), found


# T-35
def test_all_mistakes_of_all_files_at_once(tmp_path: Path) -> None:
    folder = folder_with(
        tmp_path,
        a_yaml=GOOD.format(id="a1", text="A") + "- id: a2\n  text: B\n  kind: x\n",
        b_yaml=GOOD.format(id="a1", text="C"),
        c_json='[{"id": "c1", "id": "c2"}]',
        d_yaml=GOOD.format(id="d1", text="note: x"),
    )
    found = problems_of(folder)
    assert [problem.partition(":")[0] for problem in found] == [
        *["weather/a.yaml"] * 2,
        *["weather/b.yaml"],
        *["weather/c.json"] * 4,
        *["weather/d.yaml"],
    ]


@pytest.mark.parametrize("indent", [None, 2, "\t"])
def test_json_is_read_alike(tmp_path: Path, indent: int | str | None) -> None:
    rows = [{"id": "a1", "text": "Say \U0001f600\t/ ok.", "kind": "fail-fix", "trigger": "t"}]
    text = json.dumps(rows, indent=indent)
    seeds = read_seeds(folder_with(tmp_path, a_json=text)).seeds
    assert seeds[0].lesson.text == "Say \U0001f600\t/ ok."


def test_broken_json_names_the_line(tmp_path: Path) -> None:
    assert problems_of(folder_with(tmp_path, a_json='[\n{"id": }]'))[0].startswith(
        "weather/a.json:2: cannot be read"
    )


# T-50
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Use two spaces.\U000e0049\U000e0067", "text: contains hidden character U+E0049"),
        ("Use two \u202espaces\u202c.", "text: contains hidden character U+202E"),
        ("Use p\u0430ypal.", "text: contains look-alike letters U+0430"),
    ],
)
def test_hidden_characters_are_named(tmp_path: Path, text: str, said: str) -> None:
    found = problems_of(folder_with(tmp_path, a_yaml=GOOD.format(id="a1", text=text)))
    assert any(said in problem for problem in found)


def test_hidden_characters_in_tags_too(tmp_path: Path) -> None:
    text = GOOD.format(id="a1", text="A") + "  tags: [ok, 'a\u200bb']\n"
    assert (
        "tags: contains hidden character U+200B"
        in problems_of(folder_with(tmp_path, a_yaml=text))[0]
    )


def test_secrets_are_refused_and_not_repeated(tmp_path: Path) -> None:
    secret = "sk-test-FAKE0123456789abcdefFAKE"
    found = problems_of(folder_with(tmp_path, a_yaml=GOOD.format(id="a1", text=f"Use {secret}")))
    assert "seeds are public" in found[0]
    assert secret not in " ".join(found)


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"- id: a1\n  text: \x00\n", b"- a: \x07"])
def test_bytes_that_are_no_text(tmp_path: Path, content: bytes) -> None:
    folder = folder_with(tmp_path)
    (folder / "a.yaml").write_bytes(content)
    assert "cannot be read" in problems_of(folder)[0]


def test_missing_folder_is_named(tmp_path: Path) -> None:
    assert "is no folder" in problems_of(tmp_path / "none")[0]


def test_folder_name_must_be_a_domain(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, a_yaml=GOOD.format(id="a1", text="A")).rename(tmp_path / "A b")
    assert "domain" in problems_of(folder)[0]


@given(st.text(max_size=300))
def test_any_text_is_read_or_explained(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    folder = tmp_path_factory.mktemp("any") / "weather"
    folder.mkdir()
    (folder / "a.yaml").write_text(text, "utf-8", errors="surrogatepass")
    try:
        assert not read_seeds(folder).seeds
    except SeedProblems as error:
        assert error.problems


YAML_TEXT = st.text(
    st.characters(categories=["L", "N", "P", "Zs"], max_codepoint=0x24F, exclude_characters="\xad"),
    min_size=1,
    max_size=60,
).map(lambda text: f"Use {text.strip()} here")


@given(YAML_TEXT, st.sampled_from(list(Kind)))
def test_quoted_text_survives(
    tmp_path_factory: pytest.TempPathFactory, text: str, kind: Kind
) -> None:
    folder = tmp_path_factory.mktemp("any") / "weather"
    folder.mkdir()
    entry = {"id": "a1", "text": text, "kind": kind.value, "trigger": "rain"}
    (folder / "a.yaml").write_text(f"- {json.dumps(entry, ensure_ascii=False)}\n", "utf-8")
    try:
        assert read_seeds(folder).seeds[0].lesson.text == text
    except SeedProblems as error:  # a text may look like a secret
        assert all("seeds are public" in problem.message for problem in error.problems)
