"""A page of a ledger is read once for all who want it at the time, and never from before it was asked for."""

from __future__ import annotations

import asyncio
import dataclasses
import threading

import pytest

from api.run_pages import Page, PageKey, Pages
from workers.errors import UnavailableError

KEY = PageKey(tenant_id="default", run_id="run_1", version=1, after=3)
PAGE = Page(messages=((4, b"data"),), is_full=False, is_last=False, seen=(4, "running"))


class SlowReads:
    """A database that answers when it is let."""

    def __init__(self) -> None:
        self.keys: list[PageKey] = []
        self.error: Exception | None = None
        self._may_answer = threading.Event()

    def __call__(self, key: PageKey) -> Page:
        self.keys.append(key)
        assert self._may_answer.wait(10)
        if self.error is not None:
            raise self.error
        return PAGE

    def answer(self) -> None:
        self._may_answer.set()


async def _begun(reads: SlowReads, count: int) -> None:
    async with asyncio.timeout(10):
        while len(reads.keys) < count:
            await asyncio.sleep(0)


async def test_fifty_who_want_the_same_page_share_one_read() -> None:
    reads = SlowReads()
    pages = Pages(reads)
    readers = [asyncio.create_task(pages.read(KEY)) for _ in range(50)]
    await _begun(reads, 1)
    reads.answer()
    assert await asyncio.gather(*readers) == [PAGE] * 50
    assert reads.keys == [KEY]


@pytest.mark.parametrize(
    "change", [{"version": 2}, {"after": 4}, {"run_id": "run_2"}, {"tenant_id": "somebody"}]
)
async def test_another_version_place_run_or_tenant_is_another_read(change: dict[str, str | int]) -> None:
    reads = SlowReads()
    pages = Pages(reads)
    other = dataclasses.replace(KEY, **change)
    readers = [asyncio.create_task(pages.read(key)) for key in (KEY, other)]
    await _begun(reads, 2)
    reads.answer()
    await asyncio.gather(*readers)
    assert set(reads.keys) == {KEY, other}


async def test_what_was_read_is_not_kept() -> None:
    reads = SlowReads()
    reads.answer()
    pages = Pages(reads)
    await pages.read(KEY)
    await pages.read(KEY)
    assert reads.keys == [KEY, KEY]


async def test_a_reader_who_leaves_takes_nobodys_page_away() -> None:
    reads = SlowReads()
    pages = Pages(reads)
    leaves, stays = (asyncio.create_task(pages.read(KEY)) for _ in range(2))
    await _begun(reads, 1)
    leaves.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaves
    reads.answer()
    assert await stays == PAGE


async def test_a_failure_reaches_everybody_and_the_next_read_is_a_new_one() -> None:
    reads = SlowReads()
    reads.error = UnavailableError("the database does not answer")
    reads.answer()
    pages = Pages(reads)
    assert [
        type(end) for end in await asyncio.gather(pages.read(KEY), pages.read(KEY), return_exceptions=True)
    ] == [UnavailableError, UnavailableError]
    reads.error = None
    assert await pages.read(KEY) == PAGE
