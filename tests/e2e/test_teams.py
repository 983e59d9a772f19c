"""A stranger adds a team by one file, and the built-in teams' examples run."""

from __future__ import annotations

import json

from tests.e2e.conftest import ROOT, Installation, make_installation

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
policy: {refute: false, gate: "off"}
"""


def test_a_stranger_adds_a_team_by_one_file(installation: Installation) -> None:
    folder = installation.home / "strangers"
    (folder / "seals").mkdir(parents=True)
    (folder / "laws").mkdir()
    (folder / "notary.yaml").write_text(NOTARY, encoding="utf-8")
    (folder / "seals/SKILL.md").write_text(
        "---\nname: seals\ndescription: Wax.\n---\nCheck the seal.\n", "utf-8"
    )
    (folder / "laws/one.md").write_text("A session token needs a signature.\n", encoding="utf-8")
    there = make_installation(installation.home, CONSENSUS_TEAMS=str(folder))
    spec = next(line["spec"] for line in EXAMPLES if line["id"] == "session-token")

    assert there.consensus("teams", "validate").returncode == 0
    done = there.consensus("run", "-", "--team", "notaire-jure", "--json", stdin=spec.encode())

    assert done.returncode in (0, 1), done.stderr
    detail = json.loads(done.stdout)
    assert (detail["team"], detail["simulated"], detail["outcome"]) == ("notary", True, "accepted")
    # Coder, two reviewers, consensus and lead, one call each.
    assert detail["usage"]["calls"] == 5


def test_the_example_of_every_built_in_team_runs_in_the_demo(installation: Installation) -> None:
    assert {line["team"] for line in EXAMPLES} == {"consensus-testé", "pentest", "sre", "sast-triage"}

    done = installation.consensus("demo", str(ROOT / "examples/teams.jsonl"))

    assert done.returncode == 0, done.stderr
    for line in EXAMPLES:
        assert f"{line['id']}: verdict: " in done.stdout
    assert "degraded" not in done.stdout
    assert "4 runs ended: " in done.stdout
