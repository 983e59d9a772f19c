"""A stranger adds a team by one file, and the built-in teams' examples run."""

from __future__ import annotations

import json

from tests.e2e.conftest import ROOT, Installation, make_installation
from tests.tool_server import COMMAND

EXAMPLES = [
    json.loads(line) for line in (ROOT / "examples/teams.jsonl").read_text(encoding="utf-8").splitlines()
]

NOTARY = """\
name: notary
aliases: [notaire-juré]
description: Two readers who disagree on principle.
coder: {models: [simulator/sim-alder-large]}
reviewers:
  left: {models: [simulator/sim-birch-large], persona: You look at paths.}
  right: {models: [simulator/sim-cedar-large]}
consensus: {models: [simulator/sim-birch-small]}
lead: {models: [simulator/sim-cedar-small]}
skills: [seals]
retrieval: {globs: ["laws/*.md"]}
mcp: [{name: glossary, command: COMMAND, tools: [lookup]}]
policy: {refute: false, gate: off}
"""


def test_a_stranger_adds_a_team_by_one_file(installation: Installation) -> None:
    folder = installation.home / "strangers"
    (folder / "seals").mkdir(parents=True)
    (folder / "laws").mkdir()
    (folder / "notary.yml").write_text(NOTARY.replace("COMMAND", json.dumps(COMMAND)), encoding="utf-8")
    (folder / "seals/SKILL.md").write_text(
        "---\nname: seals\ndescription: Wax.\n---\nCheck the seal.\n", "utf-8"
    )
    (folder / "laws/one.md").write_text("A session token needs a signature.\n", encoding="utf-8")
    there = make_installation(installation.home, CONSENSUS_TEAMS=str(folder))
    spec = next(line["spec"] for line in EXAMPLES if line["id"] == "session-token")

    validated = there.consensus("teams", "validate", str(folder))
    assert (validated.returncode, validated.stdout.startswith("good ")) == (0, True)
    done = there.consensus("run", "-", "--team", "notaire-jure", "--json", stdin=spec.encode())

    assert done.returncode in (0, 1), done.stderr
    detail = json.loads(done.stdout)
    assert (detail["team"], detail["simulated"], detail["outcome"]) == ("notary", True, "accepted")
    # Coder, two reviewers, consensus and lead, one call each.
    assert detail["usage"]["calls"] == 5


def test_every_fault_of_a_stranger_s_file_is_printed(installation: Installation) -> None:
    path = installation.home / "notary.yaml"
    text = NOTARY.replace("COMMAND", '["x"]').replace("simulator/sim-alder-large", "simulate/sim-alder-large")
    path.write_text(text, encoding="utf-8")
    done = installation.consensus("teams", "validate", "notary.yaml")
    assert (done.returncode, done.stdout.count("\n")) == (3, 1)
    assert "notary.yaml:10: skills.0: " in done.stdout
    text = text.replace("skills: [seals]\n", "").replace("refute: false", "refuse: false, rounds: 9")
    path.write_text(text, encoding="utf-8")
    done = installation.consensus("teams", "validate", "notary.yaml")
    assert done.returncode == 3
    assert (
        "bad  notary.yaml:12: policy.refuse: no such field; allowed here: coder_tests, context_tokens, gate, "
        in done.stdout
    )
    assert "bad  notary.yaml:12: policy.rounds: must be less than or equal to 5" in done.stdout


def test_the_example_of_every_built_in_team_runs_in_the_demo(installation: Installation) -> None:
    assert {line["team"] for line in EXAMPLES} == {"consensus-testé", "pentest", "sre", "sast-triage"}

    done = installation.consensus("demo", str(ROOT / "examples/teams.jsonl"))

    assert done.returncode == 0, done.stderr
    for line in EXAMPLES:
        assert f"{line['id']}: verdict: " in done.stdout
    assert "degraded" not in done.stdout
    assert "4 runs ended: " in done.stdout
