"""Every prompt renders with the variables its stage gives it, and keeps what it is given word for word."""

from __future__ import annotations

import pytest
from jinja2 import meta

from workers.core.answers import (
    Answer,
    CoderAnswer,
    ConsensusAnswer,
    ControlAnswer,
    LeadAnswer,
    ProofAnswer,
    RefutationAnswer,
    ReviewAnswer,
)
from workers.teams import built_in_folder, prompt_environment

ROLES: dict[str, type[Answer]] = {
    "coder": CoderAnswer,
    "reviewer": ReviewAnswer,
    "consensus": ConsensusAnswer,
    "refuter": RefutationAnswer,
    "prover": ProofAnswer,
    "control": ControlAnswer,
    "lead": LeadAnswer,
}
VARIABLES: dict[str, set[str]] = {
    "material.md": {"spec", "files", "tests", "claims", "reviews"},
    "persona.md": {"persona"},
    "claim.md": {"claim", "files"},
    "killed.md": {"killed"},
    **{f"{role}.md": set() for role in ROLES},
}


def test_every_prompt_asks_only_for_what_it_is_given() -> None:
    environment = prompt_environment()
    asked = {
        path.name: meta.find_undeclared_variables(environment.parse(path.read_text(encoding="utf-8")))
        for path in (built_in_folder() / "prompts").iterdir()
    }
    assert asked == VARIABLES


@pytest.mark.parametrize("role", ROLES)
def test_a_role_s_prompt_names_every_required_key_of_its_answer(role: str) -> None:
    text = prompt_environment().get_template(f"{role}.md").render()
    assert "{{" not in text
    assert "{%" not in text
    for name, field in ROLES[role].model_fields.items():
        assert not field.is_required() or f'"{name}"' in text
    assert "\n\n\n" not in text


def test_a_persona_keeps_what_it_is_given_word_for_word() -> None:
    text = prompt_environment().get_template("persona.md").render(persona="You <look> & see.")

    assert "You <look> & see." in text, "a prompt is no HTML"


def test_the_material_keeps_what_it_is_given_word_for_word() -> None:
    code = "if a < b && c:\n    x = '{{ spec }}'  # {% raw %}"
    text = (
        prompt_environment()
        .get_template("material.md")
        .render(spec="s <> &", files={"a.py": code}, tests={"test_a.py": "t"}, claims="c", reviews="r")
    )
    assert f'<file path="a.py">\n{code}\n</file>' in text
    assert '<test path="test_a.py">\nt\n</test>' in text
    assert "<spec>\ns <> &\n</spec>" in text
    assert "<claims>\nc\n</claims>" in text
    assert "<reviews>\nr\n</reviews>" in text


def test_empty_parts_leave_no_trace() -> None:
    text = (
        prompt_environment()
        .get_template("material.md")
        .render(spec="s", files={}, tests={}, claims="", reviews="")
    )
    assert text.strip() == "<spec>\ns\n</spec>"
