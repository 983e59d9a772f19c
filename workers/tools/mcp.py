"""Tool servers over the Model Context Protocol, by the official SDK: stdio and streamable HTTP.

Each seat has connections of its own, so that a server's state is never shared between reviewers who must not see each
other. A server that is dead, slow or wrong costs the seat its tools and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import logging
import os
import re
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import orjson

from workers.address_guard import refusal
from workers.core.equipment import McpServer
from workers.core.reply import ToolCall, ToolSpec
from workers.errors import AddressRefusedError
from workers.tools.toolbox import Missing, ToolResult

if TYPE_CHECKING:
    from mcp import Client, Tool
    from mcp_types import CallToolResult

#: A server's words about its tools are shown to models with every request.
MAX_DESCRIPTION_CHARACTERS = 1000
MAX_SCHEMA_CHARACTERS = 8000
#: Pages of a list of tools that are read.
MAX_PAGES = 20
#: Both wire formats allow these characters and this length in a tool's name.
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")
_MAX_NAME_CHARACTERS = 64
#: More than the server's own time: its answer is bounded there, and this only catches a connection that hangs.
_GRACE_SECONDS = 5.0

Submit = Callable[[Coroutine[Any, Any, Any]], Future[Any]]


class McpToolbox:
    """Implements `Toolbox`. `submit` runs a coroutine on the process's event loop; `variables` are those that servers'
    headers may name."""

    def __init__(self, submit: Submit, variables: Mapping[str, str]) -> None:
        self._submit = submit
        self._variables = variables

    @contextlib.contextmanager
    def open(self, servers: Sequence[McpServer]) -> Iterator[OpenServers]:
        """Connect to all servers at once; those that do not answer in time are `missing`."""
        if servers:
            # The SDK takes a second to load: not on the loop, where every other call would wait for it.
            import mcp  # noqa: F401

            # It logs every line that is no message, with a traceback: a server would write our log for us.
            logging.getLogger("mcp").setLevel(logging.CRITICAL)
        connections = [_Connection(server, self._variables) for server in servers]
        self._submit(_open_all(connections)).result()
        try:
            yield OpenServers(connections, self._submit)
        finally:
            self._submit(_close_all(connections)).result()


class OpenServers:
    """Implements `OpenTools`."""

    def __init__(self, connections: Sequence[_Connection], submit: Submit) -> None:
        self._submit = submit
        self._left = {connection.server.name: connection.server.max_calls for connection in connections}
        self._by_name: dict[str, tuple[_Connection, str]] = {}
        #: Calls of tools that do not exist: they use up the allowance too, or a stubborn model would never end.
        self._strays = 0
        self.missing = [missing for connection in connections for missing in connection.missing]
        self.specs = [spec for connection in connections for spec in self._specs(connection)]

    def _specs(self, connection: _Connection) -> Iterator[ToolSpec]:
        for tool in connection.tools:
            name = _NOT_IN_NAMES.sub("_", f"{connection.server.name}__{tool.name}")[:_MAX_NAME_CHARACTERS]
            if name in self._by_name:
                self.missing.append(
                    Missing(server=connection.server.name, cause=f"two tools would be called {name!r}")
                )
                continue
            self._by_name[name] = connection, tool.name
            description = connection.without_tokens(tool.description or tool.name)
            description = description[:MAX_DESCRIPTION_CHARACTERS]
            yield ToolSpec(name=name, description=description, parameters=tool.input_schema)

    @property
    def calls_left(self) -> int:
        offered = {connection.server.name for connection, _ in self._by_name.values()}
        return max(0, sum(self._left[name] for name in offered) - self._strays)

    def call(self, call: ToolCall) -> ToolResult:
        """See `OpenTools.call`."""
        known = self._by_name.get(call.name)
        if known is None:
            self._strays += 1
            return ToolResult(
                server="", tool=call.name[:100], text=f"there is no tool {call.name[:100]!r}", is_error=True
            )
        connection, tool = known
        server = connection.server

        def refused(why: str) -> ToolResult:
            return ToolResult(server=server.name, tool=tool, text=why, is_error=True)

        if self._left[server.name] == 0:
            return refused(
                f"all {server.max_calls} calls to {server.name} are used; answer with what you have"
            )
        self._left[server.name] -= 1
        try:
            arguments = orjson.loads(call.arguments or "{}")
        except orjson.JSONDecodeError as error:
            return refused(f"the arguments are not JSON: {error}")
        if not isinstance(arguments, dict):
            return refused("the arguments must be a JSON object")
        try:
            text, is_error = self._submit(connection.call(tool, arguments)).result()
        except Exception as error:  # noqa: BLE001 - whatever a server does, the seat goes on
            return refused(f"the call failed: {connection.without_tokens(_reason(error))}")
        shown = _cut(connection.without_tokens(text), server.max_result_characters)
        return ToolResult(server=server.name, tool=tool, text=shown, is_error=is_error)


@dataclasses.dataclass(slots=True)
class _Connection:
    """One server. The SDK wants to be opened and closed by the same task: `_serve` is that task's whole life."""

    server: McpServer
    variables: Mapping[str, str]
    tools: list[Tool] = dataclasses.field(default_factory=list)
    missing: list[Missing] = dataclasses.field(default_factory=list)
    client: Client | None = None
    task: asyncio.Task[None] | None = None
    #: Values that nobody may be shown.
    hidden: tuple[str, ...] = ()
    opened: asyncio.Event = dataclasses.field(default_factory=asyncio.Event)
    closing: asyncio.Event = dataclasses.field(default_factory=asyncio.Event)

    async def open(self) -> None:
        self.task = asyncio.create_task(self._serve())
        waiting = asyncio.create_task(self.opened.wait())
        await asyncio.wait(
            (self.task, waiting),
            timeout=self.server.timeout_seconds,
            return_when=asyncio.FIRST_COMPLETED,
        )
        waiting.cancel()
        if not self.opened.is_set() and not self.task.done():
            self._lost(f"did not answer within {self.server.timeout_seconds:g} s")
            self.task.cancel()

    async def _serve(self) -> None:
        from mcp import Client

        try:
            with open(os.devnull, "w") as silence:  # noqa: PTH123 - what a server prints is not our log
                client = Client(
                    _transport(self.server, silence, self._headers()),
                    read_timeout_seconds=self.server.timeout_seconds,
                )
                async with client:
                    self.tools = self._allowed(await _listed(client))
                    self.client = client
                    self.opened.set()
                    await self.closing.wait()
        except Exception as error:  # noqa: BLE001 - a dead server is no fault of the seat
            if not self.opened.is_set():
                self._lost(_not_opened(self.server, error))
        finally:
            self.client = None

    def _headers(self) -> dict[str, str]:
        """Raises: ConnectionError for a variable that is not there, or holds what no header can."""
        headers = {}
        for name, variable in self.server.headers.items():
            value = self.variables.get(variable, "").strip()
            if not value:
                raise ConnectionError(f"the variable {variable} is not set where the worker runs")
            if not (value.isascii() and value.isprintable()):
                raise ConnectionError(f"the variable {variable} holds more than a header's printable ASCII")
            headers[name] = value
        self.hidden = tuple(headers.values())
        return headers

    def without_tokens(self, text: str) -> str:
        """What a server says, should it repeat the tokens that it was sent."""
        for value in self.hidden:
            # The whole first, then what stands behind a scheme such as `Bearer`.
            text = text.replace(value, "(hidden)").replace(value.rpartition(" ")[2], "(hidden)")
        return text

    def _lost(self, cause: str) -> None:
        self.missing.append(Missing(server=self.server.name, cause=self.without_tokens(cause)))

    def _allowed(self, listed: Sequence[Tool]) -> list[Tool]:
        by_name = {tool.name: tool for tool in listed}
        allowed = []
        for name in self.server.tools:
            tool = by_name.get(name)
            if tool is None:
                self._lost(f"has no tool {name!r}")
            elif len(json.dumps(tool.input_schema)) > MAX_SCHEMA_CHARACTERS:
                self._lost(f"describes {name!r} in more than {MAX_SCHEMA_CHARACTERS:,} characters")
            else:
                allowed.append(tool)
        return allowed

    async def call(self, tool: str, arguments: dict[str, Any]) -> tuple[str, bool]:
        """The result as text, and whether it is an error. Raises whatever the SDK or a dead server makes it raise."""
        if self.client is None or self.task is None:
            raise ConnectionError("the server has gone")
        calling = asyncio.create_task(self.client.call_tool(tool, arguments))
        # A server that dies takes its task with it, and an answer is then not to be waited for.
        await asyncio.wait(
            (calling, self.task),
            timeout=self.server.timeout_seconds + _GRACE_SECONDS,
            return_when=asyncio.FIRST_COMPLETED,
        )
        if not calling.done():
            calling.cancel()
            gone = "the server has gone" if self.task.done() else "the server does not answer"
            raise ConnectionError(gone)
        result = calling.result()
        return _text(result), result.is_error

    async def close(self) -> None:
        self.closing.set()
        if self.task is None:
            return
        _, late = await asyncio.wait((self.task,), timeout=_GRACE_SECONDS)
        if late:
            self.task.cancel()
            await asyncio.wait(late, timeout=_GRACE_SECONDS)


