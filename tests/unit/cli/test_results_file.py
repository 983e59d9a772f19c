"""Where `results` writes to."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from workers.cli.results import _written_to
from workers.errors import InputError


def test_a_file_appears_when_it_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    with _written_to(target) as write:
        write(b"one\n")
        assert not target.exists()
    assert target.read_bytes() == b"one\n"
    assert list(tmp_path.iterdir()) == [target]


def test_an_error_leaves_what_was_there(tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    target.write_bytes(b"old")

    def fail() -> None:
        with _written_to(target) as write:
            write(b"new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_link_stays_one_and_its_file_is_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "far"
    folder.mkdir()
    link = tmp_path / "out.jsonl"
    link.symlink_to(folder / "real.jsonl")
    with _written_to(link) as write:
        write(b"x")
    assert link.is_symlink()
    assert (folder / "real.jsonl").read_bytes() == b"x"


def test_the_file_has_the_rights_of_any_new_file(tmp_path: Path) -> None:
    with _written_to(tmp_path / "out") as write:
        write(b"x")
    (tmp_path / "plain").write_bytes(b"x")
    assert (tmp_path / "out").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_pipe_is_written_into_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    with _written_to(pipe) as write:
        write(b"through")
    reader.join(timeout=10)
    assert read == [b"through"]
    assert pipe.is_fifo()


@pytest.mark.parametrize(
    ("name", "sentence"),
    [("", "is a folder"), ("no/such/out", "cannot be written: No such file or directory")],
)
def test_a_place_that_cannot_be_written_gets_a_sentence(tmp_path: Path, name: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence), _written_to(tmp_path / name):
        pass
