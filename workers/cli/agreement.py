"""`trajectories sample` and `trajectories agreement`: whether the labels are what people would say."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from workers.cli.score import need
from workers.errors import InputError
from workers.trajectories import Skipped

if TYPE_CHECKING:
    from workers.agentlens.rating import Place, Question, Stratum
    from workers.agentlens.trajectory import State, Trajectory
    from workers.cli.rating_sheet import Answer, Key
    from workers.cli.score_progress import Bars, Silent
    from workers.scoring.spool import InputFile

EXIT_SKIPPED = 2
_LEFT_OUT_SHOWN = 5
Paths = Annotated[list[Path], typer.Argument(metavar="PATH…", help="files or folders with trajectories")]
FormatName = Annotated[str | None, typer.Option("--format", help="read as this format; default: find out")]


def sample(
    paths: Paths,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="SHEET", help="the CSV file to write")],
    wanted: Annotated[int, typer.Option("--n", min=1, max=100_000, help="how many steps")] = 200,
    seed: Annotated[int, typer.Option(help="of the draw")] = 0,
    rate: Annotated[
        bool,
        typer.Option("--rate", help="blind: the labeler's answers go into SHEET.key.json, a guide beside it"),
    ] = False,
    format_name: FormatName = None,
) -> int:
    """Draw steps of many runs into a sheet for people, mixed over formats, tools and thirds of the runs.

    With --rate the sheet shows no label, rule, outcome or name of a run, and has an empty column for the
    rating; give each rater a copy and keep the key away from them. Without, it shows the labeler's answers.

    Exit code: 0 fine, 2 some files were skipped, 3 usage, or nothing could be read."""
    need("numpy", "scipy", extra="score", what="rating")
    from workers.agentlens.rating import Draw
    from workers.cli.destination import destination
    from workers.cli.rating_sheet import key_path
    from workers.cli.score_cohort import find_files
    from workers.cli.score_progress import shown

    for path in (output, key_path(output)) if rate else ():
        if path.exists():
            raise InputError(
                f"-o {output}: {path.name} exists; ratings may be in it or need it, give the name of a new sheet"
            )
    found, unreadable = find_files(paths, format_name=format_name, output=output)
    files = _named(found)
    draw = Draw(wanted=wanted, seed=seed)
    skipped = [skip.error for skip in unreadable]
    with destination(output) as out, shown(Console(stderr=True)) as progress:
        progress.begin("reading files", len(files))
        for name, item in _runs(files, progress):
            if isinstance(item, str):
                skipped.append(item)
            else:
                draw.offer(item[1], file=name, number=item[0])
        drawn = draw.drawn()
        if not drawn:
            raise InputError(skipped[0] if skipped else f"{paths[0]}: holds no run with a step")
        questions, answers = _asked(drawn, files)
        _write(output, out.write, seed=seed, questions=questions, answers=answers, is_blind=rate)
    say = Console(stderr=True, highlight=False, soft_wrap=True)
    for error in skipped:
        say.print(Text(f"skipped: {error}", "yellow"))
    say.print(Text(f"{len(questions)} of {wanted} steps written to {output}", "dim"))
    return EXIT_SKIPPED if skipped else 0


def agreement(
    sheets: Annotated[
        list[Path], typer.Argument(metavar="SHEET…", help="filled sheets of one sample, one a rater")
    ],
    key: Annotated[
        Path | None, typer.Option(help="the labeler's answers; default: SHEET.key.json of the first sheet")
    ] = None,
    relabel: Annotated[
        list[Path] | None,
        typer.Option(metavar="PATH", help="label the steps anew from the trajectories given to `sample`"),
    ] = None,
    format_name: FormatName = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object, nothing else")] = False,
) -> int:
    """Compare filled rating sheets with each other (Fleiss' κ) and with the labeler (Cohen's κ, confusion).

    The labeler's answers are those of the key, or with --relabel those of today's rules.

    Exit code: 0 fine, 2 with --relabel some steps could not be found again, 3 usage, or a sheet is wrong."""
    need("numpy", "scipy", extra="score", what="agreement")
    from workers.agentlens.agreement import study
    from workers.agentlens.report import to_bytes
    from workers.agentlens.settings import SCORING_VERSION
    from workers.cli.agreement_table import Outcome, document, print_outcome
    from workers.cli.rating_sheet import key_path, read_key, read_sheet

    names = _raters(sheets)
    answers = read_key(key or key_path(sheets[0]))
    steps = [answer.step for answer in answers.answers]
    rated = [read_sheet(sheet, steps) for sheet in sheets]
    left_out: list[str] = []
    if relabel:
        answers, left_out = _relabeled(answers, relabel, format_name)
        answers = dataclasses.replace(answers, version=SCORING_VERSION)
    kept = answers.answers
    found = study(
        names,
        [[ratings[answer.step].intent for answer in kept] for ratings in rated],
        [answer.intent for answer in kept],
        [(answer.place.file, answer.place.run) for answer in kept],
    )
    outcome = Outcome(study=found, key=answers, ratings=rated, left_out=left_out)
    if as_json:
        sys.stdout.buffer.write(to_bytes(document(outcome)) + b"\n")
        sys.stdout.buffer.flush()
    else:
        print_outcome(outcome, Console(highlight=False))
    say = Console(stderr=True, highlight=False, soft_wrap=True)
    for error in left_out[:_LEFT_OUT_SHOWN]:
        say.print(Text(f"left out: {error}", "yellow"))
    if len(left_out) > _LEFT_OUT_SHOWN:
        say.print(Text(f"left out: {len(left_out) - _LEFT_OUT_SHOWN} more; --json lists them", "yellow"))
    return EXIT_SKIPPED if left_out else 0


def _named(files: Sequence[InputFile]) -> dict[str, InputFile]:
    """The files by the name a key gives them: that of the folder they were found in, and the path below it, so
    that a folder may move. Raises: InputError if two would be called the same."""
    named: dict[str, InputFile] = {}
    for file in files:
        path = Path(file.place)
        name = path.name
        if file.root is not None:
            name = f"{file.root.resolve().name}/{path.relative_to(file.root).as_posix()}"
        if name in named:
            raise InputError(
                f"{named[name].place} and {file.place} would both be called {name} in the key; give the "
                "folder that holds both"
            )
        named[name] = file
    return named


def _runs(
    files: Mapping[str, InputFile], progress: Silent | Bars
) -> Iterator[tuple[str, tuple[int, Trajectory] | str]]:
    """Each file's name with each of its runs and the run's number, or with the sentence why there is none."""
    for name, file in files.items():
        number = 0
        for run in file.runs():
            if isinstance(run, Skipped):
                yield name, run.error
            else:
                yield name, (number, run)
                number += 1
        progress.advance(1)


def _states(files: Mapping[str, InputFile], places: Sequence[Place]) -> Iterator[tuple[Place, list[State]]]:
    """Each place that still exists, with its run's states up to it, labelled; file by file."""
    from workers.agentlens.intents import label
    from workers.cli.score_progress import Silent

    wanted: dict[str, dict[int, list[Place]]] = {}
    for place in places:
        wanted.setdefault(place.file, {}).setdefault(place.run, []).append(place)
    for name, item in _runs({name: files[name] for name in wanted if name in files}, Silent()):
        if isinstance(item, str):
            continue
        for place in wanted[name].get(item[0], ()):
            states = item[1].states[: place.state + 1]
            if len(states) == place.state + 1:
                yield place, list(label(states))


