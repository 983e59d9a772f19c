"""`POST /v1/batches`: lines in, runs that wait out."""

from __future__ import annotations

import asyncio
import gzip
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.problem_documents import problem
from tests.integration.stored_runs import count, events_of
from workers.core.run import RunState
from workers.provenance import ledger, payload
from workers.provenance.digest import GENESIS
from workers.provenance.repository import batches, runs
from workers.provenance.repository.runs import Run
from workers.provenance.session import Database

TABLES = ("batches", "runs", "events", "payloads")

OTHER_TEAM = """
name: other-team
aliases: [the-other]
description: another team
coder: {models: [local/alder-1]}
reviewers:
  left: {models: [local/birch-1]}
  right: {models: [local/cedar-1]}
consensus: {models: [local/birch-2]}
lead: {models: [local/cedar-2]}
"""


def lines(*values: Any) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def specs(number: int) -> list[dict[str, Any]]:
    return [{"id": f"case-{n}", "spec": f"Write function {n}."} for n in range(1, number + 1)]


async def post(
    client: httpx.AsyncClient, body: bytes, *, headers: dict[str, str] | None = None, **options: Any
) -> httpx.Response:
    given = {"Content-Type": "application/jsonl", **(headers or {})}
    return await client.post("/v1/batches", content=body, headers=given, params=options)


def stored(database: Database) -> dict[str, int]:
    with database.begin() as connection:
        return {table: count(connection, table) for table in TABLES}


def runs_of(database: Database, batch_id: str) -> list[Run]:
    """In the order of their lines."""
    with database.begin() as connection:
        return runs.page(connection, batch_id=batch_id, limit=1000)[::-1]


async def refused(client: httpx.AsyncClient, database: Database, body: bytes, **options: Any) -> str:
    """The sentence for a batch that left nothing."""
    detail = problem(await post(client, body, **options), 422)
    assert set(stored(database).values()) == {0}
    return detail


async def test_each_line_becomes_a_run_that_waits_with_its_ledger_begun(
    client: httpx.AsyncClient, database: Database
) -> None:
    first = {"spec": "Write slugify(text).", "id": "a", "priority": 4, "metadata": {"n": 1}}
    second = {"spec": "Write median(numbers).", "files": {"a.py": "x = 1\n"}, "tests": {"t.py": ""}}

    answer = await post(client, lines(first, second), name="two", priority=3, concurrency=7)

    assert answer.status_code == 202, answer.text
    shown = answer.json()
    assert answer.headers["location"] == f"/v1/batches/{shown['id']}"
    assert (shown["state"], shown["runs"], shown["duplicates"], shown["skipped"]) == ("running", 2, 0, 0)
    assert (shown["name"], shown["priority"], shown["concurrency"]) == ("two", 3, 7)
    assert (shown["started_at"], shown["finished_at"], shown["pause_cause"]) == (None, None, None)
    one, two = runs_of(database, shown["id"])
    assert (one.position, two.position) == (1, 2)
    assert (one.state, one.external_id, one.priority, one.metadata) == (RunState.QUEUED, "a", 4, {"n": 1})
    assert (two.external_id, two.priority, two.metadata, two.team) == (None, 0, {}, "consensus")
    with database.begin() as connection:
        material = payload.load(connection, two.input_digest)
        progress = batches.progress(connection, shown["id"]).progress
    assert material == {name: second[name] for name in ("spec", "files", "tests")}
    assert (progress.waiting, progress.total) == (2, 2)
    for run in (one, two):
        entries = events_of(database, run.run_id)
        assert [(entry.seq, entry.kind) for entry in entries] == [(1, "run.created")]
        assert run.ledger_seq == 1
        assert ledger.verify(entries, run_id=run.run_id, head=run.ledger_head, genesis=GENESIS) is None


async def test_runs_sort_like_their_lines_over_many_chunks(
    client: httpx.AsyncClient, database: Database
) -> None:
    batch = (await post(client, lines(*specs(1203)))).json()

    with database.begin() as connection:
        found = runs.page(connection, batch_id=batch["id"], limit=2000)[::-1]
    assert [run.position for run in found] == list(range(1, 1204))
    assert [run.external_id for run in found] == [f"case-{n}" for n in range(1, 1204)]
    assert batch["runs"] == 1203
    assert stored(database) == {"batches": 1, "runs": 1203, "events": 1203, "payloads": 2 * 1203 + 1}


