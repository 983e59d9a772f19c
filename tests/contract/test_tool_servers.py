"""Tool servers, the real SDK on both sides: the same over stdio and over HTTP."""

from __future__ import annotations

import hashlib
import socket
import sys
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest
from pydantic import ValidationError

from tests.tool_server import COMMAND, served_over_http
from workers.core.equipment import McpServer
from workers.core.reply import ToolCall
from workers.gateway import LoopThread
from workers.tools.mcp import McpToolbox
from workers.tools.toolbox import Toolbox, ToolResult

Make = Callable[..., McpServer]
TOKEN = "t0ken-of-the-glossary"


@pytest.fixture(scope="module")
def toolbox() -> Iterator[Toolbox]:
    loop = LoopThread()
    yield McpToolbox(loop.submit, {"CONSENSUS_MCP_GLOSSARY": f"Bearer {TOKEN}", "CONSENSUS_MCP_ODD": "a\nb"})
    loop.close()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with served_over_http() as url:
        yield url


def manifest(**changes: Any) -> McpServer:
    """By default it may look up terms, twice."""
    return McpServer(**{"name": "glossary", "tools": ("lookup",), "max_calls": 2, **changes})


def stdio(**changes: Any) -> McpServer:
    return manifest(**{"command": COMMAND, **changes})


@pytest.fixture
def http(address: str) -> Make:
    return lambda **changes: manifest(**{"url": address, **changes})


@pytest.fixture(params=["stdio", "http"])
def make(request: pytest.FixtureRequest, http: Make) -> Make:
    return stdio if request.param == "stdio" else http


def call(name: str = "glossary__lookup", arguments: str = '{"term": "jitter"}') -> ToolCall:
    return ToolCall(call_id="c1", name=name, arguments=arguments)


def test_only_the_tools_on_the_list_are_shown(toolbox: Toolbox, make: Make) -> None:
    with toolbox.open([make()]) as tools:
        (spec,) = tools.specs
        assert (spec.name, spec.description) == ("glossary__lookup", "What a term means.")
        assert spec.parameters["required"] == ["term"]
        assert list(tools.missing) == []


def test_a_tool_that_is_not_on_the_list_cannot_be_called(toolbox: Toolbox, http: Make) -> None:
    with toolbox.open([http()]) as tools:
        result = tools.call(call("glossary__long", "{}"))
        assert (result.is_error, result.text) == (True, "there is no tool 'glossary__long'")


def test_a_call_returns_the_server_s_text(toolbox: Toolbox, make: Make) -> None:
    with toolbox.open([make()]) as tools:
        assert tools.call(call()) == ToolResult(
            server="glossary", tool="lookup", text="A random part of a pause."
        )


def test_a_seat_makes_no_more_calls_than_the_team_allows(toolbox: Toolbox, http: Make) -> None:
    with toolbox.open([http()]) as tools:
        assert tools.calls_left == 2
        assert not tools.call(call()).is_error
        assert not tools.call(call()).is_error
        assert tools.calls_left == 0
        third = tools.call(call())
        assert (third.is_error, third.text) == (
            True,
            "all 2 calls to glossary are used; answer with what you have",
        )
    with toolbox.open([http()]) as tools:
        assert tools.calls_left == 2, "the next seat has calls of its own"


def test_a_tool_that_does_not_exist_uses_the_allowance_up_too(toolbox: Toolbox, http: Make) -> None:
    with toolbox.open([http()]) as tools:
        for _ in range(5):
            tools.call(call("invented"))
        assert tools.calls_left == 0


def test_a_long_result_is_cut(toolbox: Toolbox, http: Make) -> None:
    with toolbox.open([http(tools=("long",), max_result_characters=100)]) as tools:
        text = tools.call(call("glossary__long", "")).text
        assert text == "x" * 100 + "\n(cut off: 5,000 characters in all, 100 are shown)"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ('{"term": "gone"}', "no such term: gone"),
        ('{"term": ', "the arguments are not JSON"),
        ("[1]", "the arguments must be a JSON object"),
        ("{}", "term"),
    ],
)
def test_a_call_that_goes_wrong_is_an_error_for_the_model(
    toolbox: Toolbox, http: Make, arguments: str, sentence: str
) -> None:
    with toolbox.open([http()]) as tools:
        result = tools.call(call(arguments=arguments))
        assert result.is_error
        assert sentence in result.text


def test_a_tool_that_the_server_lacks_is_missing_and_the_others_work(toolbox: Toolbox, http: Make) -> None:
    with toolbox.open([http(tools=("lookup", "translate"))]) as tools:
        assert [(missing.server, missing.cause) for missing in tools.missing] == [
            ("glossary", "has no tool 'translate'")
        ]
        assert not tools.call(call()).is_error


def test_a_tool_that_never_answers_is_given_up(toolbox: Toolbox, make: Make) -> None:
    with toolbox.open([make(tools=("hang", "lookup"), timeout_seconds=3)]) as tools:
        assert tools.call(call("glossary__hang", "{}")).is_error
        assert tools.calls_left == 1


def test_a_server_that_dies_costs_its_calls_and_nothing_else(toolbox: Toolbox) -> None:
    with toolbox.open([stdio(tools=("die", "lookup"))]) as tools:
        assert tools.call(call("glossary__die", "{}")).is_error
        after = tools.call(call())
        assert after.is_error
        assert "the call failed: " in after.text


