"""The pages of teams."""

from __future__ import annotations

from pathlib import Path

import httpx

from tests.api.test_web_runs import page, words

WRONG = """\
name: wrong
description: a team with faults
coder:
  models: [local/alder-1]
reviewers:
  left: {models: [local/birch-1], max_tokens: many}
  right: {models: [local/cedar-1]}
mcp:
  - name: docs
    url: https://docs.internal/mcp
    headers:
      Authorization: Bearer s3cret-value
    tools: [find]
consensus: {models: [local/birch-2]}
lead: {models: [local/cedar-2]}
colour: blue
"""


async def test_the_list_shows_every_team_and_whom_it_asks(client: httpx.AsyncClient) -> None:
    shown = words(await page(client, "/teams"))
    assert "consensus version 1 The default team." in shown
    assert "5 reviewers: rigor, edges, safety, spec, craft" in shown


async def test_a_team_is_shown_with_its_chains_and_policy(client: httpx.AsyncClient) -> None:
    shown = words(await page(client, "/teams/consensus-teste"))
    assert "Spec, code and tests." in shown
    assert "also consensus-testé" in shown
    assert "openai/ gpt-6.2-sol" in shown
    assert "heads 2, families 2" in shown
    assert "memory of the cage, MiB 512" in shown


async def test_a_team_is_found_by_its_alias(client: httpx.AsyncClient) -> None:
    assert "Spec, code and tests." in words(await page(client, "/teams/consensus-testé"))


async def test_a_wrong_file_shows_each_fault_with_its_line(
    client: httpx.AsyncClient, team_folder: Path
) -> None:
    (team_folder / "wrong.yaml").write_text(WRONG, encoding="utf-8")
    assert "3 faults" in words(await page(client, "/teams"))
    text = await page(client, "/teams/wrong")
    shown = words(text)
    assert "line 6 : reviewers.left.max_tokens" in shown
    assert "line 16 : colour" in shown
    assert text.count("line--claimed") == 3
    assert 'href="#fault-F1"' in text


async def test_a_value_where_a_variable_should_be_named_is_not_shown(
    client: httpx.AsyncClient, team_folder: Path
) -> None:
    (team_folder / "wrong.yaml").write_text(WRONG, encoding="utf-8")
    text = await page(client, "/teams/wrong")
    source = text[text.index('id="source"') :]
    assert "Authorization" in source
    assert "[find]" in words(source)
    assert "must be the name of a variable that begins with CONSENSUS_MCP_" in text
    for shown in (text, (await client.get("/v1/teams")).text):
        assert "s3cret" not in shown


async def test_a_file_that_is_no_yaml_hides_no_other_team(
    client: httpx.AsyncClient, team_folder: Path
) -> None:
    (team_folder / "broken.yaml").write_bytes(b"name: [\xff")
    assert "consensus version 1" in words(await page(client, "/teams"))
    assert "1 fault" in words(await page(client, "/teams/broken"))
