"""Whether a run's record is what was written: pure, from an export alone (`export.py`), without any database.

Five things are held against each other: the chain of the ledger, bodies against their digests, the calls and the run's
own facts against what the ledger says of them, the heads that were put on record and signed, and anchors."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from workers.errors import SettingsError
from workers.provenance.digest import GENESIS, canonical, digest
from workers.provenance.export import file_of, sealed_digest
from workers.provenance.heads import HEAD_KINDS, Head, head_data
from workers.provenance.ledger import Event, stamp, verify
from workers.provenance.repository.call_records import ENDED_LATE, SEALED
from workers.provenance.signing import EXPORT, HEAD, Signature, is_good, read_public_keys

#: The last event of a run at work, and the state that it leaves the run in.
_ENDINGS = {"run.finished": "finished", "run.cancelled": "cancelled"}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Anchored:
    """A head that was exported: where it stood, and in which anchor."""

    number: int
    at: str
    seq: int
    head: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What was found. `problems`: sentences, the most telling first; none: the record is what was written. `notes`:
    what a reader has to know besides. `signed_by`: ids of the keys whose signatures hold."""

    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()
    signed_by: tuple[str, ...] = ()
    events: int = 0


def examine(
    document: Mapping[str, Any],
    *,
    trusted: Mapping[str, bytes] | None = None,
    must_be_trusted: bool = False,
    anchored: Sequence[Anchored] = (),
) -> Report:
    """Check a record. `trusted`: public keys by id; with `must_be_trusted` one of them must have signed the end.

    A record of another shape has that as its problem; nothing is raised.
    """
    examination = _Examination(
        document=document, trusted=dict(trusted or {}), must_be_trusted=must_be_trusted, anchored=anchored
    )
    problems: list[str] = []
    try:
        problems.extend(examination.problems())
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, SettingsError) as error:
        # What was found before explains it.
        if not problems:
            problems = [
                f"a part of the record is not as it was written ({type(error).__name__}: {str(error)[:200]})"
            ]
    return Report(
        problems=tuple(problems),
        notes=tuple(examination.notes),
        signed_by=tuple(sorted(examination.signed_by)),
        events=len(examination.entries),
    )


def examine_file(raw: bytes, document: Mapping[str, Any], **options: Any) -> Report:
    """`examine` for a file as it lies: its bytes must be the one form of its content."""
    report = examine(document, **options)
    if not report.problems and file_of(dict(document)) != raw:
        problem = "the file was written anew by something else: its bytes are not those that were exported"
        return dataclasses.replace(report, problems=(problem,))
    return report


def heads_fault(entries: Sequence[Event], recorded: Sequence[Head]) -> str | None:
    """Why the heads on record are not those of this ledger, in a sentence, or None."""
    for head in recorded:
        if head.seq > len(entries):
            return (
                f"the ledger was cut off: it has {len(entries)} events, "
                f"and had {head.seq} when its head was put on record"
            )
        if not head.seq >= 1 or entries[head.seq - 1].hash != head.head:
            return f"event {head.seq} is not the one whose hash was put on record as the head"
    late = [entry.seq for entry in entries if entry.kind in HEAD_KINDS]
    if recorded and late and late[-1] > recorded[-1].seq:
        return f"the head after event {late[-1]} is not on record any more"
    return None