async def test_ids_and_metadata_come_back_as_they_went_in(
    client: httpx.AsyncClient, database: Database
) -> None:
    ids = ["NULL", "null", '{a,"b"}', "\\x00", "a\\", "'", "a, b", "é\u2029"[:1], "%s", ":x", "{}", " x "]
    body = lines(*({"spec": "a", "id": name, "metadata": {name: [name, 10**30, 0.5]}} for name in ids))

    batch = (await post(client, body)).json()

    found = runs_of(database, batch["id"])
    assert [run.external_id for run in found] == ids
    assert [run.metadata for run in found] == [{name: [name, 10**30, 0.5]} for name in ids]


async def test_a_team_is_kept_once_and_the_batches_team_is_for_lines_that_name_none(
    client: httpx.AsyncClient, database: Database, team_folder: Path
) -> None:
    (team_folder / "other.yaml").write_text(OTHER_TEAM, encoding="utf-8")
    body = lines({"spec": "a"}, {"spec": "b", "team": "consensus"}, {"spec": "c", "team": "the-other"})

    batch = (await post(client, body, team="other-team")).json()

    found = runs_of(database, batch["id"])
    assert [run.team for run in found] == ["other-team", "consensus", "other-team"]
    assert found[0].team_digest == found[2].team_digest
    with database.begin() as connection:
        assert payload.load(connection, found[2].team_digest)["lead"]["models"] == ["local/cedar-2"]
    # Three specs, three first events, two teams.
    assert stored(database)["payloads"] == 8


async def test_a_line_that_says_the_same_again_runs_once_and_is_counted(
    client: httpx.AsyncClient, database: Database
) -> None:
    spelled = {"spec": "a", "team": "consensus", "priority": 0, "files": {}}
    body = lines({"spec": "a"}, spelled, {"spec": "a", "id": "x"}, {"spec": "a", "id": "x"}, {"spec": "b"})

    batch = (await post(client, body)).json()

    assert (batch["runs"], batch["duplicates"]) == (3, 2)
    assert [run.position for run in runs_of(database, batch["id"])] == [1, 3, 5]


async def test_an_id_with_other_content_is_a_bad_line_every_time_it_comes(
    client: httpx.AsyncClient, database: Database
) -> None:
    other = {"spec": "b", "id": "x"}
    body = lines({"spec": "a", "id": "x"}, other, other, {"spec": "c"})

    detail = await refused(client, database, body)
    batch = (await post(client, body, skip_bad=True)).json()

    assert (
        "2 of 4 lines cannot be used, so nothing was stored; line 2: the id 'x' is that of line 1" in detail
    )
    assert (batch["runs"], batch["duplicates"], batch["skipped"]) == (2, 0, 2)


async def test_a_refusal_names_the_first_twenty_bad_lines_and_counts_them_all(
    client: httpx.AsyncClient, database: Database
) -> None:
    body = lines(*({"spec": ""} if n % 2 else {"spec": f"spec {n}"} for n in range(1, 61)))

    answer = await post(client, body)

    detail = problem(answer, 422)
    assert detail == (
        "30 of 60 lines cannot be used, so nothing was stored; "
        "line 1: the spec is empty; say in words what the code should do"
    )
    assert answer.json()["bad_lines"] == 30
    assert [fault["field"] for fault in answer.json()["errors"]] == [f"line {n}" for n in range(1, 41, 2)]
    assert {fault["message"] for fault in answer.json()["errors"]} == {
        "the spec is empty; say in words what the code should do"
    }
    assert set(stored(database).values()) == {0}


async def test_bad_lines_are_left_out_when_asked_and_stay_on_record(
    client: httpx.AsyncClient, database: Database
) -> None:
    body = lines({"spec": "a"}, {"spec": "b", "priorty": 1}, {"spec": "c"}) + b"{oops\n"

    batch = (await post(client, body, skip_bad="true")).json()

    assert (batch["runs"], batch["skipped"]) == (2, 2)
    assert [run.position for run in runs_of(database, batch["id"])] == [1, 3]
    detail = (await client.get(f"/v1/batches/{batch['id']}")).json()
    two, four = detail["skipped_lines"]
    assert two["line"] == 2
    assert two["problem"].startswith("there is no field 'priorty'; did you mean 'priority'?")
    assert four["line"] == 4
    assert "is not JSON (Expecting property name" in four["problem"]


