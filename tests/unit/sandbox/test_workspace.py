"""A workspace becomes an archive of plain files, or is refused with a sentence."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.errors import InputError
from workers.sandbox import workspace
from workers.sandbox.workspace import from_folder, pack

NAMES = st.text(st.characters(categories=("L", "N", "P", "Zs")), min_size=1, max_size=20)
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)


def entries(archive: bytes) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        return {entry.name: entry for entry in opened}


def content(archive: bytes, name: str) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        file = opened.extractfile(name)
        assert file is not None
        return file.read()


def test_files_get_their_folders_and_plain_permissions() -> None:
    archive = pack({"b/c.py": "é", "a.bin": b"\x00"})

    found = entries(archive)
    assert {name: (entry.type, oct(entry.mode), entry.uid) for name, entry in found.items()} == {
        "b": (tarfile.DIRTYPE, "0o755", 0),
        "a.bin": (tarfile.REGTYPE, "0o644", 0),
        "b/c.py": (tarfile.REGTYPE, "0o644", 0),
    }
    assert content(archive, "b/c.py") == "é".encode()
    assert content(archive, "a.bin") == b"\x00"


def test_the_same_files_are_the_same_bytes_in_any_order() -> None:
    assert pack({"a": "1", "b/c": "2"}) == pack({"b/c": b"2", "a": b"1"})


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/etc/passwd",
        "../x",
        "a/../../x",
        "a/./b",
        "a//b",
        "a/",
        ".",
        "..",
        "a\\b",
        "a\0b",
        "a\nb",
        "\ud800",
        "x" * 256,
        "/".join(["d" * 200] * 6),
    ],
)
def test_a_path_that_is_not_plain_and_relative_is_refused(path: str) -> None:
    with pytest.raises(InputError, match="must be relative, with plain names between slashes"):
        pack({path: ""})


@given(st.dictionaries(PATHS | st.text(max_size=30), st.binary(max_size=10), max_size=5))
def test_whatever_is_packed_lies_below_the_root_as_a_regular_file(files: dict[str, bytes]) -> None:
    try:
        archive = pack(files)
    except InputError:
        return
    found = entries(archive)
    assert {name for name, entry in found.items() if entry.isreg()} == set(files)
    for name, entry in found.items():
        assert entry.isreg() or entry.isdir()
        assert not Path(name).is_absolute()
        assert ".." not in Path(name).parts


def test_a_file_cannot_be_a_folder_too() -> None:
    with pytest.raises(InputError, match="'a/b' is a file and a folder at once"):
        pack({"a/b": "", "a/b/c": ""})


def test_the_bounds_are_the_largest_that_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace, "MAX_FILES", 3)
    monkeypatch.setattr(workspace, "MAX_FILE_BYTES", 10)
    monkeypatch.setattr(workspace, "MAX_TOTAL_BYTES", 25)

    pack({"a": b"x" * 10, "b": b"x" * 10, "c": b"x" * 5})
    with pytest.raises(InputError, match="more than 3 files"):
        pack(dict.fromkeys("abcd", ""))
    with pytest.raises(InputError, match="'a' has 11 bytes; 10 are the most"):
        pack({"a": b"x" * 11})
    with pytest.raises(InputError, match="more than 25 bytes"):
        pack({"a": b"x" * 10, "b": b"x" * 10, "c": b"x" * 6})


def test_a_folder_is_read_without_what_is_hidden_or_made(tmp_path: Path) -> None:
    for name in ("code.py", "pkg/mod.py", ".git/config", "pkg/__pycache__/mod.pyc", ".env"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name, encoding="utf-8")

    assert from_folder(tmp_path) == {"code.py": b"code.py", "pkg/mod.py": b"pkg/mod.py"}


def test_a_symbolic_link_in_a_folder_is_refused_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("key", encoding="utf-8")
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "link.py").symlink_to(tmp_path / "secret")

    with pytest.raises(InputError, match=r"link\.py is a symbolic link"):
        from_folder(tmp_path / "code")


def test_a_link_to_a_folder_is_refused_too(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path)

    with pytest.raises(InputError, match="loop is a symbolic link"):
        from_folder(tmp_path)


def test_a_pipe_is_refused_before_anybody_waits_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(InputError, match="pipe is no regular file"):
        from_folder(tmp_path)


def test_what_is_no_folder_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere is not a folder"):
        from_folder(tmp_path / "nowhere")
