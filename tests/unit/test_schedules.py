"""Schedules as people write them."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pytest

from workers.errors import SettingsError
from workers.schedules import read_schedules
from workers.settings import load


def test_json_in_the_setting_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    text = json.dumps([{"name": "a", "at": "02:30", "profile": "tuned", "k": 3, "format": "atif"}])
    monkeypatch.setenv("CONSENSUS_SCHEDULES", text)
    (schedule,) = load().schedules
    assert (schedule.name, schedule.at, schedule.source) == ("a", dt.time(2, 30), "uploaded")
    assert (schedule.profile, schedule.donors, schedule.format_name) == ("tuned", 3, "atif")


@pytest.mark.parametrize("clock", ["'22:30'", "22:30"])
def test_a_file_of_yaml_is_read_with_or_without_quotes_around_the_time(tmp_path: Path, clock: str) -> None:
    path = tmp_path / "schedules.yaml"
    path.write_text(f"- name: nightly\n  at: {clock}\n  source: /srv/runs\n  timezone: Europe/Berlin\n")
    (schedule,) = read_schedules(str(path))
    assert (schedule.at, schedule.source, schedule.timezone) == (
        dt.time(22, 30),
        "/srv/runs",
        "Europe/Berlin",
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{}", "must be a list of schedules"),
        ("[{]", "is not JSON: "),
        ('[{"name": "a"}]', "schedule 1: at: Field required"),
        (
            '[{"name": "a", "at": "25:00"}]',
            "schedule 1: at: is no time of day; write hours and minutes, such as '02:30'",
        ),
        ('[{"name": "A b", "at": "02:00"}]', "schedule 1: name: must be small letters, digits and dashes"),
        ('[{"name": "a", "at": "02:00", "source": "runs"}]', "schedule 1: source: 'runs' must be uploaded"),
        ('[{"name": "a", "at": "02:00", "timezone": "Mars/X"}]', "schedule 1: timezone: 'Mars/X' is no time"),
        ('[{"name": "a", "at": "02:00", "hour": 2}]', "schedule 1: hour: Extra inputs are not permitted"),
        (
            '[{"name": "a", "at": "02:00"}, {"name": "a", "at": "03:00"}]',
            "schedule 2: the name 'a' is used twice; give each its own",
        ),
        ("/nowhere/schedules.yaml", "/nowhere/schedules.yaml: is not a file"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(
    text: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match=r".") as raised:
        read_schedules(text)
    assert str(raised.value).startswith(sentence)
    monkeypatch.setenv("CONSENSUS_SCHEDULES", text)
    with pytest.raises(SettingsError) as refused:
        load()
    assert str(refused.value).startswith(f"CONSENSUS_SCHEDULES: {sentence}")
