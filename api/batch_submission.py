"""A batch on its way from a spooled body into the database, in two passes: every line is checked and its run prepared
in a second temporary file, and only when all of them are known to be good is anything written, in one transaction.

Memory holds one chunk of runs, and some 50 bytes a line to know duplicates by."""

from __future__ import annotations

import codecs
import dataclasses
import hashlib
import secrets
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, BinaryIO, cast

from pydantic import ValidationError

from api.batch_schemas import BatchOptions, BatchRequest
from api.body_spool import Spool
from api.checked_run import CheckedRun
from api.dependencies import Services, new_batch_id, now
from api.errors import sentence_of
from api.estimates import LeadShares
from api.spec_lines import BadLine, check_value, lines_of, parse_line
from workers.core.identity import make_id
from workers.core.seen import SeenDigests
from workers.core.team import EquippedTeam
from workers.errors import DeadlockError, InputError, SpecError, SpecLinesError
from workers.provenance.digest import canonical, digest
from workers.provenance.repository import batches
from workers.provenance.repository.batches import MAX_SKIPPED_KEPT, Batch, NewBatch
from workers.provenance.repository.bulk_runs import PreparedRun, prepare
from workers.teams import load_team

#: Bad lines that a refusal names.
MAX_FAULTS_SHOWN = 20
#: Batches with the same lines in another order can wait for each other; the database lets one of them go on.
_ATTEMPTS = 5


#: The number of a line, and what reads it: a JSON value, or a SpecError.
_Line = tuple[int, Callable[[], Any]]


def submit_lines(
    spool: Spool, options: BatchOptions, services: Services, *, tenant_id: str, idempotency_key: str | None
) -> tuple[Batch, bool]:
    """Store a batch of lines; (batch, whether it is new). Takes its time: call it from a thread.

    Raises: SpecLinesError with the bad lines unless they are to be skipped; InputError; IdempotencyConflictError.
    """
    lines = _written_lines(spool.file, most_blank=services.max_batch_runs)
    return _submit(lines, spool, options, services, tenant_id, idempotency_key)


def submit_json(
    spool: Spool, services: Services, *, tenant_id: str, idempotency_key: str | None
) -> tuple[Batch, bool]:
    """The same for a body that is one JSON object; its specs are numbered like lines. Raises: as above."""
    try:
        value = parse_line(spool.file.read().removeprefix(codecs.BOM_UTF8))
        if not isinstance(value, dict):
            raise SpecError('is no JSON object; write {"specs": [{"spec": "…"}]}')
        body = BatchRequest.model_validate(value)
    except ValidationError as error:
        raise InputError(sentence_of(error.errors(include_url=False))) from None
    except SpecError as error:
        raise InputError(f"the body {error}") from None
    lines = ((number, partial(_same, value)) for number, value in enumerate(body.specs, start=1))
    return _submit(lines, spool, body, services, tenant_id, idempotency_key)


def _same(value: Any) -> Any:
    return value


def _written_lines(file: BinaryIO, *, most_blank: int) -> Iterator[_Line]:
    """Blank lines are none, but count for the numbers. Raises: InputError for a file of nothing but them."""
    blank = 0
    for number, line in lines_of(file):
        if line.strip():
            yield number, partial(parse_line, line)
            continue
        blank += 1
        if blank > most_blank:
            raise InputError(f"the batch has more than {most_blank:,} blank lines; leave them out")


def _submit(
    lines: Iterator[_Line],
    spool: Spool,
    options: BatchOptions,
    services: Services,
    tenant_id: str,
    idempotency_key: str | None,
) -> tuple[Batch, bool]:
    services.webhooks.check(options.webhook_url)
    asked = options.model_dump(mode="json", exclude={"specs"})
    new = NewBatch(
        batch_id=new_batch_id(),
        request_digest=digest(canonical([asked, spool.digest])),
        name=options.name,
        priority=options.priority,
        concurrency=options.concurrency,
        budget=options.budget,
        webhook_url=options.webhook_url,
        tenant_id=tenant_id,
        idempotency_key=idempotency_key,
    )
    with services.database.begin() as connection:
        repeated = batches.find_repeat(connection, new)
    if repeated is not None:
        return repeated, False
    with tempfile.TemporaryFile() as file:
        checked = _Checked(cast(BinaryIO, file), options, services, tenant_id)
        checked.check_default_team()
        for number, read in lines:
            checked.take(number, read)
        return _store(checked.as_batch(new), checked, services)


def _store(new: NewBatch, checked: _Checked, services: Services) -> tuple[Batch, bool]:
    for attempt in range(_ATTEMPTS):
        try:
            with services.database.begin() as connection:
                return batches.create(connection, new, checked.prepared(), at=now())
        except DeadlockError:
            if attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError("the loop returns or raises")


