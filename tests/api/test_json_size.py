"""JSON of so many values that memory would not hold them is refused before it is parsed, wherever JSON is taken."""

from __future__ import annotations

import json
import tracemalloc

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.json_size import MAX_JSON_VALUES, has_too_many_values
from tests.api.problem_documents import problem
from tests.integration.stored_runs import count
from workers.provenance.session import Database

MIB = 1024 * 1024
#: Fifteen bytes short of as much as a body may hold, and a value every three bytes: 5.6 million.
VALUES = b"[" + b"{}," * (5 * MIB) + b"{}]"
JSON, LINES = {"Content-Type": "application/json"}, {"Content-Type": "application/jsonl"}


@pytest.mark.parametrize(
    "start", [b'{"spec": "a", "metadata": {"x": ', b'{"spec": "a", "x": ', b"", b'{"specs": ']
)
async def test_a_run_of_millions_of_values_is_refused(
    client: httpx.AsyncClient, database: Database, start: bytes
) -> None:
    answer = await client.post("/v1/runs", content=start + VALUES, headers=JSON)
    assert (
        problem(answer, 413) == "the body's JSON has more than 1,000,000 values; send fewer, or longer texts"
    )
    with database.begin() as connection:
        assert count(connection, "runs") == 0


async def test_every_other_json_body_is_counted_too(client: httpx.AsyncClient) -> None:
    for method, path in (
        ("POST", "/v1/scorings"),
        ("PUT", "/v1/limits/openai/*"),
        ("POST", "/v1/batches/batch_none/resume"),
    ):
        answer = await client.request(
            method, path, content=VALUES, headers={"Content-Type": "application/x+JSON"}
        )
        assert "more than 1,000,000 values" in problem(answer, 413)


async def test_a_batch_of_millions_of_values_is_refused_and_pointed_to_lines(
    client: httpx.AsyncClient,
) -> None:
    answer = await client.post("/v1/batches", content=b'{"specs": ' + VALUES + b"}", headers=JSON)
    assert problem(answer, 422) == (
        "the body has more than 1,000,000 JSON values; send specs as lines, each a JSON object"
    )
    line = b'{"spec": "a", "metadata": {"x": ' + VALUES + b"}}"
    assert "line 1: has more than 1,000,000 JSON values" in problem(
        await client.post("/v1/batches", content=line, headers=LINES), 422
    )


async def test_an_upload_line_of_more_than_a_thousand_is_refused_and_the_next_one_is_stored(
    client: httpx.AsyncClient,
) -> None:
    lines = [
        b'{"path": "a", "content": ' + VALUES + b"}",
        json.dumps({"path": "b", "content": "[1,2]" * 9000}).encode(),
    ]
    answer = await client.post("/v1/trajectories", content=b"\n".join(lines), headers=LINES)
    assert (answer.json()["refused"], answer.json()["stored"]) == (1, 1)
    problem_of_it = answer.json()["items"][0]["problem"]
    assert problem_of_it == "line 1: has more than 1,000 JSON values; a line is one flat object"


async def test_code_is_full_of_signs_and_is_one_value(client: httpx.AsyncClient) -> None:
    body = json.dumps({"spec": "sort", "metadata": {"code": "x = {1: [2], 3: [4]}\n" * 240_000}}).encode()
    assert sum(body.count(sign) for sign in (b"[", b"{", b":", b",")) > MAX_JSON_VALUES
    assert (await client.post("/v1/runs", content=body, headers=JSON)).status_code == 202


async def test_a_batch_of_a_hundred_thousand_small_specs_has_not_too_many() -> None:
    specs = [{"id": f"case-{n}", "spec": f"number {n}"} for n in range(100_000)]
    assert not has_too_many_values(json.dumps({"specs": specs}).encode())


async def test_refusing_takes_less_memory_than_the_body_itself_five_times_over(
    client: httpx.AsyncClient,
) -> None:
    """Parsed, it takes some 400 MB."""
    body = b'{"specs": ' + VALUES + b"}"
    for path, kind in (("/v1/batches", JSON), ("/v1/runs", JSON), ("/v1/trajectories", LINES)):
        tracemalloc.start()
        try:
            await client.post(path, content=body, headers=kind)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 5 * len(body), path


async def test_values_in_utf_16_are_counted_too(client: httpx.AsyncClient) -> None:
    """Half of one of its letters looks like a quote, behind which everything would be a string."""
    body = json.dumps({"spec": "a", "metadata": {"\u2222": [[]] * 1_000_000}}, ensure_ascii=False).encode(
        "utf-16"
    )
    assert "more than 1,000,000 values" in problem(
        await client.post("/v1/runs", content=body, headers=JSON), 413
    )


def values_of(value: object) -> int:
    """Counted the plain way: each value, and each key."""
    if isinstance(value, dict):
        return 1 + sum(1 + values_of(part) for part in value.values())
    return 1 + sum(map(values_of, value)) if isinstance(value, list) else 1


JSON_VALUES = st.recursive(
    st.none() | st.integers() | st.text(alphabet='a,:[{"\\\u20ac'),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(alphabet='a,:[{"\\'), inner),
)


@given(value=JSON_VALUES, compact=st.booleans())
def test_the_signs_are_the_values_but_for_one_a_list(value: object, compact: bool) -> None:
    """`[1, 2]` has three values and two signs; an empty list has a sign for itself alone."""
    text = json.dumps(value, separators=(",", ":") if compact else None).encode()
    there = values_of(value)
    assert not has_too_many_values(text, 2 * there)
    assert there < 6 or has_too_many_values(text, there // 3)


@pytest.mark.parametrize("text", [b'"' + b'\\"' * MIB, b'["' + b",[:{\\\\" * MIB + b"\\", b',"\\' * MIB])
def test_strings_that_do_not_end_are_looked_through_once(text: bytes) -> None:
    """Looked through from each quote, this would take days."""
    has_too_many_values(text, most=10)


def test_the_limit_is_what_the_sentences_say() -> None:
    assert MAX_JSON_VALUES == 1_000_000
