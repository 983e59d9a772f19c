"""A browser in front of the real stack: `consensus up`, a simulator whose reviewers answer one after the other, and a
line between browser and server that can be cut.

Fixtures: `site` (the stack), `page` (a tab that fails the test on any console error), `line`, `accessible`."""

from __future__ import annotations

import contextlib
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from tests.e2e.web.site import Site, serving
from workers.cli.port import free_port

#: Longer than anything takes on a busy machine; nobody waits for it unless something is wrong.
PATIENCE_MS = 30_000.0

#: A test appends what it provokes itself: parts of console messages that are no fault then.
Expected = list[str]


@pytest.fixture(scope="session")
def site() -> Iterator[Site]:
    with serving() as made:
        yield made


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Debian's Chromium; `.ci/run` installs it."""
    with sync_playwright() as playwright:
        path = shutil.which("chromium")
        assert path is not None, "there is no chromium in the PATH: install the package `chromium`"
        # Root may not use the browser's own sandbox, and tests run as root in CI.
        expect.set_options(timeout=PATIENCE_MS)
        opened = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def expected_errors() -> Expected:
    return []


@pytest.fixture
def new_page(browser: Browser, expected_errors: Expected) -> Iterator[Callable[..., Page]]:
    """Opens tabs, each in a context of its own with the given options. Any error on a console fails the test."""
    with contextlib.ExitStack() as stack:
        errors: list[str] = []

        def note(message: ConsoleMessage) -> None:
            if message.type == "error":
                errors.append(f"{message.text} ({message.location.get('url', '')})")

        def opened(**options: Any) -> Page:
            context = browser.new_context(**options)
            stack.callback(context.close)
            tab = context.new_page()
            tab.on("console", note)
            tab.on("pageerror", lambda error: errors.append(str(error)))
            tab.set_default_timeout(PATIENCE_MS)
            return tab

        yield opened
        unexpected = [error for error in errors if not any(part in error for part in expected_errors)]
        assert unexpected == []


@pytest.fixture
def page(new_page: Callable[..., Page]) -> Page:
    return new_page(viewport={"width": 1280, "height": 900})


@pytest.fixture
def accessible() -> Callable[[Page], None]:
    """Fails with every fault that axe finds serious or critical on the page as it is now."""

    def checked(tab: Page) -> None:
        found = Axe().run(tab).response["violations"]
        faults = [
            f"{fault['id']}: {fault['help']}: {node['html'][:160]} {node['any'][:1]}"
            for fault in found
            if fault["impact"] in {"serious", "critical"}
            for node in fault["nodes"]
        ]
        assert faults == []

    return checked


class Line:
    """A line to a server on this machine that can be cut and mended; the browser's end keeps its address."""

    def __init__(self, target: int) -> None:
        self._target = target
        self.port = free_port()
        self._listening: socket.socket | None = None
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self.mend()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def mend(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", self.port), backlog=64)
        threading.Thread(target=self._accept, args=(self._listening,), daemon=True).start()

    def cut(self) -> None:
        """Every connection breaks, and new ones are refused."""
        listening, self._listening = self._listening, None
        if listening is not None:
            with contextlib.suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)
            listening.close()
        with self._lock:
            ends, self._open = self._open, set()
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                near, _ = listening.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._target))
            with self._lock:
                self._open |= {near, far}
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._carry, args=(source, sink), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._open -= {source}
        source.close()


@pytest.fixture
def line(site: Site) -> Iterator[Line]:
    made = Line(int(site.url.rpartition(":")[2]))
    yield made
    made.cut()
