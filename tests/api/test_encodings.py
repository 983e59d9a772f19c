"""Marks, encodings and doubled keys of JSON, and bodies that say they are gzip, on every route that takes them."""

from __future__ import annotations

import gzip
import zlib

import httpx
import pytest

from tests.api.problem_documents import problem
from tests.integration.stored_runs import count
from workers.provenance.session import Database

JSON, LINES = "application/json", "application/jsonl"
#: A body for each route, which is taken as it is.
TAKEN = [
    ("/v1/runs", JSON, b'{"spec": "a"}'),
    ("/v1/batches", JSON, b'{"specs": [{"spec": "a"}]}'),
    ("/v1/batches", LINES, b'{"spec": "a"}'),
    ("/v1/trajectories", LINES, b'{"path": "a", "content": "x"}'),
]
GZIP = {"Content-Type": LINES, "Content-Encoding": "gzip"}
PACKED = gzip.compress(b'{"spec": "a"}')


def is_taken(answer: httpx.Response) -> bool:
    return answer.is_success and not answer.json().get("refused")


@pytest.mark.parametrize(("path", "kind", "body"), TAKEN)
async def test_a_byte_order_mark_is_no_part_of_the_body(
    client: httpx.AsyncClient, path: str, kind: str, body: bytes
) -> None:
    assert is_taken(await client.post(path, content=b"\xef\xbb\xbf" + body, headers={"Content-Type": kind}))


@pytest.mark.parametrize("charset", ["utf-8", "UTF-16", "latin-1", '"', "x" * 5000])
@pytest.mark.parametrize(("path", "kind", "body"), TAKEN)
async def test_json_is_utf_8_whatever_a_parameter_says(
    client: httpx.AsyncClient, path: str, kind: str, body: bytes, charset: str
) -> None:
    """The standard gives application/json no such parameter."""
    headers = {"Content-Type": f"{kind}; charset={charset}"}
    assert is_taken(await client.post(path, content=body, headers=headers))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize(("path", "kind", "body"), TAKEN[1:])
async def test_lines_and_batches_in_utf_16_are_refused(
    client: httpx.AsyncClient, database: Database, path: str, kind: str, body: bytes, encoding: str
) -> None:
    answer = await client.post(path, content=body.decode().encode(encoding), headers={"Content-Type": kind})
    assert not is_taken(answer)
    with database.begin() as connection:
        assert count(connection, "runs") == count(connection, "batches") == 0


async def test_of_a_key_that_is_there_twice_the_last_one_counts(client: httpx.AsyncClient) -> None:
    body = b'{"spec": "a", "priority": 1, "priority": 7, "metadata": {"a": 1, "a": 2}}'
    run = (await client.post("/v1/runs", content=body, headers={"Content-Type": JSON})).json()
    assert (run["priority"], run["metadata"]) == (7, {"a": 2})
    wrong = b'{"spec": "a", "priority": 1, "priority": 77}'
    answer = await client.post("/v1/runs", content=wrong, headers={"Content-Type": JSON})
    assert "priority: Input should be less than" in problem(answer, 422)


async def test_a_wrong_field_of_an_upload_line_is_told_without_the_librarys_words(
    client: httpx.AsyncClient,
) -> None:
    answer = await client.post("/v1/trajectories", content=b'{"pth": "a"}', headers={"Content-Type": LINES})
    assert answer.json()["items"][0]["problem"] == (
        "line 1: there is no field 'pth'; did you mean 'path'? "
        "allowed are path, content, content_base64, digest, prefix, role"
    )


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (PACKED + b"junk", "the body is not gzip, as its Content-Encoding says it is"),
        (PACKED + bytes(20), "the body is not gzip"),
        (PACKED[:-8] + bytes(8), "the body is not gzip"),
        (zlib.compress(b'{"spec": "a"}'), "the body is not gzip"),
        (b"\x28\xb5\x2f\xfd" + bytes(20), "the body is not gzip"),
        (PACKED[:-4], "the gzip body breaks off before its end; send all of it"),
        (PACKED[:5], "the gzip body breaks off before its end"),
        (b"\x1f\x8b\x08\x08" + bytes(6) + b"n" * 1_000_000, "the gzip body breaks off before its end"),
        (gzip.compress(PACKED), "line 1: is not UTF-8 text (byte 2)"),
        (gzip.compress(gzip.compress(bytes(1 << 24))), "line 1: is not UTF-8 text (byte 2)"),
        (b"", "the batch is empty"),
    ],
    ids=["junk", "zeros", "sum", "zlib", "zstd", "cut", "head", "name", "twice", "bomb-in-bomb", "empty"],
)
async def test_gzip_that_is_none_or_breaks_off_or_nests(
    client: httpx.AsyncClient, database: Database, body: bytes, sentence: str
) -> None:
    assert sentence in problem(await client.post("/v1/batches", content=body, headers=GZIP), 422)
    with database.begin() as connection:
        assert count(connection, "runs") == count(connection, "batches") == 0


@pytest.mark.parametrize(
    "coding", ["gzip, gzip", "br", "zstd", "identity, gzip", "gzip;q=1", "compress", "\xff" * 90]
)
async def test_another_coding_is_refused_with_what_is_taken(client: httpx.AsyncClient, coding: str) -> None:
    headers = {"Content-Type": LINES, "Content-Encoding": coding.encode("latin-1")}
    detail = problem(await client.post("/v1/batches", content=PACKED, headers=headers), 415)  # type: ignore[arg-type]
    assert detail.endswith("is not known; send the body as it is or as gzip")
    assert len(detail) < 200


async def test_a_hundred_thousand_empty_files_of_gzip_before_the_first_line_are_nothing(
    client: httpx.AsyncClient,
) -> None:
    answer = await client.post("/v1/batches", content=gzip.compress(b"") * 100_000 + PACKED, headers=GZIP)
    assert answer.json()["runs"] == 1
