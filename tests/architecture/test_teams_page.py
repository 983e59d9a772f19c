"""docs/teams.md is held against the manifest: every field, and an example that is a team."""

from __future__ import annotations

import json
import re
from pathlib import Path

from pydantic_core import PydanticUndefined

from workers.core.equipment import McpServer, Retrieval
from workers.core.team import Policy, Quorum, Sandbox, Seat, Strict, Team
from workers.teams import check_team

PAGE = Path(__file__).parents[2] / "docs/teams.md"
#: Prefix of the fields on the page → the part of the manifest they belong to.
PARTS: dict[str, type[Strict]] = {
    "": Team,
    "SEAT.": Seat,
    "policy.": Policy,
    "policy.quorum.": Quorum,
    "sandbox.": Sandbox,
    "retrieval.": Retrieval,
    "mcp.": McpServer,
}


def rows() -> list[str]:
    """The table of fields as the code has it."""
    return [
        f"| `{prefix}{name}` | {_default(field.get_default())} | {field.description} |"
        for prefix, part in PARTS.items()
        for name, field in part.model_fields.items()
    ]


def _default(value: object) -> str:
    if value is PydanticUndefined:
        return "required"
    if value is None or value in ((), ""):
        return "none"
    return "see below" if isinstance(value, Strict) else f"`{json.dumps(value)}`"


def test_the_page_has_every_field_with_its_default_and_meaning() -> None:
    written = re.findall(r"^\| `.*$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert written == rows()


def test_the_example_on_the_page_is_a_team(tmp_path: Path) -> None:
    example = PAGE.read_text(encoding="utf-8").split("```yaml\n")[1].split("```")[0]
    (tmp_path / "notary.yaml").write_text(example, encoding="utf-8")
    skill = tmp_path / "skills/sealing/SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: sealing\ndescription: Wax.\n---\nCheck the seal.\n", encoding="utf-8")
    (tmp_path / "laws/old").mkdir(parents=True)
    (tmp_path / "laws/old/one.md").write_text("One.", encoding="utf-8")

    team = check_team(tmp_path / "notary.yaml").team

    assert team.answers_to("notaire-jure")
    assert list(team.texts.documents) == ["laws/old/one.md"]
    used = set(re.findall(r"^(\w+):", example, re.MULTILINE))
    # The page shows every field of a team but those that only one kind of team needs.
    assert set(Team.model_fields) - used == {"sandbox", "never_dismiss_cwe"}