def _asked(
    drawn: Sequence[tuple[Place, Stratum]], files: Mapping[str, InputFile]
) -> tuple[list[Question], list[Answer]]:
    """What is asked about the drawn steps, and the answers of the labeler, in the order of the draw.

    Raises: InputError if a file is not what it was a moment ago."""
    from workers.agentlens.rating import action_digest, question, step_id
    from workers.cli.rating_sheet import Answer

    found: dict[Place, tuple[Question, State]] = {}
    for place, states in _states(files, [place for place, _ in drawn]):
        found[place] = question(states, place), states[-1]
    questions, answers = [], []
    for place, stratum in drawn:
        if place not in found:
            raise InputError(f"{place.file}: has changed while it was read; run the command again")
        asked, state = found[place]
        assert state.intent is not None  # noqa: S101 - for the type checker: labelled above
        questions.append(asked)
        answers.append(
            Answer(
                step=step_id(place),
                place=place,
                stratum=stratum,
                action_digest=action_digest(state),
                intent=state.intent,
                rule=state.rule,
            )
        )
    return questions, answers


def _write(
    output: Path,
    write: Callable[[bytes], object],
    *,
    seed: int,
    questions: Sequence[Question],
    answers: Sequence[Answer],
    is_blind: bool,
) -> None:
    """The sheet, and for a blind one the key and the guide beside it."""
    from workers.agentlens.settings import SCORING_VERSION
    from workers.cli.destination import destination
    from workers.cli.rating_sheet import Key, guide, guide_path, key_bytes, key_path, sheet_bytes

    write(sheet_bytes(questions, None if is_blind else answers))
    if is_blind:
        key = Key(version=SCORING_VERSION, seed=seed, answers=tuple(answers))
        for path, content in ((key_path(output), key_bytes(key)), (guide_path(output), guide())):
            with destination(path) as out:
                out.write(content)


def _raters(sheets: Sequence[Path]) -> list[str]:
    """A name for each rater: the sheet's, or its path where two are named alike."""
    seen: set[Path] = set()
    for sheet in sheets:
        if sheet.resolve() in seen:
            raise InputError(f"{sheet}: given twice; give each rater's sheet once")
        seen.add(sheet.resolve())
    stems = [sheet.stem for sheet in sheets]
    return [stem if stems.count(stem) == 1 else str(sheet) for stem, sheet in zip(stems, sheets, strict=True)]


def _relabeled(key: Key, paths: Sequence[Path], format_name: str | None) -> tuple[Key, list[str]]:
    """The key with today's labels, and a sentence for each step that could not be found again.

    Raises: InputError if none was found."""
    from workers.agentlens.rating import action_digest
    from workers.cli.score_cohort import find_files

    files = _named(find_files(paths, format_name=format_name)[0])
    states = {place: past[-1] for place, past in _states(files, [answer.place for answer in key.answers])}
    answers, left_out = [], []
    for answer in key.answers:
        place, state = answer.place, states.get(answer.place)
        where = f"step {answer.step} ({place.file}, run {place.run}, state {place.state})"
        if state is None:
            left_out.append(f"{where} is not there or cannot be read")
        elif action_digest(state) != answer.action_digest:
            left_out.append(f"{where} is another action than the one that was rated")
        elif state.intent is not None:
            answers.append(dataclasses.replace(answer, intent=state.intent, rule=state.rule))
    if not answers:
        raise InputError(
            f"--relabel {paths[0]}: none of the {len(key.answers)} steps is there: {left_out[0]}; give the "
            "paths that `sample` was given"
        )
    return dataclasses.replace(key, answers=tuple(answers)), left_out
