"""`score --remote`: the same through the queue. What comes back is a cohort like that of a scoring here and now."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final

from workers.agentlens.settings import ScoringSettings
from workers.agentlens.tier import Tier
from workers.cli.score_cohort import Progress, Request, find_files
from workers.cli.score_upload import upload
from workers.cli.scoring_client import ScoringClient
from workers.cli.stop import Stopped
from workers.errors import ConsensusError, InputError, StateError
from workers.scoring.cohort import Cohort
from workers.scoring.rows import entry_of, row_of
from workers.scoring.spool import InputFile, Place, Scored
from workers.trajectories import Skipped, load_labels

_LOOK_SECONDS: Final = 0.3
_SHOWN: Final = {"read": "reading files", "score": "scoring runs"}


class CancelledScoringError(ConsensusError):
    """Somebody cancelled the scoring."""


class RemoteScoring:
    """A scoring on a server."""

    def __init__(self, client: ScoringClient, request: Request) -> None:
        self._client = client
        self._request = request
        self.scoring_id = ""
        self.counts: Mapping[str, Any] = {}

    def cohort(self, spool: Path, progress: Progress) -> Cohort:
        """Upload, score, and fetch what was found.

        Raises: InputError or TrajectoryError as a scoring here and now; CancelledScoringError; UnavailableError."""
        request = self._request
        if request.labels is not None:
            load_labels(request.labels)
        files, unopened = find_files(
            request.paths, format_name=request.format_name, output=request.output, labels=request.labels
        )
        sent = upload(self._client, files, request.paths, progress)
        failed = [(item.path, item.error) for item in unopened] + list(sent.refused)
        if not files or len(sent.refused) >= sent.files:
            raise InputError("; ".join(error for _, error in failed[:3]) or "nothing could be uploaded")
        body = _body(request.settings, sent.upload_set, failed)
        if request.format_name is not None:
            body["format"] = request.format_name
        if request.labels is not None:
            body["labels"] = {
                "name": str(request.labels)[-255:],
                "content": request.labels.read_text(encoding="utf-8"),
            }
        self.scoring_id = self._client.start_scoring(body)["id"]
        with self._cancelled_when_stopped():
            self._follow(progress)
        refused = {name for name, _ in sent.refused}
        return self._fetch([file for file in files if file.name not in refused], spool)

    def page(self, out: BinaryIO) -> None:
        """Write the page that the server made: it has the steps of the runs."""
        self._client.report(self.scoring_id, "html", out)

    @contextmanager
    def _cancelled_when_stopped(self) -> Iterator[None]:
        try:
            yield
        except (Stopped, KeyboardInterrupt):
            # Nobody waits for it any more.
            self._client.cancel_scoring(self.scoring_id)
            raise

    def _follow(self, progress: Progress) -> None:
        seen: dict[str, int] = {}
        while True:
            scoring = self._client.scoring(self.scoring_id)
            for stage in scoring["progress"]:
                name = stage["stage"]
                if name not in _SHOWN or not stage["total"]:
                    continue
                if name not in seen:
                    progress.begin(_SHOWN[name], stage["total"])
                    seen[name] = 0
                progress.advance(stage["done"] - seen[name])
                seen[name] = stage["done"]
            if scoring["state"] == "finished":
                self.counts = scoring
                return
            if scoring["state"] == "failed":
                raise InputError(scoring["error"] or f"scoring {self.scoring_id} failed")
            if scoring["state"] == "cancelled":
                raise CancelledScoringError(f"scoring {self.scoring_id} was cancelled")
            time.sleep(_LOOK_SECONDS)

    def _fetch(self, files: list[InputFile], spool: Path) -> Cohort:
        scored: list[Scored] = []
        skipped: list[Skipped] | None = None
        place = spool / "documents"
        with place.open("wb") as documents:
            for line in self._client.rows(self.scoring_id):
                if "skipped" in line:
                    skipped = [Skipped(**item) for item in line["skipped"]]
                    continue
                document = line["document"].encode("utf-8")
                tier = None if line["tier"] is None else Tier(line["tier"])
                entry = entry_of(line["entry"], Place(file=place, offset=0, length=0))
                at = Place(file=place, offset=documents.tell(), length=len(document))
                documents.write(document)
                scored.append(
                    Scored(
                        entry=entry,
                        row=row_of(line["row"]),
                        score=line["score"],
                        tier=tier,
                        document=at,
                        is_kept=tier in self._request.keep and entry.original is None,
                    )
                )
        if skipped is None:
            raise StateError(f"the report of scoring {self.scoring_id} is not whole; ask for it again")
        return Cohort.of(files, scored, skipped, self._request.settings)


def _body(settings: ScoringSettings, upload_set: str, failed: list[tuple[str, str]]) -> dict[str, Any]:
    return {
        "upload_set": upload_set,
        "profile": settings.profile,
        "k": settings.donors,
        "draws": settings.draws,
        "seed": settings.seed,
        "unopened": [{"path": path, "error": error} for path, error in failed],
    }
