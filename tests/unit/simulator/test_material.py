"""Prompts, read back from what the templates of `teams/prompts` make of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.simulator.rehearsal import material, system_prompt
from workers.core.artefact import numbered
from workers.providers.simulator.material import read_question

FILES = {"a.py": "def f():\n\n    return 1\n", "b/c.py": "", "d.txt": "no line break at its end"}


def test_each_prompt_names_its_role() -> None:
    for role in ("coder", "reviewer", "consensus", "lead"):
        assert read_question(system_prompt(role), "").role == role
    assert read_question("Be kind.", "<spec>\nx\n</spec>").role is None


def test_the_lead_reads_every_file_as_it_is() -> None:
    question = read_question("", material("a spec\n\nof two parts", files=FILES))
    assert question.spec == "a spec\n\nof two parts"
    assert dict(question.files) == FILES


def test_files_are_read_where_there_is_no_spec() -> None:
    question = read_question("", '<file path="a.py">\nx = 1\n</file>')
    assert (question.spec, dict(question.files)) == (None, {"a.py": "x = 1"})


def test_a_reviewer_reads_a_file_without_its_line_numbers() -> None:
    shown = {path: numbered(text) for path, text in FILES.items()}
    files = read_question("", material("x", files=shown)).files
    assert files == {path: "\n".join(text.splitlines()) for path, text in FILES.items()}


def test_a_file_in_parts_keeps_its_line_numbers_and_loses_what_was_removed() -> None:
    shown = (
        " … | lines 1 to 2 are not shown\n 3 | def f():\n - |     return 1\n 4 |     return 2\n"
        " … | lines 5 to 6 are not shown\n 7 | x = 1"
    )
    assert read_question("", material("x", files={"a.py": shown})).files["a.py"] == (
        "\n\ndef f():\n    return 2\n\n\nx = 1"
    )


def test_prompts_without_a_mark_are_read_too() -> None:
    question = read_question(
        "", '<spec>\nx\n</spec>\n<file path="a.py">\ny\n</file>\n<claims>\n{"id": "C1"}\n</claims>'
    )
    assert (question.spec, dict(question.files), len(question.claims)) == ("x", {"a.py": "y"}, 1)


def test_a_table_that_only_begins_like_line_numbers_stays_as_it_is() -> None:
    table = "1 | one\n1 | another"
    assert read_question("", material("x", files={"t.txt": table})).files["t.txt"] == table


@given(st.lists(st.text(alphabet="ab |1\t", max_size=8), max_size=12))
def test_numbering_and_reading_back_gives_the_lines(lines: list[str]) -> None:
    text = "\n".join(lines)
    files = read_question("", material("x", files={"a": numbered(text)})).files
    assert files["a"] == "\n".join(text.splitlines())


def test_claims_and_reviews_are_one_object_a_line_and_other_lines_are_passed_over() -> None:
    claims = '{"id": "C1", "claim": "x"}\nnot json\n[1]\n{"id": "C2"}'
    question = read_question("", material("x", files=FILES, claims=claims, reviews='{"reviewer": "r"}'))
    assert [claim["id"] for claim in question.claims] == ["C1", "C2"]
    assert question.reviews == [{"reviewer": "r"}]


def test_tags_inside_a_file_are_text_of_that_file() -> None:
    files = {"t.md": "<claims>\n{}\n</claims>\n<spec>\nx\n</spec>"}
    question = read_question("", material("the spec", files=files))
    assert dict(question.files) == files
    assert question.claims == []


def test_a_spec_that_goes_on_after_a_closing_tag_of_its_own_is_read_whole() -> None:
    spec = "known\n</spec>\nand more"
    assert read_question("", material(spec)).spec == spec


def test_a_flood_of_tags_costs_no_more_than_its_length() -> None:
    # Each opening tag searching for a closing one up to the end would be 10^10 steps.
    flood = '<spec>\n<file path="a">\n<claims>\n' * 100_000
    question = read_question("# Role: lead", flood + "1" * 10_000 + " | x")
    assert (question.spec, dict(question.files), question.claims) == (None, {}, [])
    numbers = material("x", files={"a": "1" * 10_000 + " | x"})
    assert read_question("", numbers).files["a"].startswith("111")


@given(st.text(alphabet='<>/specfil="\n |1{}', max_size=300))
def test_any_text_can_be_read(text: str) -> None:
    question = read_question(text, text)
    assert question.spec is None or question.spec in text