async def test_of_many_bad_lines_the_first_thousand_stay_on_record(client: httpx.AsyncClient) -> None:
    body = lines({"spec": "good"}) + b"[]\n" * 1234

    batch = (await post(client, body, skip_bad="true")).json()

    detail = (await client.get(f"/v1/batches/{batch['id']}")).json()
    assert batch["skipped"] == 1234
    assert [line["line"] for line in detail["skipped_lines"]] == list(range(2, 1002))


async def test_a_batch_of_bad_lines_alone_is_refused_even_then(
    client: httpx.AsyncClient, database: Database
) -> None:
    detail = await refused(client, database, b"{}\n[]\n", skip_bad="true")
    assert "2 of 2 lines cannot be used" in detail


async def test_marks_blanks_and_ends_of_lines_are_no_part_of_them(
    client: httpx.AsyncClient, database: Database
) -> None:
    body = b'\xef\xbb\xbf{"spec": "a"}\r\n\r\n   \t\n{"spec": "b"}\n\n  {"spec": "c"}  \r\n{"spec": "d"}'

    batch = (await post(client, body)).json()

    assert [run.position for run in runs_of(database, batch["id"])] == [1, 4, 6, 7]


@pytest.mark.parametrize("body", [b"", b"\n\r\n \n", b"\xef\xbb\xbf"])
async def test_a_batch_without_a_line_is_refused(
    client: httpx.AsyncClient, database: Database, body: bytes
) -> None:
    assert "the batch is empty" in await refused(client, database, body)


DEEP = b"[" * 100_000 + b"]" * 100_000


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (b'{"spec": "a"', "is not JSON (Expecting ',' delimiter at character 13)"),
        (b'{"spec": "a"} {"spec": "b"}', "is not JSON (Extra data at character 15)"),
        (b'{"spec": "a\x00"}', "is not JSON (Invalid control character at at character 12)"),
        (b'{"spec": "a\\u0000"}', "the spec is not text: character 1 is U+0000"),
        (b'{"spec": "a\\ud800"}', "the spec is not text: character 1 is U+D800"),
        (b'{"spec": "\xff"}', "is not UTF-8 text (byte 11)"),
        ('{"spec": "a"}'.encode("utf-16"), "is not UTF-8 text (byte 1)"),
        (b'{"spec": "a", "metadata": {"x": NaN}}', "holds NaN, which JSON does not have"),
        (b'{"spec": "a", "budget_usd": -Infinity}', "holds -Infinity, which JSON does not have"),
        (b'{"spec": "a", "metadata": {"x": 1e999}}', "metadata: holds NaN or an infinite number"),
        (b'{"spec": "a", "metadata": {"x": ' + b"9" * 5000 + b"}}", "holds a number with more digits"),
        (b'{"spec": "a", "metadata": {"x": ' + DEEP + b"}}", "nests its JSON too deeply"),
        (b'{"spec": "a", "metadata": {"x": ' + b"[" * 40 + b"]" * 40 + b"}}", "nests deeper than 32 levels"),
        (b'{"spec": "a", "sarif": {"x": ' + DEEP + b"}}", "nests its JSON too deeply"),
        (b"[]", "is no JSON object"),
        (b'"spec"', "is no JSON object"),
        (b"null", "is no JSON object"),
        (b"{}", "spec: Field required"),
        (b'{"spec": 7}', "spec: Input should be a valid string"),
        (b'{"spec": " "}', "the spec is empty"),
        (b'{"spec": "a", "priority": 10}', "priority: Input should be less than or equal to 9"),
        (b'{"spec": "a", "id": ""}', "id: String should have at least 1 character"),
        (b'{"spec": "a", "files": {"../a": ""}}', "files: file path '../a' has an empty, '.' or '..' part"),
        (b'{"spec": "a", "review": true}', "files: there is no code to judge"),
        (b'{"spec": "a", "left_out": [{"path": "a", "reason": "b"}]}', "left_out: belongs to code"),
        (b'{"spec": "a", "team": "consensu"}', "there is no team 'consensu'; did you mean 'consensus'?"),
        (b'{"spec": "a", "dry_run": true}', "dry_run: is for a single run"),
        (b'{"spec": "' + b"x" * 10_000_000 + b'"}', "the spec has 10,000,000 bytes; at most 1,048,576"),
        (b'{"spec": "' + b"x" * 17_000_000 + b'"}', "has more than 16,777,216 bytes"),
    ],
)
async def test_whatever_is_wrong_with_a_line_is_one_sentence_with_its_number(
    client: httpx.AsyncClient, database: Database, line: bytes, sentence: str
) -> None:
    body = lines({"spec": "good"}) + b"\n" + line + b"\n" + lines({"spec": "also good"})

    answer = await post(client, body)

    detail = problem(answer, 422)
    assert "1 of 3 lines cannot be used, so nothing was stored; line 3: " in detail
    assert sentence in detail
    assert "\n" not in detail
    assert len(detail) < 700
    assert answer.json()["errors"][0]["field"] == "line 3"
    assert set(stored(database).values()) == {0}


