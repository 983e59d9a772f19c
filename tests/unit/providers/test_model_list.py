"""The list of models that a provider answers: ids in its order, each once."""

from __future__ import annotations

import pytest

from workers.providers.base import MalformedResponseError
from workers.providers.wire import decode_model_list


@pytest.mark.parametrize(
    ("body", "ids"),
    [
        (b'{"data": [{"id": "b"}, {"id": "a"}, {"id": "b"}]}', ("b", "a")),
        (b'[{"id": "b"}, {"id": "a"}]', ("b", "a")),
        (b'{"data": [{"id": ""}, {"id": 5}, {"name": "c"}, "d", null]}', ()),
        (b'{"data": {"id": "a"}}', ()),
        (b'{"data": "abc"}', ()),
        (b"{}", ()),
        (b"7", ()),
    ],
)
def test_ids_come_in_order_and_once_whatever_stands_around_them(body: bytes, ids: tuple[str, ...]) -> None:
    assert decode_model_list(body) == ids


def test_what_is_no_json_is_said_to_be_the_list_of_models() -> None:
    with pytest.raises(MalformedResponseError, match=r"^the list of models is not JSON"):
        decode_model_list(b"<html>")
