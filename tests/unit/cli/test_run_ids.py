"""What the command line does with the id of a run that a user typed."""

from __future__ import annotations

import httpx
import pytest

from workers.cli.client import Client
from workers.cli.main import EXIT_REFUSED, execute


def test_an_id_is_one_part_of_the_address_whatever_it_holds() -> None:
    asked: list[bytes] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.raw_path)
        return httpx.Response(200, json={})

    with Client("http://api", transport=httpx.MockTransport(answer)) as client:
        client.run("../a b?c")
        client.cancel("../a b?c")
        client.provenance("../a b?c")

    run = b"/v1/runs/..%2Fa%20b%3Fc"
    assert asked == [run, run + b"/cancel", run + b"/provenance"]


@pytest.mark.parametrize("name", ["ledger.json", "folder/ledger"])
def test_a_replayed_file_that_is_not_there_is_told_as_a_file(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert execute(["replay", name]) == EXIT_REFUSED
    assert f"{name}: no such file; give a run's id" in capsys.readouterr().err