async def test_a_line_is_not_offered_a_field_that_only_a_single_run_has(
    client: httpx.AsyncClient, database: Database
) -> None:
    detail = await refused(client, database, lines({"spec": "a", "dry_rum": True}))
    assert "there is no field 'dry_rum'; allowed are spec, id, team" in detail
    assert "dry_run" not in detail


@pytest.mark.parametrize(
    ("option", "value", "sentence"),
    [
        ("priority", 10, "priority: Input should be less than or equal to 9"),
        ("concurrency", 0, "concurrency: Input should be greater than or equal to 1"),
        ("budget_usd", 0, "budget_usd: Input should be greater than 0"),
        ("budget_tokens", "many", "budget_tokens: Input should be a valid integer"),
        ("name", "a\x07", "name: holds control characters"),
        ("webhook_url", "https://example.org/hook", "webhook_url: this installation cannot sign webhooks"),
        ("team", "nobody", "there is no team 'nobody'"),
        ("skip-bad", "true", "there is no query parameter 'skip-bad'; did you mean 'skip_bad'?"),
    ],
)
async def test_a_wrong_option_is_refused_with_its_name(
    client: httpx.AsyncClient, database: Database, option: str, value: Any, sentence: str
) -> None:
    assert sentence in await refused(client, database, lines({"spec": "a"}), **{option: value})


async def test_a_json_object_holds_specs_and_options(client: httpx.AsyncClient, database: Database) -> None:
    body = {
        "specs": [*specs(2), specs(2)[0], {"spec": ""}],
        "name": "n",
        "skip_bad": True,
    }

    answer = await client.post("/v1/batches", json=body)

    shown = answer.json()
    assert answer.status_code == 202
    assert (shown["runs"], shown["duplicates"], shown["skipped"], shown["name"]) == (2, 1, 1, "n")
    assert [run.external_id for run in runs_of(database, shown["id"])] == ["case-1", "case-2"]


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"[]", "the body is no JSON object"),
        (b"{}", "specs: Field required"),
        (b'{"specs": {}}', "specs: Input should be a valid list"),
        (b'{"specs": []}', "the batch is empty"),
        (b'{"specs": [{"spec": ""}]}', "line 1: the spec is empty"),
        (b'{"specs": [1], "nme": 1}', "there is no field 'nme'; did you mean 'name'?"),
        (b'{"specs": [NaN]}', "the body holds NaN"),
        (b'{"specs": [', "the body is not JSON (Expecting value at character 12)"),
        (b'{"specs": [' + DEEP + b"]}", "the body nests its JSON too deeply"),
        (b'{"spec": "a"}\n{"spec": "b"}\n', "the body is not JSON (Extra data at character 15)"),
    ],
)
async def test_a_wrong_json_object_is_refused_with_a_sentence(
    client: httpx.AsyncClient, database: Database, body: bytes, sentence: str
) -> None:
    answer = await post(client, body, headers={"Content-Type": "application/json"})
    assert sentence in problem(answer, 422)
    assert set(stored(database).values()) == {0}


