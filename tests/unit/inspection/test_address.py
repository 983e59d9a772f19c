"""How runs are named from outside."""

from __future__ import annotations

import pytest

from workers.errors import NotFoundError
from workers.inspection.address import RunAddress

DIGITS = "0123456789abcdefghjkmnpqrs"


@pytest.mark.parametrize(
    ("text", "number", "is_scored"),
    [(f"traj_{DIGITS}", 0, False), (f"traj_{DIGITS}.0", 0, False), (f"scoring_{DIGITS}.17", 17, True)],
)
def test_an_address_names_a_record_of_a_file_or_a_place_in_a_scoring(
    text: str, number: int, is_scored: bool
) -> None:
    address = RunAddress.parse(text)
    assert (address.number, address.is_scored) == (number, is_scored)
    assert RunAddress.parse(str(address)) == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        "traj_",
        f"run_{DIGITS}",
        f"scoring_{DIGITS}",
        f"traj_{DIGITS}.01",
        f"traj_{DIGITS}.-1",
        f"traj_{DIGITS}\n",
    ],
)
def test_anything_else_is_not_found(text: str) -> None:
    with pytest.raises(NotFoundError, match="there is no trajectory"):
        RunAddress.parse(text)