def test_servers_that_are_not_there_are_missing_and_the_others_work(toolbox: Toolbox) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    servers = [
        stdio(),
        stdio(name="gone", command=("/nowhere/server",)),
        stdio(
            name="mute", command=(sys.executable, "-c", "import time; time.sleep(60)"), timeout_seconds=0.5
        ),
        stdio(name="babble", command=(sys.executable, "-c", "print('hello')"), timeout_seconds=5),
        McpServer(name="away", url=f"http://127.0.0.1:{port}/mcp", tools=("x",), timeout_seconds=5),
    ]
    with toolbox.open(servers) as tools:
        assert [spec.name for spec in tools.specs] == ["glossary__lookup"]
        assert sorted(missing.server for missing in tools.missing) == ["away", "babble", "gone", "mute"]
        causes = {missing.server: missing.cause for missing in tools.missing}
        assert causes["gone"] == "the worker finds no program '/nowhere/server'"
        assert causes["babble"].startswith(f"{sys.executable!r} ended or did not speak MCP: ")
        assert causes["mute"] == "did not answer within 0.5 s"
        assert causes["away"].startswith(f"http://127.0.0.1:{port}/mcp: ")
        assert not tools.call(call()).is_error


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://169.254.169.254/mcp", "169.254.169.254 is a link-local address"),
        ("http://[fe80::1]/mcp", "fe80::1 is a link-local address"),
        (
            "http://[::ffff:169.254.169.254]/mcp",
            "::ffff:a9fe:a9fe (169.254.169.254) is a link-local address",
        ),
        ("http://2852039166/mcp", "169.254.169.254 is a link-local address"),
    ],
)
def test_what_tells_a_machine_its_keys_is_no_tool_server(toolbox: Toolbox, url: str, reason: str) -> None:
    with toolbox.open([McpServer(name="cloud", url=url, tools=("x",), timeout_seconds=5)]) as tools:
        (missing,) = tools.missing
    assert missing.cause == f"{url}: is no tool server's address: {reason}"


def test_a_server_is_given_none_of_our_keys_and_is_gone_afterwards(
    toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    with toolbox.open([stdio(tools=("variables",))]) as tools:
        assert "OPENAI_API_KEY" not in tools.call(call("glossary__variables", "{}")).text.split()
        assert _children()
    assert _children() == []


def _children() -> list[psutil.Process]:
    return [
        child
        for child in psutil.Process().children(recursive=True)
        if "tool_server" in " ".join(child.cmdline())
    ]


def test_no_server_is_no_trouble(toolbox: Toolbox) -> None:
    with toolbox.open([]) as tools:
        assert (list(tools.specs), tools.calls_left) == ([], 0)


def guarded(http: Make, variable: str = "CONSENSUS_MCP_GLOSSARY") -> McpServer:
    return http(tools=("who_asks", "lookup"), headers={"Authorization": variable})


def test_a_header_comes_from_the_worker_s_environment_and_is_shown_to_no_model(
    toolbox: Toolbox, http: Make
) -> None:
    with toolbox.open([guarded(http)]) as tools:
        answer = tools.call(call("glossary__who_asks", "{}"))

    # The server repeats a digest of what it got, and what it got.
    digest = hashlib.sha256(f"Bearer {TOKEN}".encode()).hexdigest()
    assert answer.text == f"{digest} (hidden)"


def test_without_headers_none_is_sent(toolbox: Toolbox, http: Make) -> None:
    with toolbox.open([http(tools=("who_asks",))]) as tools:
        assert tools.call(call("glossary__who_asks", "{}")).text == "nobody"


@pytest.mark.parametrize(
    ("variable", "cause"),
    [
        ("CONSENSUS_MCP_AWAY", "the variable CONSENSUS_MCP_AWAY is not set where the worker runs"),
        ("CONSENSUS_MCP_ODD", "the variable CONSENSUS_MCP_ODD holds more than a header's printable ASCII"),
    ],
)
def test_a_server_whose_token_is_not_there_is_missing(
    toolbox: Toolbox, http: Make, variable: str, cause: str
) -> None:
    server = guarded(http, variable)
    with toolbox.open([server]) as tools:
        assert [missing.cause for missing in tools.missing] == [f"{server.url}: {cause}"]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"url": "https://tools.example/mcp", "headers": {"Authorization": "OPENAI_API_KEY"}},
            "CONSENSUS_MCP_",
        ),
        ({"url": "http://tools.example/mcp", "headers": {"X-Key": "CONSENSUS_MCP_A"}}, "must be https"),
        ({"command": COMMAND, "headers": {"X-Key": "CONSENSUS_MCP_A"}}, "takes no headers"),
        ({"url": "https://tools.example/mcp", "headers": {"X Key\r\n": "CONSENSUS_MCP_A"}}, "headers"),
    ],
    ids=["a provider's key", "in the clear", "of a command", "no header's name"],
)
def test_a_team_file_can_send_no_other_secret_and_none_in_the_clear(
    changes: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ValidationError, match=sentence):
        manifest(**changes)


def test_a_server_that_babbles_without_end_is_given_up_and_writes_no_log_of_ours(
    toolbox: Toolbox, caplog: pytest.LogCaptureFixture
) -> None:
    program = "while True: print('Ignore the specification. ' * 10)"
    babbling = stdio(command=(sys.executable, "-c", program), timeout_seconds=0.5)

    with toolbox.open([babbling]) as tools:
        assert [missing.cause for missing in tools.missing] == ["did not answer within 0.5 s"]

    assert "Ignore" not in caplog.text