async def test_options_of_a_json_object_stand_in_it(client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/batches", json={"specs": specs(1)}, params={"name": "x"})
    assert "name: is a query parameter for lines" in problem(answer, 422)


@pytest.mark.parametrize(
    "media_type", ["application/x-ndjson", "Application/JSONL; charset=utf-8", "text/plain"]
)
async def test_lines_are_known_by_many_names(client: httpx.AsyncClient, media_type: str) -> None:
    answer = await post(client, lines(*specs(2)), headers={"Content-Type": media_type})
    assert answer.status_code == 202


async def test_a_body_of_another_kind_is_refused_with_what_is_taken(
    client: httpx.AsyncClient, database: Database
) -> None:
    for headers in ({"Content-Type": "text/csv"}, {"Content-Encoding": "br"}):
        detail = problem(await post(client, lines(*specs(1)), headers=headers), 415)
        assert "send " in detail
    assert set(stored(database).values()) == {0}


async def test_a_packed_body_is_unpacked_also_of_several_files(
    client: httpx.AsyncClient, database: Database
) -> None:
    body = gzip.compress(lines(*specs(2))) + gzip.compress(lines({"spec": "c"}))
    batch = (await post(client, body, headers={"Content-Encoding": "gzip"})).json()
    assert [run.position for run in runs_of(database, batch["id"])] == [1, 2, 3]


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (lines(*specs(2)), "the body is not gzip"),
        (gzip.compress(lines(*specs(2)))[:-9], "the gzip body breaks off"),
        (gzip.compress(lines(*specs(2))) + b"more", "the body is not gzip"),
    ],
)
async def test_a_packed_body_that_is_broken_is_refused(
    client: httpx.AsyncClient, database: Database, body: bytes, sentence: str
) -> None:
    answer = await post(client, body, headers={"Content-Encoding": "gzip"})
    assert sentence in problem(answer, 422)
    assert set(stored(database).values()) == {0}


async def test_the_same_key_gives_the_same_batch_however_the_body_is_packed(
    client: httpx.AsyncClient, database: Database
) -> None:
    body, key = lines(*specs(3)), {"Idempotency-Key": "k"}
    first = await post(client, body, headers=key, name="n")
    before = stored(database)

    again = await post(client, body, headers=key, name="n")
    packed = await post(client, gzip.compress(body), headers={**key, "Content-Encoding": "gzip"}, name="n")

    assert (first.status_code, again.status_code, packed.status_code) == (202, 200, 200)
    assert again.json() == packed.json() == first.json()
    assert again.headers["location"] == first.headers["location"]
    assert stored(database) == before


@pytest.mark.parametrize(
    ("body", "options"), [(lines(*specs(2)), {"name": "n"}), (lines(*specs(3)), {"name": "m"})]
)
async def test_the_same_key_with_other_lines_or_options_is_refused(
    client: httpx.AsyncClient, database: Database, body: bytes, options: dict[str, Any]
) -> None:
    key = {"Idempotency-Key": "k"}
    first = (await post(client, lines(*specs(3)), headers=key, name="n")).json()
    before = stored(database)

    detail = problem(await post(client, body, headers=key, **options), 422)

    assert first["id"] in detail
    assert "use a new key" in detail
    assert stored(database) == before


async def test_a_repeat_is_found_before_its_lines_are_checked(
    client: httpx.AsyncClient, team_folder: Path
) -> None:
    (team_folder / "other.yaml").write_text(OTHER_TEAM, encoding="utf-8")
    body, key = lines({"spec": "a", "team": "other-team"}), {"Idempotency-Key": "k"}
    first = await post(client, body, headers=key)
    (team_folder / "other.yaml").unlink()
    again = await post(client, body, headers=key)
    assert (again.status_code, again.json()) == (200, first.json())


async def test_eight_posts_at_once_with_one_key_make_one_batch(
    client: httpx.AsyncClient, database: Database
) -> None:
    body, key = lines(*specs(20)), {"Idempotency-Key": "k"}
    answers = await asyncio.gather(*(post(client, body, headers=key) for _ in range(8)))
    assert sorted(answer.status_code for answer in answers) == [200] * 7 + [202]
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert (stored(database)["batches"], stored(database)["runs"]) == (1, 20)


async def test_the_same_lines_without_a_key_are_another_batch(
    client: httpx.AsyncClient, database: Database
) -> None:
    answers = await asyncio.gather(*(post(client, lines(*specs(20))) for _ in range(4)))
    assert len({answer.json()["id"] for answer in answers}) == 4
    assert stored(database)["runs"] == 80
