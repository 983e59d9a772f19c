"""The file that a backup is written into."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from workers.cli.backup import _written
from workers.errors import InputError


@pytest.fixture
def open_handed() -> Iterator[None]:
    """A process that lets everybody read what it writes, if nothing is done about it."""
    before = os.umask(0)
    yield
    os.umask(before)


def test_a_backup_is_its_owner_s_alone_from_the_first_byte_on(tmp_path: Path, open_handed: None) -> None:
    target = tmp_path / "night.backup"
    with _written(str(target)) as out:
        out.write(b"every spec and reply")
        out.flush()
        (draft,) = tmp_path.iterdir()
        assert stat.S_IMODE(draft.stat().st_mode) == 0o600
        assert not target.exists()
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["night.backup"]


def test_a_backup_that_breaks_off_leaves_the_one_before(tmp_path: Path) -> None:
    target = tmp_path / "night.backup"
    target.write_bytes(b"of yesterday")
    with pytest.raises(ValueError, match="closed"), _written(str(target)) as out:
        out.close()
    assert target.read_bytes() == b"of yesterday"
    assert [path.name for path in tmp_path.iterdir()] == ["night.backup"]


def test_a_link_stays_one_and_the_file_behind_it_is_written(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "latest.backup"
    link.symlink_to("elsewhere/disk.backup")
    with _written(str(link)) as out:
        out.write(b"rows")
    assert link.is_symlink()
    behind = tmp_path / "elsewhere/disk.backup"
    assert (behind.read_bytes(), stat.S_IMODE(behind.stat().st_mode)) == (b"rows", 0o600)


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    with _written(str(pipe)) as out:
        out.write(b"rows")
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    reader.join()
    assert read == [b"rows"]


def test_a_link_to_itself_and_a_folder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    for name in ("loop", ".", "no/such/folder"):
        with pytest.raises(InputError, match=str(tmp_path / name)), _written(str(tmp_path / name)):
            pass
