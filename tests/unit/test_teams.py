"""Team files: a bad one is told in one sentence with file, line, field and what is allowed."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import yaml

from tests.factories import team_data
from workers.errors import ManifestError, UnknownTeamError
from workers.providers.prices import listing_of
from workers.teams import (
    MAX_TEAM_BYTES,
    built_in_folder,
    load_team,
    load_teams,
    prompt_environment,
    read_team,
    team_files,
)


@pytest.mark.parametrize("path", team_files([]), ids=lambda path: path.stem)
def test_a_shipped_team_names_no_model_that_has_no_price_or_goes_away(path: Path) -> None:
    for place in read_team(path).team.seats():
        for entry in place.seat.models:
            listing = listing_of(*entry.split("/", 1))
            assert listing is not None, f"{place.name}: {entry} has no price"
            assert not listing.is_deprecated, f"{place.name}: {entry} is going away"


TEXT = """\
name: small
description: a team for tests
coder:
  models: [local/alder-1]
reviewers:
  left:
    models:
      - local/birch-1
      - local/cedar-1
  right: {models: [local/cedar-1]}
consensus: {models: [local/birch-2]}
lead: {models: [local/cedar-2]}
policy:
  quorum: {heads: 2, families: 2}
  retries: 1
"""


def refusal(folder: Path, body: str | bytes) -> str:
    """The sentence, with the file's name for its path."""
    path = folder / "team.yaml"
    path.write_bytes(body.encode() if isinstance(body, str) else body)
    started = time.thread_time()
    with pytest.raises(ManifestError) as caught:
        read_team(path)
    assert time.thread_time() - started < 1
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert len(sentence) < 600
    return sentence.replace(str(path), "team.yaml")


def test_the_example_is_right_before_it_is_made_wrong(tmp_path: Path) -> None:
    path = tmp_path / "team.yaml"
    path.write_text(TEXT, encoding="utf-8")
    assert read_team(path).team.name == "small"
    path.write_bytes(b"\xef\xbb\xbf" + TEXT.encode().replace(b"\n", b"\r\n"))
    assert read_team(path).team.name == "small"


@pytest.mark.parametrize("path", sorted(built_in_folder().glob("*.yaml")), ids=lambda path: path.stem)
def test_every_built_in_team_is_valid_and_named_after_its_file(path: Path) -> None:
    assert read_team(path).team.name == path.stem


