"""Skills: read with their head, and refused when they could lead out of the team's folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.factories import make_team
from workers.core.equipment import Library
from workers.errors import ManifestError
from workers.teams import built_in_folder, prompt_environment, read_team
from workers.tools.briefing import instructions
from workers.tools.skills import MAX_SKILL_BYTES, read_skill

GOOD = "---\nname: threat\ndescription: When code takes input.\nlicense: MIT\n---\n\n# Threat\n\nLook for sinks.\n"


def write(folder: Path, text: str | bytes = GOOD, name: str = "skills/threat") -> Path:
    path = folder / name / "SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def refusal(folder: Path, name: str = "skills/threat") -> str:
    with pytest.raises(ManifestError) as caught:
        read_skill(folder, name)
    return str(caught.value).replace(str(folder), "team")


def test_a_skill_is_its_name_when_it_helps_and_what_to_do(tmp_path: Path) -> None:
    write(tmp_path)
    skill = read_skill(tmp_path, "skills/threat")
    assert (skill.name, skill.description) == ("threat", "When code takes input.")
    assert skill.body == "# Threat\n\nLook for sinks."


def test_windows_line_ends_and_a_byte_order_mark_are_no_matter(tmp_path: Path) -> None:
    write(tmp_path, b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert read_skill(tmp_path, "skills/threat").name == "threat"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("# Threat\n", "team/skills/threat/SKILL.md:1: has no front matter; a SKILL.md begins with '---'"),
        ("---\nname: x\n", "team/skills/threat/SKILL.md:1: has no front matter"),
        ("---\nname: x\n---\nbody\n", "team/skills/threat/SKILL.md:1: the front matter has no 'description'"),
        ("---\nname: 1\ndescription: y\n---\nb\n", "team/skills/threat/SKILL.md:1: the front matter has no 'name'"),
        ("---\nname: x\ndescription: y\n---\n\n", "team/skills/threat/SKILL.md: holds no instructions below"),
        ("---\nname: x\n bad: y\n---\nbody\n", "team/skills/threat/SKILL.md:3: not valid YAML: "),
        (GOOD + "x" * MAX_SKILL_BYTES, "team/skills/threat/SKILL.md: is too large; a SKILL.md has at most 32,768"),
        (b"\xff\xfe", "team/skills/threat/SKILL.md: not UTF-8 text"),
    ],
)  # fmt: skip
def test_a_wrong_skill_is_told_what_is_missing(tmp_path: Path, text: str | bytes, sentence: str) -> None:
    write(tmp_path, text)
    assert refusal(tmp_path).startswith(sentence)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert refusal(tmp_path) == "team/skills/threat/SKILL.md: is not a file"


@pytest.mark.parametrize("linked", ["skills", "skills/threat", "skills/threat/SKILL.md"])
def test_a_link_on_the_way_is_refused(tmp_path: Path, linked: str) -> None:
    elsewhere, team = tmp_path / "elsewhere", tmp_path / "team"
    write(elsewhere)
    (team / linked).parent.mkdir(parents=True)
    (team / linked).symlink_to(elsewhere / linked)
    with pytest.raises(ManifestError, match=f"{linked}: is a link or leads upwards"):
        read_skill(team, "skills/threat")


def test_a_path_that_leads_upwards_is_refused(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "team").mkdir()
    with pytest.raises(ManifestError, match="leads upwards"):
        read_skill(tmp_path / "team", "../skills/threat")


@pytest.mark.parametrize("role", ["coder", "reviewer", "lead"])
def test_seats_that_judge_or_write_are_told_every_skill_below_their_own_instructions(role: str) -> None:
    prompts = prompt_environment()
    skills = [{"name": name, "description": "When.", "body": f"Do {name}."} for name in ("one", "two")]
    team = make_team(texts={"skills": skills})

    text = instructions(lambda name, **values: prompts.get_template(name).render(**values), role, team)

    own = prompts.get_template(f"{role}.md").render()
    assert text.startswith(own)
    assert '<skill name="one">\nWhen.\n\nDo one.\n</skill>' in text
    assert text.index("Do one.") < text.index("Do two.")


def test_consensus_and_teams_without_skills_are_told_nothing_more() -> None:
    prompts = prompt_environment()

    def render(name: str, **values: object) -> str:
        return prompts.get_template(name).render(**values)

    skilled = make_team(texts={"skills": [{"name": "one", "description": "d", "body": "b"}]})
    assert instructions(render, "consensus", skilled) == render("consensus.md")
    assert instructions(render, "coder", make_team()) == render("coder.md")


def test_the_skills_of_a_team_are_read_anew_when_they_change(tmp_path: Path) -> None:
    skill = write(tmp_path)
    team = tmp_path / "mine.yaml"
    text = (built_in_folder() / "consensus.yaml").read_text(encoding="utf-8")
    team.write_text(text + "skills: [skills/threat]\n", encoding="utf-8")
    assert [skill.body for skill in read_team(team).team.texts.skills] == ["# Threat\n\nLook for sinks."]
    skill.write_text(GOOD.replace("sinks", "sources"), encoding="utf-8")
    assert [skill.body for skill in read_team(team).team.texts.skills] == ["# Threat\n\nLook for sources."]
    assert "texts" not in read_team(team).team.manifest()


def test_a_missing_skill_is_told_at_its_line_in_the_team_file(tmp_path: Path) -> None:
    team = tmp_path / "mine.yaml"
    text = (built_in_folder() / "consensus.yaml").read_text(encoding="utf-8")
    lines = text.count("\n")
    team.write_text(text + "skills:\n- skills/gone\n- skills/lost\n", encoding="utf-8")
    with pytest.raises(ManifestError) as caught:
        read_team(team)
    first, second = caught.value.faults
    assert first.startswith(f"{team}:{lines + 2}: skills.0: {tmp_path}/skills/gone/SKILL.md: is not a file")
    assert second.startswith(f"{team}:{lines + 3}: skills.1: ")


def test_a_team_of_old_has_no_library() -> None:
    assert make_team().texts == Library()