class _Checked:
    """The first pass: what the lines come to so far."""

    def __init__(self, file: BinaryIO, options: BatchOptions, services: Services, tenant_id: str) -> None:
        self._file = file
        self._options = options
        self._services = services
        self._tenant_id = tenant_id
        self._shares = LeadShares(services, options.budget)
        self._teams = _Teams(services)
        self._requests = SeenDigests()
        self._ids = SeenDigests()
        self._lines = 0
        self._runs = 0
        self._duplicates = 0
        self._bad: list[BadLine] = []
        self._bad_count = 0
        self._at = now()
        # Ids that sort like the lines: chance once, then counted up.
        self._chance = secrets.randbits(79)

    def check_default_team(self) -> None:
        """One sentence, instead of one for each line that names no team. Raises: UnknownTeamError, ManifestError."""
        if self._options.team is not None:
            self._teams.named(self._options.team)

    def take(self, number: int, read: Callable[[], Any]) -> None:
        """One line. Raises: InputError when there are too many."""
        self._lines += 1
        if self._lines > self._services.max_batch_runs:
            raise InputError(
                f"the batch has more than {self._services.max_batch_runs:,} lines; send them in several batches"
            )
        try:
            line = check_value(read(), default_team=self._options.team)
            self._services.webhooks.check(line.body.webhook_url)
            run = self._prepare(number, line)
            if run is None:
                return
        except InputError as error:
            self._bad_count += 1
            if len(self._bad) < MAX_SKIPPED_KEPT:
                self._bad.append(BadLine.of(number, error))
            return
        self._runs += 1
        if self._options.skip_bad or not self._bad_count:
            self._file.write(run.as_record())

    def _prepare(self, number: int, checked: CheckedRun) -> PreparedRun | None:
        """None for a duplicate. Raises: InputError."""
        team = self._teams.named(checked.body.team)
        share = self._shares.share_of(team.team, checked)
        chance = (self._chance + number).to_bytes(10)
        new = checked.new_run(
            run_id=make_id("run", self._at, chance),
            team=team.data,
            tenant_id=self._tenant_id,
            lead_share=share,
        )
        run = prepare(new, position=number, team_digest=team.digest, lead_share=share)
        if self._is_duplicate(run):
            self._duplicates += 1
            return None
        return run

    def _is_duplicate(self, run: PreparedRun) -> bool:
        """Raises: SpecError for an id that another line has."""
        request = bytes.fromhex(run.request_digest)
        if run.external_id is not None:
            own = hashlib.sha256(run.external_id.encode()).digest()
            first = self._ids.first_line(own, run.position)
            # The digest covers the id: whatever says the same has the same id.
            if first != run.position and self._requests.line_of(request) is None:
                raise SpecError(
                    f"the id {run.external_id[:80]!r} is that of line {first}, which asks for something else; "
                    "give each line an id of its own"
                )
        return self._requests.first_line(request, run.position) != run.position

    def as_batch(self, new: NewBatch) -> NewBatch:
        """The batch with what the lines came to. Raises: SpecLinesError, InputError."""
        if self._bad_count and not (self._options.skip_bad and self._runs):
            first = self._bad[0]
            raise SpecLinesError(
                f"{self._bad_count:,} of {self._lines:,} lines cannot be used, so nothing was stored; "
                f"line {first.line}: {first.problem}",
                faults=tuple((bad.line, bad.problem) for bad in self._bad[:MAX_FAULTS_SHOWN]),
                count=self._bad_count,
            )
        if not self._runs:
            raise InputError('the batch is empty; send one JSON object a line, such as {"spec": "…"}')
        return dataclasses.replace(
            new,
            run_count=self._runs,
            duplicate_count=self._duplicates,
            skipped_count=self._bad_count,
            skipped=[dataclasses.asdict(bad) for bad in self._bad],
            teams=self._teams.data(),
        )

    def prepared(self) -> Iterator[PreparedRun]:
        """The runs in the order of their lines, from the beginning."""
        self._file.seek(0)
        for record in self._file:
            yield PreparedRun.of_record(record)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Team:
    team: EquippedTeam
    data: dict[str, Any]
    digest: str


class _Teams:
    """Each team is read once, and stays as it is for the whole batch."""

    def __init__(self, services: Services) -> None:
        self._folders = services.team_folders
        self._by_word: dict[str, _Team] = {}
        self._by_name: dict[str, _Team] = {}

    def named(self, word: str) -> _Team:
        """By name or alias. Raises: UnknownTeamError, ManifestError."""
        known = self._by_word.get(word)
        if known is not None:
            return known
        team = load_team(word, self._folders).team
        data = team.as_data()
        found = _Team(team=team, data=data, digest=digest(canonical(data)))
        self._by_word[word] = self._by_name.setdefault(team.name, found)
        return self._by_word[word]

    def data(self) -> list[dict[str, Any]]:
        return [known.data for known in self._by_name.values()]
