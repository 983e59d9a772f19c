"""What every error looks like to a client."""

from __future__ import annotations

import httpx


def problem(answer: httpx.Response, status: int) -> str:
    """The sentence of a well-formed problem document."""
    assert answer.status_code == status, answer.text[:500]
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert {"type", "title", "status", "detail"} <= body.keys()
    assert body["status"] == status
    assert body["title"]
    assert "Traceback" not in answer.text
    assert 'File "' not in answer.text
    assert isinstance(body["detail"], str)
    return str(body["detail"])
