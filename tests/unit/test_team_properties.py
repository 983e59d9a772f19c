"""Whatever a team file holds: a team, or sentences that begin with the file and a line."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.factories import team_data
from workers.errors import ManifestError
from workers.teams import TeamFile, check_team

#: What YAML writes and reads again, keys that mean something among them.
WORDS = st.sampled_from(
    [*team_data(), "models", "policy", "quorum", "heads", "skills", "mcp", "retrieval", "a/b", ""]
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | WORDS | st.dates()
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=12,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place of a document, itself first."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, one in inner for place in places(one, (*path, key)))]


def put(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    target = document
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = value
    return document


def judged(content: bytes) -> TeamFile | list[str]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "team.yaml"
        path.write_bytes(content)
        try:
            return check_team(path)
        except ManifestError as error:
            return [line.replace(str(path), "team.yaml") for line in str(error).splitlines()]


def is_told(found: TeamFile | list[str]) -> bool:
    return isinstance(found, TeamFile) or all(re.match(r"team\.yaml(:\d+)?: ?\S", line) for line in found)


@given(st.data())
def test_any_value_at_any_place_of_a_good_team_is_a_team_or_told_with_its_place(data: st.DataObject) -> None:
    place = data.draw(st.sampled_from(places(team_data())))
    changed = put(team_data(), place, data.draw(VALUES))
    found = judged(yaml.safe_dump(changed, allow_unicode=True).encode("utf-8", errors="surrogatepass"))
    assert is_told(found), found


@given(
    st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass"))
)
def test_any_bytes_are_a_team_or_a_sentence(content: bytes) -> None:
    found = judged(content)
    assert is_told(found), found


@settings(max_examples=200)
@given(st.text(alphabet="&*!<>|-:?{}[],#%@`\"' \n\tab1~", max_size=60))
def test_any_text_of_what_yaml_gives_a_meaning_is_a_team_or_a_sentence(text: str) -> None:
    found = judged(text.encode())
    assert is_told(found), found