@dataclasses.dataclass(slots=True, kw_only=True)
class _Examination:
    document: Mapping[str, Any]
    trusted: dict[str, bytes]
    must_be_trusted: bool
    anchored: Sequence[Anchored]
    entries: list[Event] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)
    signed_by: set[str] = dataclasses.field(default_factory=set)
    redacted: set[str] = dataclasses.field(default_factory=set)
    error_gone: set[str] = dataclasses.field(default_factory=set)

    def problems(self) -> Iterator[str]:
        self.entries = [self._event(item) for item in self.document["events"]]
        yield from self._chain()
        for entry in self.entries:
            if entry.kind == "payload.redacted" and entry.payload is not None:
                self.redacted |= set(entry.payload["digests"])
                self.error_gone |= set(entry.payload["calls"])
        yield from self._bodies()
        yield from self._facts()
        yield from self._calls()
        yield from self._heads()
        yield from self._anchors()
        yield from self._seal()

    def _event(self, item: Mapping[str, Any]) -> Event:
        body = self.document["payloads"].get(item["payload_digest"])
        return Event(
            run_id=self.document["run"]["run_id"],
            seq=item["seq"],
            kind=item["kind"],
            at=dt.datetime.fromisoformat(item["at"]),
            # A body that was changed is told by its digest below.
            payload=None
            if body is None or digest(body.encode()) != item["payload_digest"]
            else json.loads(body),
            payload_digest=item["payload_digest"],
            previous_hash=item["previous_hash"],
            hash=item["hash"],
        )

    def _chain(self) -> Iterator[str]:
        run = self.document["run"]
        fault = verify(self.entries, run_id=run["run_id"], head=run["head"], genesis=GENESIS)
        if fault is not None:
            yield fault
        for item, entry in zip(self.document["events"], self.entries, strict=True):
            if item["at"] != stamp(entry.at):
                yield f"the time of event {entry.seq} was written anew"
        if fault is None and run["seq"] != len(self.entries):
            yield f"the run's row counts {run['seq']} events, and there are {len(self.entries)}"

    def _bodies(self) -> Iterator[str]:
        bodies, dropped = self.document["payloads"], self.document["dropped"]
        gone = 0
        seen: set[str] = set()
        for key, what in self._named():
            if key in seen:
                continue
            seen.add(key)
            if key in bodies:
                if digest(bodies[key].encode()) != key:
                    yield f"the {what} was changed"
            elif key in self.redacted or (key in dropped and dropped[key]["why"] not in {None, "redacted"}):
                gone += 1
            else:
                yield f"the {what} is missing, and nothing says who took it away"
        for key in sorted(bodies.keys() - seen):
            yield f"payload {key[:12]}… belongs to nothing in the ledger"
        if gone:
            self.notes.append(f"{gone} payloads were redacted or dropped; their digests are in the chain")

    def _named(self) -> Iterator[tuple[str, str]]:
        """The digests of all payloads of the run, and what each is."""
        for entry in self.entries:
            yield entry.payload_digest, f"payload of event {entry.seq}"
        run = self.document["run"]
        yield run["team_digest"], "team"
        yield run["input_digest"], "submitted material"
        for call in self.document["calls"]:
            yield call["request_digest"], f"request of call {call['call_id']}"
            if call["reply_digest"] is not None:
                yield call["reply_digest"], f"reply of call {call['call_id']}"

    def _facts(self) -> Iterator[str]:
        run = self.document["run"]
        created = self.entries[0].payload if self.entries else None
        if created is not None:
            for name in ("tenant", "team", "external_id", "team_digest", "input_digest"):
                # Earlier versions said less.
                if name in created and canonical(run[name]) != canonical(created[name]):
                    yield f"the run's {name} is not what event 1 says"
        said = [entry.payload for entry in self.entries]
        is_simulated = any(isinstance(value, dict) and value.get("simulated") is True for value in said)
        if run["is_simulated"] is not is_simulated and (is_simulated or None not in said):
            marked = "marked" if run["is_simulated"] else "not marked"
            yield f"the run is {marked} as simulated, and its ledger says otherwise"
        rounds = 1 + sum(entry.kind == "round.opened" for entry in self.entries)
        if canonical(run["round"]) != canonical(rounds):
            yield f"the run is in round {run['round']}, and its ledger in {rounds}"
        ending = self._ending()
        state = None if ending is None else _ENDINGS[ending.kind]
        has_ended = run["state"] in _ENDINGS.values()
        if run["state"] != state and (has_ended or state is not None):
            yield f"the run's state is {run['state']}, and its ledger says {state or 'that it has not ended'}"
        verdict = ending if ending is not None and ending.kind == "run.finished" else None
        if run["verdict_digest"] != (None if verdict is None else verdict.payload_digest):
            yield "the run's verdict is not the one in its ledger"
        outcome = None if verdict is None or verdict.payload is None else verdict.payload["outcome"]
        if run["outcome"] != outcome and (verdict is None or verdict.payload is not None):
            yield f"the run's outcome is {run['outcome']}, and its ledger says {outcome}"

    def _ending(self) -> Event | None:
        return next((entry for entry in self.entries if entry.kind in _ENDINGS), None)

    def _calls(self) -> Iterator[str]:
        ending = self._ending()
        if ending is None:
            self.notes.append("the run is at work: its calls enter the ledger when it ends")
            return
        ended_on_record = any(head["seq"] == ending.seq for head in self.document["heads"])
        if not ended_on_record and not any(entry.kind == SEALED for entry in self.entries):
            self.notes.append("the run is of a version that kept no calls in the ledger")
            return
        told: dict[str, Any] = {}
        for entry in self.entries:
            if entry.kind not in {SEALED, ENDED_LATE}:
                continue
            if entry.payload is None:
                self.notes.append(
                    "the calls cannot be checked: their part of the ledger was redacted or dropped"
                )
                return
            for record in entry.payload["calls"] if entry.kind == SEALED else [entry.payload["call"]]:
                told[record["call_id"]] = record
        yield from self._differing(told, {call["call_id"]: call for call in self.document["calls"]})

    def _differing(self, told: Mapping[str, Any], found: Mapping[str, Any]) -> Iterator[str]:
        if len(found) != len(self.document["calls"]):
            yield "a call is there twice"
        for name in sorted(told.keys() - found.keys()):
            yield f"call {name} is missing"
        for name in sorted(found.keys() - told.keys()):
            # Its worker was thought lost when the run ended, and it has not ended yet: nothing is claimed of it.
            if found[name]["state"] != "sent" or found[name]["ended_at"] is not None:
                yield f"call {name} is not in the ledger"
        for name in sorted(told.keys() & found.keys()):
            one, other = dict(told[name]), dict(found[name])
            if name in self.error_gone:
                one["error_digest"] = other["error_digest"] = None
            changed = [
                key
                for key in sorted({*one, *other})
                if key not in one or key not in other or canonical(one[key]) != canonical(other[key])
            ]
            if changed:
                yield f"call {name} was changed: {', '.join(changed)}"

    def _heads(self) -> Iterator[str]:
        recorded = [self._head(item) for item in self.document["heads"]]
        fault = heads_fault(self.entries, recorded)
        if fault is not None:
            yield fault
        brought = self._brought_keys()
        for head in recorded:
            value = head_data(head.run_id, head.seq, head.head)
            yield from self._signature(head.signature, HEAD, value, brought, f"head after event {head.seq}")
        last = recorded[-1].signature if recorded else None
        if self._ending() is not None:
            if not recorded:
                self.notes.append("unsigned: no head is on record; what an anchor says is all there is")
            elif last is None:
                self.notes.append("unsigned: no signing key was set when the head was put on record")
        if self.must_be_trusted and (last is None or last.key_id not in self.trusted):
            yield "the end of the ledger is not signed by a key that you trust"

    def _head(self, item: Mapping[str, Any]) -> Head:
        return Head(
            run_id=self.document["run"]["run_id"],
            seq=item["seq"],
            head=item["head"],
            signature=None if item["signature"] is None else _signature_of(item["signature"]),
        )

    def _brought_keys(self) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for name, words in self.document["keys"].items():
            keys = read_public_keys(words)
            if list(keys) != [name]:
                raise ValueError(f"the key {name} has another id")
            found |= keys
        return found

    def _signature(
        self,
        signature: Signature | None,
        purpose: str,
        value: Mapping[str, Any],
        brought: Mapping[str, bytes],
        what: str,
    ) -> Iterator[str]:
        if signature is None:
            return
        holds = is_good(signature, purpose, value, {**brought, **self.trusted})
        if holds is None:
            self._note(f"the {what} is signed by key {signature.key_id}, which is not known here")
        elif not holds:
            yield f"the signature of the {what} is not that of key {signature.key_id}"
        else:
            self.signed_by.add(signature.key_id)
            if signature.key_id not in self.trusted:
                self._note(
                    f"key {signature.key_id} came with the record: compare it with the one that you were given, "
                    "or name that one with --key"
                )

    def _note(self, sentence: str) -> None:
        if sentence not in self.notes:
            self.notes.append(sentence)

    def _anchors(self) -> Iterator[str]:
        for anchor in self.anchored:
            if anchor.seq > len(self.entries):
                yield (
                    f"the ledger was cut off: it has {len(self.entries)} events, "
                    f"and had {anchor.seq} in anchor {anchor.number} of {anchor.at}"
                )
            elif self.entries[anchor.seq - 1].hash != anchor.head:
                yield (
                    f"event {anchor.seq} is not the one in anchor {anchor.number} of {anchor.at}: "
                    "the ledger was rewritten"
                )

    def _seal(self) -> Iterator[str]:
        seal, sealed_by = self.document["seal"], self.document["sealed_by"]
        found = sealed_digest(self.document)
        if seal["digest"] != found or seal.keys() != {"digest", "signature"}:
            yield "the record was changed after it was exported: its digest is another"
        if self.must_be_trusted and sealed_by not in self.trusted:
            yield "the export is not signed by a key that you trust"
        if seal["signature"] is None:
            if sealed_by is not None:
                yield f"the signature of the export, by key {sealed_by}, was taken away"
            return
        signature, brought = _signature_of(seal["signature"]), self._brought_keys()
        if signature.key_id != sealed_by or sealed_by not in {**brought, **self.trusted}:
            yield f"the export is signed with another key than {sealed_by}, which came with it"
        else:
            yield from self._signature(signature, EXPORT, {"digest": found}, brought, "export")


def _signature_of(item: Mapping[str, Any]) -> Signature:
    return Signature(**item)
