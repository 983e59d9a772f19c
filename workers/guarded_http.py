"""HTTP to addresses that others gave us: the address that is really connected to is checked, whatever its name said a
moment ago (DNS rebinding). No proxy, no redirect, no cookie, no connection kept."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

import aiohttp
import httpx
from aiohttp.abc import AbstractResolver, ResolveResult
from httpx_aiohttp import AiohttpTransport

from workers.address_guard import refusal
from workers.errors import AddressRefusedError

#: A host's IP addresses. Raises: OSError.
Resolve = Callable[[str], Awaitable[Sequence[str]]]


class SystemNames:
    """The machine's own resolver, in threads of its own: a name server that hangs must not take away those that
    everything else of the process waits in."""

    def __init__(self, threads: int = 16) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="names")

    async def __call__(self, host: str) -> Sequence[str]:
        def ask() -> list[str]:
            found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            return list(dict.fromkeys(str(entry[4][0]) for entry in found))

        return await asyncio.get_running_loop().run_in_executor(self._threads, ask)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


class _CheckedNames(AbstractResolver):
    """One look at a name a connection, and no connection to a name any of whose addresses is refused."""

    def __init__(self, resolve: Resolve, *, allow_private: bool) -> None:
        self._resolve = resolve
        self._allow_private = allow_private

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        addresses = await self._resolve(host)
        for address in addresses:
            _check(address, allow_private=self._allow_private)
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=_family(address),
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in addresses
            if family in {socket.AF_UNSPEC, _family(address)}
        ]

    async def close(self) -> None:
        """Nothing is held."""


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ipaddress.ip_address(address.partition("%")[0]).version == 6 else socket.AF_INET


def _check(address: str, *, allow_private: bool) -> None:
    refused = refusal(address, allow_private=allow_private)
    if refused is not None:
        raise AddressRefusedError(
            f"leads into a closed network: {refused.reason}", is_private=refused.is_private
        )


def guarded_client(
    resolve: Resolve,
    *,
    allow_private: bool,
    most_connections: int,
    timeout_seconds: float,
    certificates: ssl.SSLContext | None = None,
) -> httpx.AsyncClient:
    """A client that connects to allowed addresses only; create it inside the event loop that will use it.

    `timeout_seconds` bounds each step of a request (connecting, each read), not all of it.

    TLS is checked against the name in the URL. Its requests raise AddressRefusedError, beside httpx's errors and
    what `httpx-aiohttp` lets through (aiohttp.ClientError, OSError).
    """
    trusted = certificates or httpx.create_ssl_context()

    def open_socket(address: Any) -> socket.socket:
        family, kind, protocol, _, target = address
        # The last word: literal addresses never pass the resolver.
        _check(str(target[0]), allow_private=allow_private)
        return socket.socket(family=family, type=kind, proto=protocol)

    connector = aiohttp.TCPConnector(
        ssl=trusted,
        resolver=_CheckedNames(resolve, allow_private=allow_private),
        use_dns_cache=False,
        limit=most_connections,
        force_close=True,
        socket_factory=open_socket,
    )
    session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False)
    # httpx has a cookie jar of its own beside the session's.
    no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=()))
    return httpx.AsyncClient(
        cookies=no_cookies,
        transport=AiohttpTransport(client=session, verify=trusted),
        trust_env=False,
        follow_redirects=False,
        timeout=timeout_seconds,
    )
