"""Names alone tell the runs that a walk over the folder tells."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from workers.provenance.repository.trajectory_files import ManifestFile
from workers.scoring.manifest import Manifest
from workers.trajectories import Skipped, walk

FOLDERS = ("", "a/", "a/b/", "a/events/", "s/", "s/subagents/", ".hidden/")
NAMES = (
    "run.json",
    "run.jsonl",
    "run.md",
    "x.traj",
    "report.json",
    "trajectory.json",
    "trajectory.cont-1.json",
    "t.trajectory.json",
    "t.trajectory.cont-2.json",
    "base_state.json",
    "event-1.json",
    "agent-1.jsonl",
    "note.txt",
    ".run.json",
    "RUN.JSON",
)
trees = st.sets(st.builds(str.__add__, st.sampled_from(FOLDERS), st.sampled_from(NAMES)), max_size=14)


def file(path: str, *, role: str | None = None, prefix: str = "", digest: str = "0") -> ManifestFile:
    return ManifestFile(folder="set", prefix=prefix, path=path, digest=digest, role=role)


@given(trees | st.just({"s.jsonl", "s/subagents/agent-1.jsonl"}))
@settings(max_examples=150, deadline=None)
def test_the_units_are_what_a_walk_over_the_folder_finds(tree: set[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "root"
        root.mkdir()
        for path in tree:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).touch()
        walked = [
            found.relative_to(root).as_posix() for found in walk(root) if not isinstance(found, Skipped)
        ]
    units = Manifest.of([file(path) for path in sorted(tree)]).units
    assert [unit.path for unit in units] == sorted(walked)


def test_a_role_that_was_given_wins_over_the_name() -> None:
    units = Manifest.of([file("report.json", role="run"), file("run.json", role="beside")]).units
    assert [unit.path for unit in units] == ["report.json"]


def test_units_are_numbered_in_the_order_of_their_names_in_reports() -> None:
    units = Manifest.of([file("b.json", prefix="z/"), file("c.json"), file("a.json", prefix="b/")]).units
    assert [(unit.number, unit.name) for unit in units] == [(0, "b/a.json"), (1, "c.json"), (2, "z/b.json")]


def test_a_reading_belongs_to_content_path_and_reader() -> None:
    def key(path: str, digest: str, format_name: str | None) -> str:
        return Manifest.of([file(path, digest=digest)]).units[0].key(format_name)

    first = key("a.json", "1", None)
    assert first == key("a.json", "1", None)
    assert len({first, key("a.json", "2", None), key("b.json", "1", None), key("a.json", "1", "atif")}) == 4


def test_the_prefix_of_a_report_changes_no_reading() -> None:
    plain, prefixed = file("a.json"), file("a.json", prefix="x/")
    assert Manifest.of([plain]).units[0].key(None) == Manifest.of([prefixed]).units[0].key(None)