async def _open_all(connections: Sequence[_Connection]) -> None:
    await asyncio.gather(*(connection.open() for connection in connections))


async def _close_all(connections: Sequence[_Connection]) -> None:
    await asyncio.gather(*(connection.close() for connection in connections))


def _transport(server: McpServer, silence: Any, headers: Mapping[str, str]) -> Any:
    """The SDK's transport. A child gets the SDK's short list of variables, so none of our keys."""
    if server.url is not None:
        return _over_http(server.url, headers)
    from mcp.client.stdio import StdioServerParameters, stdio_client

    assert server.command is not None  # noqa: S101 - for the type checker: a server has one of the two
    program, *arguments = server.command
    return stdio_client(StdioServerParameters(command=program, args=arguments), errlog=silence)


@contextlib.asynccontextmanager
async def _over_http(url: str, headers: Mapping[str, str]) -> AsyncIterator[Any]:
    """The SDK follows redirects within the server's origin only, so the headers go nowhere else.

    Raises: AddressRefusedError."""
    await _check_address(url)
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    # The SDK's own times: a server may hold a stream open. One call is bounded elsewhere.
    timeout = httpx2.Timeout(30.0, read=300.0)
    async with (
        httpx2.AsyncClient(headers=dict(headers), timeout=timeout) as http,
        streamable_http_client(url, http_client=http) as streams,
    ):
        yield streams


