"""A batch as a SARIF 2.1.0 log that is written while its runs are read: nothing grows with the batch but a file of
notes that the caller brings.

A line of the log holds the results of one run of the batch. What a SARIF run says about all of its results (rules,
notifications, when it began) stands behind them, which JSON does not mind."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

from workers.sarif.results import Result, RunFacts
from workers.sarif.rules import RuleBook
from workers.sarif.write import MAX_RESULTS, SCHEMA, notes_of, result_object

_PIECE_BYTES = 64 * 1024


class SarifStream:
    """`begin`, `add` for each run of the batch in order, `end`; the bytes in that order are the log.

    A SARIF run that is full (`MAX_RESULTS`, what code hosts take) is closed, and another begun. `notes` is an empty
    file for reading and writing. `version` is this program's.
    """

    def __init__(
        self, batch_id: str, *, version: str, notes: IO[bytes], most_results: int = MAX_RESULTS
    ) -> None:
        self._batch_id = batch_id
        self._version = version
        self._notes = notes
        self._most_results = most_results
        self._part = 0
        self._reset()

    def _reset(self) -> None:
        self._part += 1
        self._book = RuleBook()
        self._seen: Counter[str] = Counter()
        self._results = 0
        self._outcomes: Counter[str] = Counter()
        self._is_simulated = False
        self._first: str | None = None
        self._last: str | None = None
        self._has_notes = False
        self._notes.seek(0)
        self._notes.truncate()

    def begin(self) -> bytes:
        """What stands before all results."""
        return _bytes(f'{{"$schema":{_json(SCHEMA)},"version":"2.1.0","runs":[{_OPENING}\n')

    def add(self, results: Sequence[Result], facts: RunFacts, verdict: Mapping[str, Any]) -> Iterator[bytes]:
        """One run's results as a line, behind the end of a SARIF run that has become too full for them.

        `facts` and `verdict` are the run's own; one without a verdict is counted, and has nothing to tell.
        """
        if self._results and self._results + len(results) > self._most_results:
            yield from self._close()
            self._reset()
            yield _bytes(f",{_OPENING}\n")
        parts = []
        for item in results:
            comma = "," if self._results else ""
            parts.append(comma + _json(result_object(item, self._book.index(item), self._seen)))
            self._results += 1
        self._note(facts, verdict)
        yield _bytes("".join(parts) + "\n")

    def end(self) -> Iterator[bytes]:
        """What stands behind all results."""
        yield from self._close()
        yield b"]}\n"

    def _note(self, facts: RunFacts, verdict: Mapping[str, Any]) -> None:
        self._outcomes[facts.outcome] += 1
        self._is_simulated |= facts.is_simulated
        # ISO 8601 in UTC sorts as time does.
        if facts.started_at and (self._first is None or facts.started_at < self._first):
            self._first = facts.started_at
        if facts.finished_at and (self._last is None or facts.finished_at > self._last):
            self._last = facts.finished_at
        for told in notes_of(facts, verdict):
            self._notes.write(_bytes(("," if self._has_notes else "") + _json(told)))
            self._has_notes = True

    def _close(self) -> Iterator[bytes]:
        driver = {"name": "Consensus", "semanticVersion": self._version, "rules": self._book.rules()}
        # Hosts replace what came before under the same words up to the last slash.
        category = "consensus/batch/" if self._part == 1 else f"consensus/batch/{self._part}/"
        invocation = {
            "executionSuccessful": not self._outcomes["degraded"],
            **({"startTimeUtc": self._first} if self._first else {}),
            **({"endTimeUtc": self._last} if self._last else {}),
        }
        properties = {
            "batch": self._batch_id,
            "outcomes": dict(sorted(self._outcomes.items())),
            "simulated": self._is_simulated,
        }
        yield _bytes(
            f'],"tool":{_json({"driver": driver})},"automationDetails":{_json({"id": category})},'
            f'"columnKind":"unicodeCodePoints","properties":{_json(properties)},'
            f'"invocations":[{_json(invocation)[:-1]},"toolExecutionNotifications":['
        )
        self._notes.seek(0)
        while piece := self._notes.read(_PIECE_BYTES):
            yield piece
        yield b"]}]}"


#: Results come first: what stands behind them is only known then.
_OPENING = '{"results":['


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _bytes(text: str) -> bytes:
    # A lone surrogate, which a model can write and JSON can carry, has no place in UTF-8.
    return text.encode("utf-8", "replace")
