"""What a team brings along stays below its own folder, and no token leaves in the clear."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from workers.core.equipment import McpServer, Retrieval

NOT_RELATIVE = "is not a relative path with '/'; paths begin in the team file's folder"
LEAVES = "leaves the team file's folder; put what it names beside the team"


def refusal(model: type[Any], **values: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        model(**values)
    # What is left of the list without the wrong item may be too short, which is told after it.
    return str(caught.value.errors()[0]["msg"]).removeprefix("Value error, ")


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/etc", NOT_RELATIVE),
        ("~/x", NOT_RELATIVE),
        ("a\\b", NOT_RELATIVE),
        ("C:/x", NOT_RELATIVE),
        ("z:x", NOT_RELATIVE),
        ("..", LEAVES),
        ("../a", LEAVES),
        ("a/../b", LEAVES),
        ("a/..", LEAVES),
    ],
)
def test_a_path_that_leaves_the_team_s_folder_is_refused(path: str, why: str) -> None:
    assert refusal(Retrieval, globs=[path]) == f"{path!r} {why}"


@pytest.mark.parametrize("path", ["a", "a/b", "**/*.md", "a..b/c", "...", "docs/C:x", ".hidden/x", "1:x"])
def test_a_path_below_it_is_taken(path: str) -> None:
    assert Retrieval(globs=(path,)).globs == (path,)


def test_a_refusal_shows_sixty_characters_of_a_path() -> None:
    assert refusal(Retrieval, globs=["/" + "x" * 90]) == f"'/{'x' * 59}' {NOT_RELATIVE}"
    assert refusal(Retrieval, globs=["../" + "x" * 90]) == f"'../{'x' * 57}' {LEAVES}"


SERVER: dict[str, Any] = {"name": "docs", "tools": ["find"]}
TOKEN = {"Authorization": "CONSENSUS_MCP_TOKEN"}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, "needs either a command or a url, and not both"),
        ({"command": ["x"], "url": "https://a"}, "needs either a command or a url, and not both"),
        ({"command": ["x"], "headers": TOKEN}, "is started by a command and takes no headers"),
        (
            {"url": "http://a.example/x", "headers": TOKEN},
            "would get its headers in the clear; its url must be https",
        ),
        (
            {"url": "http://localhost.example/x", "headers": TOKEN},
            "would get its headers in the clear; its url must be https",
        ),
    ],
)
def test_a_server_is_refused_with_what_is_wrong(changes: dict[str, Any], why: str) -> None:
    assert refusal(McpServer, **SERVER, **changes) == f"the server 'docs' {why}"


@pytest.mark.parametrize(
    "changes",
    [
        {"command": ["x"]},
        {"url": "http://a.example/x"},
        {"url": "https://a.example/x", "headers": TOKEN},
        {"url": "http://127.0.0.1:1/x", "headers": TOKEN},
        {"url": "http://localhost/x", "headers": TOKEN},
        {"url": "http://[::1]/x", "headers": TOKEN},
    ],
)
def test_a_token_travels_by_tls_or_stays_on_the_machine(changes: dict[str, Any]) -> None:
    assert McpServer(**SERVER, **changes).name == "docs"
