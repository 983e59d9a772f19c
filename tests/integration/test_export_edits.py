"""An exported file against random edits: every one is found, whatever the editor makes fit again."""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.integration.stored_records import exported, signer, store_ended
from workers.errors import InputError
from workers.provenance.check import examine, examine_file
from workers.provenance.digest import digest
from workers.provenance.export import Document, file_of, read_file, sealed_digest
from workers.provenance.session import Database
from workers.provenance.signing import EXPORT, Signer, public_text

QUICK = settings(deadline=None, database=None, max_examples=150, suppress_health_check=list(HealthCheck))
#: What an editor cannot make fit again without breaking the chain, even where nothing is signed.
CHAINED = ("run", "events", "calls", "payloads")


@pytest.fixture
def document(database: Database) -> Document:
    database.sign_with(signer())
    store_ended(database)
    return exported(database, by=signer())


def leaves(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The paths of all values that hold no others."""
    inner = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    )
    if inner is None:
        yield path
        return
    for key, item in inner:
        yield from leaves(item, (*path, key))


def branches(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The paths of everything that could be left out."""
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield (*path, key)
            yield from branches(item, (*path, key))


def at(document: Any, path: tuple[str | int, ...]) -> Any:
    for key in path:
        document = document[key]
    return document


def other_than(value: Any) -> st.SearchStrategy[Any]:
    anything = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
    if isinstance(value, str) and value:
        place = st.integers(0, len(value) - 1)
        edited = st.builds(
            lambda where, letter: value[:where] + letter + value[where + 1 :],
            place,
            st.characters(codec="utf-8"),
        )
        anything |= edited
    return anything.filter(lambda new: (type(new), new) != (type(value), value))


def resealed(document: Document, by: Signer | None = None) -> Document:
    """As somebody without the key would: the digest fits again, and nothing is signed, or with another key."""
    document = {**document, "sealed_by": None if by is None else by.key_id}
    if by is not None and "keys" in document:
        document["keys"] = {**document["keys"], **{key: public_text(it) for key, it in by.trusted.items()}}
    found = sealed_digest(document)
    signature = None if by is None else dataclasses.asdict(by.sign(EXPORT, {"digest": found}))
    return {**document, "seal": {"digest": found, "signature": signature}}


def test_every_changed_value_is_found(document: Document) -> None:
    paths = [*leaves(document), ("seal", "signature"), ("heads", 0, "signature")]

    @QUICK
    @given(data=st.data())
    def check(data: st.DataObject) -> None:
        path = data.draw(st.sampled_from(paths))
        edited = copy.deepcopy(document)
        at(edited, path[:-1])[path[-1]] = data.draw(other_than(at(document, path)))
        assert examine(edited).problems, path

    check()


def test_every_changed_value_of_the_record_is_found_though_the_file_was_sealed_anew(
    document: Document,
) -> None:
    paths = [path for path in leaves(document) if path[0] in CHAINED]
    assert examine(resealed(document)).problems == examine(resealed(document, signer(2))).problems == ()

    @QUICK
    @given(data=st.data())
    def check(data: st.DataObject) -> None:
        path = data.draw(st.sampled_from(paths))
        edited = copy.deepcopy(document)
        at(edited, path[:-1])[path[-1]] = data.draw(other_than(at(document, path)))
        assert examine(resealed(edited)).problems, path

    check()


def test_whatever_is_left_out_is_found_though_the_file_was_sealed_anew(document: Document) -> None:
    # A file without heads or keys is an unsigned one, which a verifier with a key refuses (below).
    paths = [path for path in branches(document) if path[0] in CHAINED]

    @QUICK
    @given(path=st.sampled_from(paths))
    def check(path: tuple[str | int, ...]) -> None:
        edited = copy.deepcopy(document)
        del at(edited, path[:-1])[path[-1]]
        assert examine(resealed(edited)).problems, path

    check()


def test_with_a_key_in_hand_no_part_can_be_changed_and_sealed_anew_even_with_another_key(
    document: Document,
) -> None:
    paths = list(branches(document))
    options = {"trusted": signer().trusted, "must_be_trusted": True}

    @QUICK
    @given(path=st.sampled_from(paths), number=st.sampled_from([None, 2]))
    def check(path: tuple[str | int, ...], number: int | None) -> None:
        edited = copy.deepcopy(document)
        del at(edited, path[:-1])[path[-1]]
        edited = resealed(edited, None if number is None else signer(number))
        assert examine(edited, **options).problems, path

    assert examine(document, **options).problems == ()
    check()


def test_a_signature_that_was_taken_away_is_told(document: Document) -> None:
    document["seal"]["signature"] = None
    assert examine(document).problems == (
        f"the signature of the export, by key {signer().key_id}, was taken away",
    )


def test_a_body_that_belongs_to_nothing_is_told(document: Document) -> None:
    document["payloads"][digest(b"x")] = "x"
    assert examine(resealed(document)).problems == (
        f"payload {digest(b'x')[:12]}… belongs to nothing in the ledger",
    )


def test_a_key_under_another_key_s_name_is_told(document: Document) -> None:
    (name,) = signer().trusted
    document["keys"] = {name: public_text(signer(2).trusted[signer(2).key_id])}
    assert "has another id" in examine(resealed(document)).problems[0]


def test_a_time_in_other_words_is_told(document: Document) -> None:
    document["events"][1]["at"] = document["events"][1]["at"].replace("T", " ")
    assert examine(resealed(document)).problems == ("the time of event 2 was written anew",)


def test_every_other_byte_is_found(document: Document) -> None:
    raw = file_of(document)
    assert examine_file(raw, read_file(raw, name="a file")).problems == ()

    @settings(parent=QUICK, max_examples=300)
    @given(
        where=st.integers(0, len(raw) - 1),
        gone=st.integers(0, 3),
        put=st.binary(max_size=3),
    )
    def check(where: int, gone: int, put: bytes) -> None:
        edited = raw[:where] + put + raw[where + gone :]
        if edited == raw:
            return
        try:
            found = read_file(edited, name="a file")
        except InputError:
            return
        assert examine_file(edited, found).problems

    check()


@pytest.mark.parametrize("form", [{"indent": 2}, {"ensure_ascii": True, "separators": (", ", ":")}, {}])
def test_the_same_values_written_by_something_else_are_not_the_file(
    document: Document, form: dict[str, Any]
) -> None:
    raw = json.dumps(document, **form).encode()
    assert examine_file(raw, json.loads(raw)).problems == (
        "the file was written anew by something else: its bytes are not those that were exported",
    )


@pytest.mark.parametrize(
    "raw", [b"", b"{}", b"[]", b"null", b"\xff", b'{"format":"consensus-provenance/2"}', b"[" * 100_000]
)
def test_what_is_no_export_is_refused_with_a_sentence(raw: bytes) -> None:
    with pytest.raises(InputError, match="consensus provenance export"):
        read_file(raw, name="a file")


@pytest.mark.parametrize(
    "part", ["run", "events", "calls", "heads", "keys", "payloads", "dropped", "sealed_by", "seal"]
)
@pytest.mark.parametrize("value", [None, 1, "x", [], {}, [None], [[]], {"a": None}])
def test_a_record_of_another_shape_is_a_problem_and_no_error(
    document: Document, part: str, value: Any
) -> None:
    edited = {**document, part: value}
    if edited != document:
        assert examine(edited).problems
