"""Team files: a bad one is told in one sentence with file, line, field and what is allowed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.cpu_time import within_cpu_seconds
from tests.factories import team_data
from workers.errors import ManifestError, UnknownTeamError
from workers.providers.prices import listing_of
from workers.teams import (
    MAX_TEAM_BYTES,
    built_in_folder,
    check_team,
    expand,
    load_team,
    load_teams,
    prompt_environment,
    read_team,
    schema_text,
    team_files,
)


@pytest.mark.parametrize("path", team_files([]), ids=lambda path: path.stem)
def test_a_shipped_team_names_no_model_that_has_no_price_or_goes_away(path: Path) -> None:
    for place, seat in check_team(path).team.chains():
        for entry in seat.models:
            listing = listing_of(*entry.split("/", 1))
            assert listing is not None, f"{place}: {entry} has no price"
            assert not listing.is_deprecated, f"{place}: {entry} is going away"
        assert [entry for entry in seat.models if entry.startswith("simulator/")] == [seat.models[-1]]


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

    def read() -> str:
        with pytest.raises(ManifestError) as caught:
            read_team(path)
        return str(caught.value)

    sentence = within_cpu_seconds(1, read)
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
            "aliases, coder, consensus, control, description, lead, mcp, name, never_dismiss_cwe, policy, prover, "
            "refuter, retrieval, reviewers, sandbox, skills, version",
        ),
        (
            "  retries: 1",
            "  retry: 1",
            "team.yaml:15: policy.retry: no such field; allowed here: coder_tests, context_tokens, gate, "
            "injection_severity, max_proofs, max_refutations, passes, quorum, refute, retries, rounds, threshold",
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
        ("lead: {models: [local/cedar-2]}\n", "", "team.yaml:1: lead: is missing (fixes, rules on claims and signs)"),
        ("{models: [local/birch-2]}", "{temperature: 0}", "team.yaml:11: consensus.models: is missing (prov"),
        # of the wrong type or size
        ("  retries: 1", "  retries: often", "team.yaml:15: policy.retries: must be a whole number"),
        ("  retries: 1", "  retries: 11", "team.yaml:15: policy.retries: must be less than or equal to 10"),
        (
            "  models: [local/alder-1]",
            "  models: local/alder-1",
            "team.yaml:4: coder.models: must be a list",
        ),
        ("{models: [local/birch-2]}", "local/birch-2", f"team.yaml:11: consensus: must be a mapping with {SEAT}"),
        (
            "coder:\n  models: [local/alder-1]",
            "coder:",
            f"team.yaml:3: coder: must be a mapping with {SEAT}",
        ),
        # bad words
        (
            "      - local/cedar-1",
            "      - cedar",
            "team.yaml:9: reviewers.left.models.1: 'cedar' is not of the form: provider/model, "
            "for example openai/gpt-6-luna",
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
        (
            "name: small",
            "name: small\nprover: {models: [local/oak-1]}\ncontrol: {models: [local/oak-2]}",
            "team.yaml:3: control.models: the control is of the prover's model family 'oak'; "
            "give it another first choice",
        ),
        # the words of a closed list, and what is looked for beside the file
        (
            "  retries: 1",
            "  retries: 1\n  gate: maybe",
            "team.yaml:16: policy.gate: must be 'auto', 'required' or 'off'",
        ),
        (
            "name: small",
            "name: small\nnever_dismiss_cwe: [78]",
            "team.yaml:2: never_dismiss_cwe.0: must be a text",
        ),
        (
            "name: small",
            "name: small\nnever_dismiss_cwe:\n- CWE-78\n- cwe79",
            "team.yaml:4: never_dismiss_cwe.1: 'cwe79' is not of the form: CWE and a number, for example CWE-78",
        ),
        (
            "name: small",
            "name: small\nskills: [a/../../b]",
            "team.yaml:2: skills.0: 'a/../../b' leaves the team file's folder; put what it names beside the team",
        ),
        (
            "name: small",
            "name: small\nretrieval: {globs: [/etc/*]}",
            "team.yaml:2: retrieval.globs.0: '/etc/*' is not a relative path with '/'; paths begin in the team "
            "file's folder",
        ),
        (
            "name: small",
            "name: small\nmcp:\n- {name: x, tools: [a]}",
            "team.yaml:3: mcp.0: the server 'x' needs either a command or a url, and not both",
        ),
        (
            "name: small",
            "name: small\nmcp:\n- {name: x, tools: [a], command: [a], url: http://b}",
            "team.yaml:3: mcp.0: the server 'x' needs either a command or a url, and not both",
        ),
        (
            "name: small",
            "name: small\nmcp: [{name: x, url: ftp://b, tools: []}]",
            "team.yaml:2: mcp.0.tools: must have at least 1 entry, not 0",
        ),
        (
            "name: small",
            "name: small\nmcp:\n- {name: x, url: http://b, tools: [a]}\n- {name: x, url: http://c, tools: [a]}",
            "team.yaml:4: mcp.1.name: 'x' is the name of another server; give it its own",
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


def test_every_fault_of_a_file_is_told_in_the_order_of_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "team.yaml"
    body = TEXT.replace("name: small", "name: small\nname: other\ncolour: red")
    body = body.replace("lead: {models", "lead: {temperature: hot, model")
    path.write_text(body.replace("  retries: 1", "  retries: 11"), encoding="utf-8")

    with pytest.raises(ManifestError) as caught:
        read_team(path)

    places = [fault.removeprefix(str(path)).split(": ")[:2] for fault in caught.value.faults]
    assert places == [
        [":2", "name"],
        [":3", "colour"],
        [":14", "lead.model"],
        [":14", "lead.models"],
        [":14", "lead.temperature"],
        [":17", "policy.retries"],
    ]
    assert str(caught.value).endswith("keep one (and 5 more: `consensus teams validate` lists them)")


def test_a_wrong_entry_is_one_fault_although_its_list_is_then_too_short(tmp_path: Path) -> None:
    path = tmp_path / "team.yaml"
    path.write_text(
        TEXT.replace("name: small", "name: small\nretrieval: {globs: [/etc/*]}"), encoding="utf-8"
    )

    with pytest.raises(ManifestError) as caught:
        read_team(path)

    (fault,) = caught.value.faults
    assert ":2: retrieval.globs.0: '/etc/*' is not a relative path" in fault


def test_every_broken_rule_is_told(tmp_path: Path) -> None:
    path = tmp_path / "team.yaml"
    body = TEXT.replace("      - local/birch-1", "      - local/alder-1").replace("heads: 2", "heads: 3")
    path.write_text(body, encoding="utf-8")
    with pytest.raises(ManifestError) as caught:
        read_team(path)
    assert [fault.split(": ")[1] for fault in caught.value.faults] == [
        "reviewers.left.models",
        "policy.quorum.heads",
    ]


def test_a_provider_that_nobody_knows_is_told_with_its_line_in_every_seat(tmp_path: Path) -> None:
    path = tmp_path / "team.yaml"
    body = TEXT.replace("      - local/cedar-1", "      - locale/cedar-1")
    path.write_text(body + "prover: {models: [locall/oak-1]}\n", encoding="utf-8")
    assert read_team(path).team.name == "small"
    with pytest.raises(ManifestError) as caught:
        check_team(path)
    first, second = caught.value.faults
    assert first.startswith(
        f"{path}:9: reviewers.left.models.1: the chain entry 'locale/cedar-1' names the provider"
    )
    assert second.startswith(f"{path}:16: prover.models.0: the chain entry 'locall/oak-1'")


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


@pytest.mark.cpu
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


@pytest.mark.parametrize(
    "name",
    ["tribunal-\u00e9t\u00e9", "tribunal-e\u0301te\u0301", "tribunal-ete", "Tribunal-\u00c9T\u00c9", "small"],
)
def test_a_team_answers_to_its_alias_however_its_accents_are_written(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("aliases: [tribunal-e\u0301t\u00e9]\n" + TEXT, encoding="utf-8")
    assert load_team(name, [tmp_path]).path == path
    assert load_team(name, [tmp_path]).team.aliases == ("tribunal-\u00e9t\u00e9",)


def test_a_bare_off_is_the_word_and_not_false(tmp_path: Path) -> None:
    path = tmp_path / "team.yaml"
    path.write_text(TEXT + "  gate: off\n", encoding="utf-8")
    assert read_team(path).team.policy.gate == "off"


def test_both_endings_of_a_yaml_file_count(tmp_path: Path) -> None:
    (tmp_path / "b.yml").write_text(TEXT, encoding="utf-8")
    (tmp_path / "c.txt").write_text(TEXT, encoding="utf-8")
    assert [path.name for path in team_files([tmp_path])][:1] == ["b.yml"]
    assert expand([tmp_path, tmp_path / "gone.yaml"]) == [tmp_path / "b.yml", tmp_path / "gone.yaml"]


def test_a_team_whose_skill_is_gone_is_told_so_by_name(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(TEXT + "skills: [gone]\n", encoding="utf-8")
    with pytest.raises(ManifestError, match=r"a\.yaml:16: skills\.0: .*gone/SKILL\.md: is not a file"):
        load_team("small", [tmp_path])
    assert load_team("consensus", [tmp_path]).team.name == "consensus"


def test_a_name_wins_over_another_team_s_alias(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "aliases: [small]\n" + TEXT.replace("name: small", "name: other"), "utf-8"
    )
    (tmp_path / "b.yaml").write_text(TEXT, encoding="utf-8")
    assert load_team("small", [tmp_path]).path.name == "b.yaml"


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


def test_the_schema_for_editors_is_that_of_the_code() -> None:
    written = (built_in_folder() / "schema.json").read_text(encoding="utf-8")
    assert written == schema_text(), "run `consensus teams schema > teams/schema.json`"


def test_the_schema_describes_every_field() -> None:
    schema = json.loads(schema_text())
    objects = [schema, *schema["$defs"].values()]
    silent = [
        f"{thing['title']}.{name}"
        for thing in objects
        for name, field in thing["properties"].items()
        if not field.get("description")
    ]
    assert silent == []
    assert all(thing["additionalProperties"] is False for thing in objects)


@pytest.mark.parametrize("path", sorted(built_in_folder().glob("*.yaml")), ids=lambda path: path.stem)
def test_a_built_in_team_names_its_schema_for_editors(path: Path) -> None:
    assert path.read_text(encoding="utf-8").startswith("# yaml-language-server: $schema=schema.json\n")


def test_a_prompt_that_is_not_there_or_lacks_a_variable_is_an_error() -> None:
    environment = prompt_environment()
    with pytest.raises(Exception, match=r"nope\.md"):
        environment.get_template("nope.md")
    with pytest.raises(Exception, match="'persona' is undefined"):
        environment.get_template("persona.md").render()