async def _check_address(url: str) -> None:
    """A tool server may well be on this machine or in its network; who writes a team file starts programs here anyway.
    What answers a machine's questions about itself, keys included, is none, whatever the name in the file leads to."""
    host = urlsplit(url).hostname or ""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        # A proxy of the environment may know it; if nobody does, the connection says so.
        return
    for entry in found:
        refused = refusal(str(entry[4][0]), allow_private=True)
        if refused is not None:
            raise AddressRefusedError(f"is no tool server's address: {refused.reason}", is_private=False)


async def _listed(client: Client) -> list[Tool]:
    """Every tool, page by page."""
    tools: list[Tool] = []
    cursor = None
    for _ in range(MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        cursor = page.next_cursor
        if not cursor:
            break
    return tools


def _text(result: CallToolResult) -> str:
    """The result for a model that reads text: other content is named, not shown."""
    parts = [getattr(block, "text", None) or f"({block.type})" for block in result.content]
    if not parts and result.structured_content is not None:
        return json.dumps(result.structured_content, ensure_ascii=False)
    return "\n".join(parts)


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    return f"{text[:most]}\n(cut off: {len(text):,} characters in all, {most:,} are shown)"


def _not_opened(server: McpServer, error: BaseException) -> str:
    """Why a server is not there, and where to look."""
    reason = _reason(error)
    if server.command is None:
        return f"{server.url}: {reason}"[:300]
    program = server.command[0][:100]
    if _inner(error).__class__ is FileNotFoundError:
        return f"the worker finds no program {program!r}"
    return f"{program!r} ended or did not speak MCP: {reason}; start its command by hand to see why"[:300]


def _reason(error: BaseException) -> str:
    """A sentence for an error; the SDK's task groups wrap the one that matters."""
    error = _inner(error)
    return (str(error) or type(error).__name__)[:300]


def _inner(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
