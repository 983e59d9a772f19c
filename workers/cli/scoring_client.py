"""The command line's way to the endpoints of trajectories and scorings."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import httpx

from workers.cli.client import Client, quote
from workers.errors import UnavailableError

_LINES = {"Content-Type": "application/jsonl"}
#: Storing some megabytes may take a busy server longer than an ordinary call.
_UPLOAD_TIMEOUT = httpx.Timeout(300.0, connect=5.0)


class ScoringClient(Client):
    """A client of one API, for trajectories and scorings."""

    def name_files(self, upload_set: str, lines: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Name files by digest; what became of each, in order."""
        body = b"".join(json.dumps(line).encode("ascii") + b"\n" for line in lines)
        answer = self._call(
            "POST",
            "/v1/trajectories",
            params={"set": upload_set},
            content=body,
            headers=_LINES,
            timeout=_UPLOAD_TIMEOUT,
        )
        return list(answer["items"])

    def upload(
        self, upload_set: str, files: Sequence[tuple[str, Path]], *, prefix: str, role: str
    ) -> list[dict[str, Any]]:
        """Send files' bytes under their names; what became of each, in order."""
        with ExitStack() as opened:
            parts: list[tuple[str, tuple[str, BinaryIO]]] = [
                ("file", (name, opened.enter_context(place.open("rb")))) for name, place in files
            ]
            answer = self._call(
                "POST",
                "/v1/trajectories",
                params={"set": upload_set, "prefix": prefix, "role": role},
                files=parts,
                timeout=_UPLOAD_TIMEOUT,
            )
        return list(answer["items"])

    def start_scoring(self, body: Mapping[str, Any]) -> dict[str, Any]:
        return self._call("POST", "/v1/scorings", json=body)

    def scoring(self, scoring_id: str) -> dict[str, Any]:
        return self._call("GET", f"/v1/scorings/{quote(scoring_id)}")

    def cancel_scoring(self, scoring_id: str) -> dict[str, Any]:
        return self._call("POST", f"/v1/scorings/{quote(scoring_id)}/cancel")

    def rows(self, scoring_id: str) -> Iterator[dict[str, Any]]:
        """The lines of `GET /v1/scorings/{id}/rows`. Raises: UnavailableError."""
        try:
            with self._http.stream("GET", f"/v1/scorings/{quote(scoring_id)}/rows") as response:
                if not response.is_success:
                    raise UnavailableError(f"{response.url} answered {response.status_code}")
                for line in response.iter_lines():
                    yield json.loads(line)
        except httpx.HTTPError as error:
            raise UnavailableError(f"the API at {self.url} broke off: {error}") from None

    def report(self, scoring_id: str, form: str, out: BinaryIO) -> None:
        """Write a report as the server made it. Raises: UnavailableError."""
        path = f"/v1/scorings/{quote(scoring_id)}/report"
        try:
            with self._http.stream("GET", path, params={"format": form}) as response:
                if not response.is_success:
                    raise UnavailableError(f"{response.url} answered {response.status_code}")
                for piece in response.iter_bytes():
                    out.write(piece)
        except httpx.HTTPError as error:
            raise UnavailableError(f"the API at {self.url} broke off: {error}") from None
