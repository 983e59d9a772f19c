from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from workers.core.reply import Usage
from workers.providers.usage import UsageScope, record, usage_scope

ONE = Usage(input_tokens=3, output_tokens=1)


def test_calls_count_themselves_per_model() -> None:
    with usage_scope() as scope:
        record("openai", "gpt", ONE)
        record("openai", "gpt", ONE)
        record("mistral", "small", Usage(input_tokens=10, is_estimated=True))
    assert scope.by_model["openai", "gpt"].calls == 2
    assert scope.by_model["openai", "gpt"].usage == Usage(input_tokens=6, output_tokens=2)
    assert scope.calls == 3
    assert scope.total == Usage(input_tokens=16, output_tokens=2, is_estimated=True)


def test_nested_scopes_both_count_and_closed_ones_do_not() -> None:
    with usage_scope() as outer:
        record("p", "m", ONE)
        with usage_scope() as inner:
            record("p", "m", ONE)
        record("p", "m", ONE)
    record("p", "m", ONE)
    assert (outer.calls, inner.calls) == (3, 1)


def test_a_scope_closes_when_its_block_raises() -> None:
    with pytest.raises(ValueError, match="boom"), usage_scope() as scope:
        raise ValueError("boom")
    record("p", "m", ONE)
    assert scope.calls == 0


async def test_tasks_started_inside_count_and_their_own_scopes_stay_theirs() -> None:
    async def work(calls: int) -> int:
        with usage_scope() as own:
            for _ in range(calls):
                await asyncio.sleep(0)
                record("p", "m", ONE)
        return own.calls

    with usage_scope() as scope:
        counts = await asyncio.gather(work(1), work(2), work(3))
    assert list(counts) == [1, 2, 3]
    assert scope.calls == 6


def test_a_scope_opened_in_a_thread_counts_work_on_the_loop_thread() -> None:
    """The bridge of the workers: a task thread opens the scope and submits to one loop in another thread.
    Two task threads run at once, and neither sees the other's calls."""
    loop = asyncio.new_event_loop()
    runner = threading.Thread(target=loop.run_forever)
    runner.start()
    both_are_in = threading.Barrier(2, timeout=5)

    async def call() -> None:
        await asyncio.sleep(0)
        record("p", "m", ONE)

    def task(calls: int) -> int:
        with usage_scope() as scope:
            both_are_in.wait()
            for _ in range(calls):
                asyncio.run_coroutine_threadsafe(call(), loop).result(5)
            both_are_in.wait()
        return scope.calls

    try:
        with ThreadPoolExecutor(2) as pool:
            assert list(pool.map(task, (2, 5))) == [2, 5]
    finally:
        loop.call_soon_threadsafe(loop.stop)
        runner.join()
        loop.close()


def test_threads_may_add_at_once() -> None:
    scope = UsageScope()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: scope.add("p", "m", ONE), range(400)))
    assert scope.total == Usage(input_tokens=1200, output_tokens=400)
