"""What the code that shares a process with its tests cannot foresee."""

from __future__ import annotations

import os
import random

import pytest

from workers.sandbox.caged_seal import second_question


class Counting:
    """Is not what it is compared with, and counts how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def __eq__(self, other: object) -> bool:
        self.asked += 1
        return False

    __hash__ = None  # type: ignore[assignment] # it is only compared


def test_how_often_the_second_question_is_asked_cannot_be_chosen_by_who_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(random, "randrange", lambda *_: 1)
    monkeypatch.setattr(os, "urandom", bytes)
    counts = set()
    for _ in range(200):  # all alike by chance: once in 3 ** 199
        random.seed(0)
        liar = Counting()
        second_question(liar, 3)
        counts.add(liar.asked)
    assert len(counts) > 1
