"""Packed runs come back as they were, and nothing else does."""

from __future__ import annotations

import dataclasses
import json
import pickle
import zlib
from pathlib import Path

import pytest

from tests.recorded_runs import CHECK, FIX, LOOK, document
from workers.agentlens import label, load
from workers.agentlens.assess import Run, assess_all, pool, prepare
from workers.agentlens.cohort import row
from workers.agentlens.report import assessment_document, to_bytes
from workers.errors import TrajectoryError
from workers.scoring.packing import packed, unpacked
from workers.scoring.rows import assessment_of, row_of, row_text


def made(name: str = "a", *steps: tuple[str, dict[str, object]]) -> Run:
    (run,) = load(json.dumps(document(*(steps or (LOOK, FIX, CHECK)))).encode(), name=f"{name}_pta.json")
    return prepare(label(run))


def test_a_run_scores_the_same_after_packing() -> None:
    runs = [made("a"), made("b", FIX, CHECK), made("c", LOOK, CHECK, FIX)]
    again = [unpacked(packed(run)) for run in runs]

    def documents(of: list[Run]) -> list[bytes]:
        return [to_bytes(assessment_document(found)) for found in assess_all(of, pool(of))]

    assert documents(again) == documents(runs)
    assert not any(state.thought or state.observation for run in again for state in run.trace.states)


class Harmful:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return print, ("harm",)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (pickle.dumps(Harmful()), "a packed run holds builtins.print, which none has; it is not ours"),
        (pickle.dumps(Path("/")), "a packed run holds pathlib.PosixPath, which none has"),
        (pickle.dumps({"a": 1}), "what was stored of a run cannot be read"),
        (b"", "what was stored of a run cannot be read"),
        (zlib.compress(b"x"), "what was stored of a run cannot be read"),
    ],
)
def test_bytes_that_are_no_run_are_refused(data: bytes, sentence: str) -> None:
    with pytest.raises(TrajectoryError) as raised:
        unpacked(data)
    assert str(raised.value).startswith(sentence)


def test_a_row_comes_back_to_the_last_digit() -> None:
    runs = [made("a"), made("b", FIX, CHECK), made("c", LOOK, CHECK, FIX), made("d", FIX)]
    for assessment in assess_all(runs, pool(runs)):
        assert row_of(row_text(row(assessment))) == row(assessment)


def test_training_data_can_be_made_of_a_document() -> None:
    from workers.agentlens.curation import sft_record
    from workers.agentlens.tier import Tier

    runs = [made("a"), made("b", FIX, CHECK), made("c", LOOK, CHECK, FIX)]
    for run, assessment in zip(runs, assess_all(runs, pool(runs)), strict=True):
        again = assessment_of(json.loads(to_bytes(assessment_document(assessment))))
        record = sft_record(run.trajectory, assessment, set(Tier))
        assert record is not None
        assert sft_record(run.trajectory, again, set(Tier)) == record
        assert dataclasses.is_dataclass(again)
