"""A file of specs on its way: in pieces, plain or packed, as often as it is asked for."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from workers.cli import specs_file
from workers.cli.specs_file import SpecsFile
from workers.errors import InputError

TEXT = b'{"spec": "one"}\n{"spec": "two"}\n'


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(specs_file, "PIECE_BYTES", 5)


def test_it_can_be_sent_twice_and_each_piece_is_told(tmp_path: Path) -> None:
    place = tmp_path / "specs.jsonl"
    place.write_bytes(TEXT)
    told: list[int] = []
    with SpecsFile.opened(str(place)) as file:
        assert (file.size_bytes, file.is_packed) == (32, False)
        for _ in range(2):
            pieces = list(file.pieces(told.append))
            assert b"".join(pieces) == TEXT
            assert max(map(len, pieces)) == 5
    assert sum(told) == 64


def test_a_packed_file_has_the_digest_of_its_text_and_is_sent_packed(tmp_path: Path) -> None:
    plain, packed = tmp_path / "a", tmp_path / "b"
    plain.write_bytes(TEXT)
    # Known by its first bytes, whatever its name.
    packed.write_bytes(gzip.compress(TEXT))
    with SpecsFile.opened(str(plain)) as one, SpecsFile.opened(str(packed)) as other:
        assert one.digest == other.digest
        assert (other.is_packed, other.size_bytes) == (True, packed.stat().st_size)
        assert b"".join(other.pieces()) == packed.read_bytes()


@pytest.mark.parametrize("body", [b"", b"\n \n\t\n" * 100])
def test_nothing_but_blanks_is_no_batch(tmp_path: Path, body: bytes) -> None:
    place = tmp_path / "specs.jsonl"
    place.write_bytes(body)
    with pytest.raises(InputError, match="holds no spec"), SpecsFile.opened(str(place)):
        pass


def test_a_damaged_gzip_file_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "specs.gz"
    body = bytearray(gzip.compress(TEXT * 50))
    body[len(body) // 2] ^= 0xFF
    place.write_bytes(body)
    with pytest.raises(InputError, match="is no whole gzip file"), SpecsFile.opened(str(place)):
        pass
