"""The way into this package for those who serve pages: opens runs, keeps the last of them, draws charts.

The scorer's modules are loaded when they are asked for the first time: they need NumPy, which an API that scores
nothing may lack."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from workers.errors import UnavailableError
from workers.inspection.address import RunAddress
from workers.inspection.night import Night, night_of
from workers.inspection.shelf import Shelf
from workers.provenance.repository import scored_runs, scorings, trajectory_files
from workers.provenance.repository.scored_runs import Filters, ListedRun, Standing
from workers.provenance.session import Database

if TYPE_CHECKING:
    from workers.inspection.alignment import Aligned
    from workers.inspection.charts import Charts
    from workers.inspection.opened import OpenedRun
    from workers.inspection.opening import Record

_RUNS_WEIGHT: Final = 96 << 20
_CHARTS_KEPT: Final = 16
_ROWS_AT_ONCE: Final = 2_000


@contextmanager
def _scorer() -> Iterator[None]:
    """Raises: UnavailableError where the scorer's libraries are missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise UnavailableError(
            f"{error.name} is not installed where the API runs: pip install 'consensus[score]'"
        ) from error


class Inspector:
    """What one process keeps open. Safe to be asked by several threads."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._runs: Shelf[OpenedRun] = Shelf(most_weight=_RUNS_WEIGHT, weight_of=lambda run: run.weight)
        self._charts: Shelf[Charts] = Shelf(most_weight=_CHARTS_KEPT, weight_of=lambda _: 1)

    def open(self, address: RunAddress, *, tenant_id: str) -> OpenedRun:
        """A run. Raises: NotFoundError; StateError; InputError for a file that cannot be read."""
        with _scorer():
            from workers.inspection.opening import open_file_run, open_scored

            if address.is_scored:
                return self._runs.get(
                    (tenant_id, str(address)),
                    lambda: open_scored(self._database, address, tenant_id=tenant_id),
                )
            with self._database.begin() as connection:
                file = trajectory_files.get(connection, address.owner, tenant_id=tenant_id)
                state = trajectory_files.folder_state(
                    connection, upload_set=file.upload_set, prefix=file.prefix, tenant_id=tenant_id
                )
            return self._runs.get(
                (tenant_id, str(address), file.digest, state),
                lambda: open_file_run(self._database, address, tenant_id=tenant_id),
            )

    def records(self, file_id: str, *, tenant_id: str) -> tuple[list[Record] | None, list[Standing]]:
        """The records of an uploaded file, None if no scoring has read it yet, and where they stand in scorings
        (`run_digest` being the record's number). Raises: NotFoundError; InputError for a file that is no run."""
        with _scorer():
            from workers.inspection.opening import records_of

            with self._database.begin() as connection:
                file = trajectory_files.get(connection, file_id, tenant_id=tenant_id)
            return records_of(self._database, file, tenant_id=tenant_id)

    def newest(self, address: RunAddress, *, tenant_id: str) -> RunAddress:
        """The same run as the newest finished scoring that holds it has it; the address itself if none does."""
        if address.is_scored:
            return address
        _, standings = self.records(address.owner, tenant_id=tenant_id)
        for standing in standings:
            if standing.run_digest == str(address.number):
                return RunAddress(owner=standing.scoring_id, number=standing.place)
        return address

    def aligned(self, left: RunAddress, right: RunAddress, *, tenant_id: str) -> Aligned:
        """Two runs side by side. Raises: as `open`."""
        opened = self.open(left, tenant_id=tenant_id), self.open(right, tenant_id=tenant_id)
        with _scorer():
            from workers.inspection.alignment import align

            return align(*opened)

    def charts(self, scoring_id: str, *, tenant_id: str) -> Charts:
        """What is drawn of a finished scoring, which never changes; the caller has made sure that it has finished."""
        with _scorer():
            from workers.inspection.charts import charts

            def drawn() -> Charts:
                with self._database.begin() as connection:
                    summary = scorings.texts(connection, scoring_id)["summary"]
                return charts(summary, self._all_runs(scoring_id, tenant_id))

            return self._charts.get((tenant_id, scoring_id), drawn)

    def nights(self, schedule: str | None, *, tenant_id: str, limit: int) -> list[Night]:
        """The nights of one schedule or of all, the newest first."""
        with self._database.begin() as connection:
            found = scorings.nights(connection, tenant_id=tenant_id, schedule=schedule, limit=limit)
        return [night_of(scoring, texts) for scoring, texts in found]

    def _all_runs(self, scoring_id: str, tenant_id: str) -> Iterator[ListedRun]:
        after: scored_runs.Cursor | None = None
        while True:
            with self._database.begin() as connection:
                found = scored_runs.page(
                    connection,
                    scoring_id,
                    tenant_id=tenant_id,
                    filters=Filters(),
                    after=after,
                    limit=_ROWS_AT_ONCE,
                )
            yield from found
            if len(found) < _ROWS_AT_ONCE:
                return
            after = found[-1].score, found[-1].place
