"""Pages that describe the code are held against it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from typer.core import TyperGroup
from typer.main import get_group

from workers.cli.main import app
from workers.cli.verdict_panel import NOTE_WORDS
from workers.core.batch import BATCH_TRANSITIONS
from workers.core.claim import CLAIM_TRANSITIONS
from workers.core.run import (
    GIVE_UP,
    TERMINAL,
    TRANSITIONS,
    Finish,
    Open,
    RunState,
    Seated,
    SeatState,
    Stage,
    next_step,
)
from workers.core.verdict import Note
from workers.providers.registry import PROVIDERS
from workers.settings import Settings

ROOT = Path(__file__).parents[2]


def test_the_settings_page_lists_every_setting_with_its_meaning() -> None:
    page = (ROOT / "docs/settings.md").read_text(encoding="utf-8")

    rows = dict(re.findall(r"^\| `CONSENSUS_(\w+)` \| .* \| (.+) \|$", page, re.MULTILINE))

    assert rows == {name.upper(): field.description for name, field in Settings.model_fields.items()}


def test_the_states_page_draws_the_transitions_of_a_run() -> None:
    page = (ROOT / "docs/states.md").read_text(encoding="utf-8")
    section = page.split("## Run")[1].split("## Seat")[0]

    rows = re.findall(r"^\| (\w+) \| ([\w, ]*) ?\|$", section, re.MULTILINE)

    drawn = {
        name: {part for part in targets.split(", ") if part.strip()}
        for name, targets in rows
        if name != "from"
    }
    assert {name: {part.strip() for part in targets} for name, targets in drawn.items()} == {
        state.value: {target.value for target in TRANSITIONS[state]} for state in RunState
    }


def test_the_states_page_says_what_a_seat_becomes() -> None:
    page = (ROOT / "docs/states.md").read_text(encoding="utf-8")
    section = page.split("## Seat")[1].split("## What comes next")[0]

    drawn = set(re.findall(r"\w+", section.split("```")[1])) & {state.value for state in SeatState}
    assert drawn == {state.value for state in SeatState}
    rows = re.findall(r"^\| (\w+) \| (\w+) \|$", section, re.MULTILINE)
    assert dict(rows) == {stage.value: state.value for stage, state in GIVE_UP.items()}
    (ends,) = re.findall(r"A row that is ([\w, ]+) does not change again", section)
    assert set(re.split(r", | or ", ends)) == {state.value for state in TERMINAL}


def test_the_states_page_says_what_comes_next() -> None:
    page = (ROOT / "docs/states.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| ([\w(), ]+) \| (open \w+|finish) \|$",
        page.split("## What comes next")[1].split("## Claim")[0],
        re.MULTILINE,
    )

    def word(stages: list[tuple[Stage, SeatState]]) -> str:
        step = next_step(
            [Seated(stage=stage, seat="s", state=state) for stage, state in stages], lambda _: ("s",)
        )
        assert isinstance(step, Open | Finish)
        return f"open {step.stage}" if isinstance(step, Open) else "finish"

    done = [(stage, SeatState.DONE) for stage in Stage]
    assert dict(rows) == {
        "(none)": word([]),
        "coder, done": word(done[:1]),
        "coder, failed": word([(Stage.CODER, SeatState.FAILED)]),
        "panel": word(done[:2]),
        "consensus": word(done[:3]),
        "refute": word(done[:4]),
        "gate": word(done[:5]),
        "lead": word(done),
    }


def test_the_states_page_draws_the_transitions_of_a_claim() -> None:
    section = (
        (ROOT / "docs/states.md").read_text(encoding="utf-8").split("and may become |")[1].split("## ")[0]
    )

    drawn = {
        name: {part.strip() for part in targets.split(",") if part.strip()}
        for name, targets in re.findall(r"^\| (\w+) \| ([\w, ]*) ?\|$", section, re.MULTILINE)
    }
    assert drawn == {
        state.value: {target.value for target in targets} for state, targets in CLAIM_TRANSITIONS.items()
    }


def test_the_states_page_and_the_terminal_explain_every_note_of_a_verdict() -> None:
    page = (ROOT / "docs/states.md").read_text(encoding="utf-8").split("## Notes of a verdict")[1]

    assert dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", page, re.MULTILINE)) == NOTE_WORDS
    assert set(NOTE_WORDS) == set(Note)


def test_the_batches_page_draws_the_transitions_of_a_batch() -> None:
    section = (ROOT / "docs/batches.md").read_text(encoding="utf-8").split("| from | to |")[1]

    drawn = {
        name: {part.strip() for part in targets.split(",") if part.strip()}
        for name, targets in re.findall(r"^\| (\w+) \| ([\w, ]*) ?\|$", section, re.MULTILINE)
    }
    assert drawn == {
        state.value: {target.value for target in targets} for state, targets in BATCH_TRANSITIONS.items()
    }


def test_links_between_pages_lead_somewhere() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in pages
        for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ]

    assert broken == []


def test_no_page_waits_for_text_that_was_to_be_put_in() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    waiting = [
        f"{page.relative_to(ROOT)}: {line}"
        for page in pages
        for line in re.findall(
            r"^(?:[A-Z][A-Z0-9]*_[A-Z0-9_]+|\{\{.*\}\}|TBD.*)$", page.read_text(encoding="utf-8"), re.M
        )
    ]

    assert waiting == []


def test_the_readme_names_the_commands_that_exist() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")

    named = set(re.findall(r"^make (\w+)", text, re.MULTILINE))

    assert named == {"run", "up", "test"}
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in named)


def test_the_settings_page_lists_every_provider_with_its_variables() -> None:
    page = (ROOT / "docs/settings.md").read_text(encoding="utf-8").split("## Model providers")[1]

    rows = [re.findall(r"`?(\w+)`?", line) for line in page.splitlines() if line.startswith("|")]
    listed = {row[0]: set(row[1:]) for row in rows if row}

    for name, spec in PROVIDERS.items():
        assert {*spec.key_variables, spec.url_variable, spec.model_variable} <= listed[name]


def commands(group: TyperGroup, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every command that a person may give, by its words."""
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from commands(command, (*before, name))
        elif not command.hidden:
            yield (*before, name)


def test_the_readme_lists_every_command() -> None:
    table = (ROOT / "README.md").read_text(encoding="utf-8").split("## Commands")[1].split("\n## ")[0]
    rows = [re.split(r"(?<!\\)\|", line)[1] for line in table.splitlines() if line.startswith("| `")]
    given = list(commands(get_group(app)))

    def is_listed(words: tuple[str, ...]) -> bool:
        return any(all(re.search(rf"(?<![\w-]){word}(?![\w-])", row) for word in words) for row in rows)

    assert len(given) > 40
    assert [" ".join(words) for words in given if not is_listed(words)] == []


def test_the_readme_is_short_before_the_details() -> None:
    before = (ROOT / "README.md").read_text(encoding="utf-8").split("## Commands")[0]

    assert len(before.splitlines()) <= 2 * 30  # two screens


def test_every_file_that_a_page_names_is_there() -> None:
    named = {
        (str(page.relative_to(ROOT)), name)
        for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
        if page.name != "extending.md"  # names what its recipes make; it has a test of its own
        for name in re.findall(
            r"`((?:api|workers|teams|migrations|tests|benchmarks|ops|examples|docs)/[\w./-]+)`",
            page.read_text(encoding="utf-8"),
        )
    }

    assert len(named) > 80
    assert sorted(found for found in named if not (ROOT / found[1]).exists()) == []