SEAT = "max_tokens, models, persona, stream, temperature, timeout_seconds"


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        # an unknown field, at three depths
        (
            "description:",
            "colour: red\ndescription:",
            "team.yaml:2: colour: no such field; allowed here: "
            "coder, consensus, control, description, ",
        ),
        (
            "  retries: 1",
            "  retry: 1",
            "team.yaml:15: policy.retry: no such field; allowed here: coder_tests, gate, max_proofs, ",
        ),
        (
            "{heads: 2, families: 2}",
            "{heads: 2, family: 2}",
            "team.yaml:14: policy.quorum.family: no such field; allowed here: families, heads",
        ),
        (
            "  right: {models: [local/cedar-1]}",
            "  right:\n    models: [local/cedar-1]\n    model: x",
            f"team.yaml:12: reviewers.right.model: no such field; allowed here: {SEAT}",
        ),
        # missing
        ("lead: {models: [local/cedar-2]}\n", "", "team.yaml:1: lead: is missing"),
        ("{models: [local/birch-2]}", "{temperature: 0}", "team.yaml:11: consensus.models: is missing"),
        # of the wrong type or size
        ("  retries: 1", "  retries: often", "team.yaml:15: policy.retries: Input should be a valid integer"),
        ("  retries: 1", "  retries: 11", "team.yaml:15: policy.retries: Input should be less than or equal to 10"),
        (
            "  models: [local/alder-1]",
            "  models: local/alder-1",
            "team.yaml:4: coder.models: Input should be a valid tuple",
        ),
        ("{models: [local/birch-2]}", "local/birch-2", "team.yaml:11: consensus: Input should be a valid"),
        (
            "coder:\n  models: [local/alder-1]",
            "coder:",
            "team.yaml:3: coder: Input should be a valid dictionary or instance of Seat",
        ),
        # bad words
        (
            "      - local/cedar-1",
            "      - cedar",
            "team.yaml:9: reviewers.left.models.1: 'cedar' is not of the form: provider/model, "
            "for example openai/gpt-5",
        ),
        (
            "name: small",
            "name: Big Team",
            "team.yaml:1: name: 'Big Team' is not of the form: small letters, digits, '-'",
        ),
        ("  left:", "  Left:", "team.yaml:6: reviewers.Left: 'Left' is not of the form: small letters"),
        ("  left:", "  lead:", "team.yaml:5: reviewers: 'lead' is the name of another seat"),
        # rules between fields
        (
            "      - local/birch-1",
            "      - local/cedar-9",
            "team.yaml:5: reviewers: all reviewers are of the model family 'cedar'; "
            "a panel needs at least two families",
        ),
        (
            "      - local/birch-1",
            "      - local/alder-1",
            "team.yaml:7: reviewers.left.models: reviewer 'left' has the coder's model local/alder-1; "
            "give it another first choice",
        ),
        (
            "{heads: 2, families: 2}",
            "{heads: 3, families: 2}",
            "team.yaml:14: policy.quorum.heads: is 3 but there are 2 reviewers",
        ),
        # what YAML itself lets pass
        (
            "  retries: 1",
            "  retries: 1\n  retries: 5",
            "team.yaml:16: retries: stands twice, first on line 15; keep one",
        ),
        ("name: small", "name: small\nname: other", "team.yaml:2: name: stands twice, first on line 1"),
        ("name: small", "name: 2026-13-45", "team.yaml:1: not valid YAML: '2026-13-45' is not a valid timestamp"),
        ("name: small", "name: !!python/object:os.system x", "team.yaml:1: not valid YAML: could not determine"),
        ("name: small", "name: !!int x", "team.yaml:1: not valid YAML: 'x' is not a valid int"),
        ("name: small", "version: " + "9" * 5000, "team.yaml:1: not valid YAML: '999"),
        ("  retries: 1", "  retries: 1\n bad: x", "team.yaml:16: not valid YAML: "),
        ("  retries: 1", "  retries: [1", "team.yaml:16: not valid YAML: while parsing a flow sequence"),
        ("  retries: 1", "\tretries: 1", "team.yaml:15: not valid YAML: while scanning"),
        ("  retries: 1", "  retries: *gone", "team.yaml:15: not valid YAML: found undefined alias 'gone'"),
        ("  retries: 1\n", "  retries: 1\n---\nname: b\n", "team.yaml:16: not valid YAML: expected a single document"),
        ("name: small", "name: a\x00b", "team.yaml:1: not valid YAML: special characters are not allowed"),
        ("name: small", "? [a, b]\n: c\nname: small", "team.yaml:1: not valid YAML: while constructing a mapping"),
        ("name: small", "1: x\nname: small", "team.yaml:1: "),
    ],
)  # fmt: skip
def test_a_wrong_team_is_told_where_and_what_would_be_right(
    tmp_path: Path, old: str, new: str, sentence: str
) -> None:
    assert TEXT.count(old) == 1 or old == "      - local/cedar-1"
    assert refusal(tmp_path, TEXT.replace(old, new)).startswith(sentence)


@pytest.mark.parametrize("body", ["", "# nothing\n", "- a\n- b\n", "just words\n", "42\n", "null\n"])
def test_what_is_not_a_mapping_is_told_what_a_team_is(tmp_path: Path, body: str) -> None:
    assert (
        refusal(tmp_path, body)
        == "team.yaml:1: a team is a mapping with name, coder, reviewers, consensus and lead"
    )


def laughs(levels: int, pattern: str) -> str:
    lines = ["l0: &l0 [ha, ha]" if "<<" not in pattern else "l0: &l0 {ha: 1}"]
    lines += [
        f"l{level}: &l{level} " + pattern.format(", ".join([f"*l{level - 1}"] * 10))
        for level in range(1, levels)
    ]
    return "\n".join(lines) + f"\nname: *l{levels - 1}\n"


