"""Forms in parts that are none, break off or have no end, of uploads and of pages."""

from __future__ import annotations

import httpx
import pytest

from tests.api.problem_documents import problem

KIND = {"Content-Type": "multipart/form-data; boundary=B"}
END = b"--B--\r\n"
A_BROWSER = {"Accept": "text/html"}
FIELDS = {"Content-Type": "application/x-www-form-urlencoded"}


def part(filename: bytes, content: bytes = b"x", more: bytes = b"") -> bytes:
    head = b'--B\r\nContent-Disposition: form-data; name="file"; filename="' + filename + b'"\r\n'
    return head + more + b"\r\n" + content + b"\r\n"


@pytest.mark.parametrize(
    "body",
    [
        part(b"a"),
        part(b"a") + part(b"b")[:-1],
        part(b"a") + b"--B\r\n",
        part(b"a") + b"--B",
        b"",
    ],
)
async def test_an_upload_that_breaks_off_is_not_taken_for_a_whole_one(
    client: httpx.AsyncClient, body: bytes
) -> None:
    answer = await client.post("/v1/trajectories", content=body, headers=KIND)
    assert problem(answer, 400) == (
        "the form breaks off before its closing boundary; nothing of it was stored, send it again"
    )
    assert (await client.get("/v1/trajectories")).json()["trajectories"] == []


async def test_what_stands_behind_the_end_is_nothing(client: httpx.AsyncClient) -> None:
    for behind in (b"", b"\r\n", b"an epilogue" * 100):
        answer = await client.post("/v1/trajectories", content=part(b"a") + END + behind, headers=KIND)
        assert answer.json()["stored"] + answer.json()["present"] == 1


@pytest.mark.parametrize("name", [b"a\x00b", b"a\x1b[2J", b"../../x", b"/etc/passwd", b"", b"x" * 3000])
async def test_a_file_of_a_hostile_name_is_refused_and_the_others_are_stored(
    client: httpx.AsyncClient, name: bytes
) -> None:
    answer = (
        await client.post("/v1/trajectories", content=part(name) + part(b"b") + END, headers=KIND)
    ).json()
    assert (answer["stored"], answer["refused"]) == (1, 1)
    assert answer["items"][0]["problem"]


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (part(b"a") * 1001 + END, "Too many files. Maximum number of files is 1000."),
        (part(b"a", more=b"X: " + b"a" * 200_000 + b"\r\n") + END, "Invalid multipart data."),
        (part(b"a", more=b"X: a\r\n" * 5000) + END, "Invalid multipart data."),
        (
            b'--B\r\nContent-Disposition: form-data; name="a"\r\n\r\n' + b"x" * 2_000_000 + b"\r\n" + END,
            "1024KB",
        ),
        (b"--B\r\n\r\nx\r\n" + END, 'The Content-Disposition header field "name" must be provided.'),
    ],
    ids=["files", "header", "headers", "field", "nameless"],
)
async def test_too_much_of_a_form_is_refused(client: httpx.AsyncClient, body: bytes, sentence: str) -> None:
    assert sentence in problem(await client.post("/v1/trajectories", content=body, headers=KIND), 400)


@pytest.mark.parametrize("path", ["/login", "/logout"])
@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (KIND, b"no parts"),
        ({"Content-Type": "multipart/form-data"}, part(b"a") + END),
        (FIELDS, b"key=" + b"x" * 3_000_000),
        (FIELDS, b"=&" * 3000),
    ],
)
async def test_a_form_of_a_page_that_cannot_be_read_is_refused_on_a_page(
    client: httpx.AsyncClient, path: str, kind: dict[str, str], body: bytes
) -> None:
    answer = await client.post(path, content=body, headers={**kind, **A_BROWSER})
    assert answer.status_code == 400
    assert answer.headers["Content-Type"].startswith("text/html")


@pytest.mark.parametrize(
    "body", [b"key=%00&next=%00", b"key=%ff&csrf=%ed%a0%80", b"key='--&next=//evil.example"]
)
async def test_fields_of_the_login_page_may_say_anything(client: httpx.AsyncClient, body: bytes) -> None:
    answer = await client.post("/login", content=body, headers={**FIELDS, **A_BROWSER})
    assert answer.status_code == 403
    assert "evil.example" not in answer.text
