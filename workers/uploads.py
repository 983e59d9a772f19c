"""Which files travel with trajectories: those that a reader may ask for beside a log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from workers.trajectories import is_log_name, owner_of

#: What readers look into beside logs, besides files that are called like logs.
_REWARDS = frozenset(("reward.txt", "reward.json"))
_ENDINGS = (".json", ".jsonl", ".ndjson", ".traj", ".md")


def files_beside(root: Path) -> Iterator[Path]:
    """The files below a folder that are no runs and may be asked for beside one: reports, results, continuations,
    transcripts, sub-agents. Hidden ones, and folders that were entered already, are left out."""
    entered: set[tuple[int, int]] = set()
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        try:
            identity = folder.stat()
            if (identity.st_dev, identity.st_ino) in entered:
                continue
            entered.add((identity.st_dev, identity.st_ino))
            inside = sorted(folder.iterdir(), reverse=True)
            is_conversation = (folder / "events").is_dir() and (folder / "base_state.json").is_file()
        except OSError:
            # Whoever walks for runs meets it too and says so.
            continue
        for path in inside:
            if path.name.startswith("."):
                continue
            if path.is_dir():
                waiting.append(path)
            elif (
                path.is_file()
                and _is_beside(path)
                and not (is_conversation and path.name == "base_state.json")
            ):
                yield path


def _is_beside(path: Path) -> bool:
    if path.name in _REWARDS:
        return True
    if path.suffix.lower() not in _ENDINGS:
        return False
    owner = owner_of(path)
    return not is_log_name(path) or (owner is not None and owner.is_file())
