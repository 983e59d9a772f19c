"""The file that a backup is written into."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from workers.cli.backup import _written


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