def test_aliases_that_unfold_without_end_are_refused_at_once(tmp_path: Path) -> None:
    too_many = "team.yaml:1: its aliases unfold to more than 20000 values"
    assert refusal(tmp_path, laughs(9, "[{}]")) == too_many
    assert refusal(tmp_path, laughs(9, "{{<<: [{}]}}")) == too_many
    assert refusal(tmp_path, "a: &a [*a, *a]\n") == too_many
    assert refusal(tmp_path, "&a {b: *a}\n") == too_many


def test_an_honest_alias_is_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "team.yaml"
    path.write_text(
        TEXT.replace("consensus: {", "consensus: &s {").replace(
            "lead: {models: [local/cedar-2]}", "lead: *s"
        ),
        encoding="utf-8",
    )
    assert read_team(path).team.lead == read_team(path).team.consensus


@pytest.mark.parametrize("body", ["[" * 5000, "a: " + "{b: " * 5000, "- " * 5000, "x:\n" + "? " * 3000])
def test_deep_nesting_is_one_sentence(tmp_path: Path, body: str) -> None:
    assert refusal(tmp_path, body).startswith("team.yaml:1: ")


def test_a_large_or_binary_file_is_refused_before_it_is_parsed(tmp_path: Path) -> None:
    large = refusal(tmp_path, TEXT + "#" * MAX_TEAM_BYTES)
    assert large == "team.yaml: is too large; a team file has at most 262,144 bytes"
    assert refusal(tmp_path, b"\x89PNG\r\n\x1a\n") == "team.yaml: not UTF-8 text (byte 0)"
    assert refusal(tmp_path, TEXT.encode("utf-16")) == "team.yaml: not UTF-8 text (byte 0)"


def test_what_is_no_file_is_never_opened(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "gone.yaml", Path("/dev/zero")):
        with pytest.raises(ManifestError, match="is not a file"):
            read_team(place)


def test_a_team_of_one_s_own_replaces_the_built_in_one(tmp_path: Path) -> None:
    own = tmp_path / "mine.yaml"
    own.write_text(TEXT.replace("name: small", "name: consensus"), encoding="utf-8")
    assert load_team("consensus", [tmp_path]).path == own
    assert load_team("consensus", [own]).path == own
    assert load_team("consensus").path == built_in_folder() / "consensus.yaml"
    assert next(entry for entry in load_teams([tmp_path]) if entry.team.name == "consensus").path == own


def test_a_bad_neighbour_does_not_hide_a_good_team(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("{", encoding="utf-8")
    (tmp_path / "bomb.yaml").write_text(laughs(9, "[{}]"), encoding="utf-8")
    (tmp_path / "good.yaml").write_text(TEXT, encoding="utf-8")
    assert load_team("small", [tmp_path]).path.name == "good.yaml"


def test_an_unknown_team_is_told_which_there_are(tmp_path: Path) -> None:
    with pytest.raises(UnknownTeamError) as close:
        load_team("consensos")
    assert str(close.value).startswith(
        "there is no team 'consensos'; did you mean 'consensus'? Known teams: consensus"
    )
    with pytest.raises(UnknownTeamError) as far:
        load_team("zzz" * 100)
    assert str(far.value).startswith(f"there is no team {'zzz' * 26 + 'zz'!r}. Known teams: consensus")


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="no such team file or folder"):
        team_files([tmp_path / "gone"])


def test_plain_data_and_the_file_make_the_same_team(tmp_path: Path) -> None:
    path = tmp_path / "team.yaml"
    path.write_text(yaml.safe_dump(team_data()), encoding="utf-8")
    assert read_team(path).team.as_data()["reviewers"].keys() == {"left", "right"}


def test_a_prompt_that_is_not_there_or_lacks_a_variable_is_an_error() -> None:
    environment = prompt_environment()
    with pytest.raises(Exception, match=r"nope\.md"):
        environment.get_template("nope.md")
    with pytest.raises(Exception, match="'persona' is undefined"):
        environment.get_template("persona.md").render()
