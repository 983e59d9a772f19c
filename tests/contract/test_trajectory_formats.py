"""One suite over all readers: every folder of the format zoo, and what every reader promises.

The zoo lies beside the repository, in `../shared/data/formats`."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.contract.trajectory_expectations import EXPECTED, Expected
from workers.agentlens.cohort import assess_cohort
from workers.agentlens.curation import sft_record
from workers.agentlens.formats import FORMATS, read
from workers.agentlens.formats.refused import REFUSED
from workers.agentlens.intents import label
from workers.agentlens.report import as_json, assessment_document, to_bytes
from workers.agentlens.tier import Tier
from workers.agentlens.trajectory import Trajectory
from workers.errors import TrajectoryError
from workers.trajectories import Skipped, load, load_all, walk

ZOO = (Path(__file__).parents[2] / "../shared/data/formats").resolve()


def seen(run: Trajectory) -> list[tuple[str, str | None, str, str]]:
    return [
        (str(state.operation), state.path, state.outcome, f"{state.intent}{state.rule}")
        for state in label(run.states)
    ]


@pytest.mark.parametrize("expected", EXPECTED, ids=lambda expected: expected.file)
def test_a_run_reads_as_a_person_reads_it(expected: Expected) -> None:
    (run,) = load(ZOO / expected.file)
    assert seen(run) == expected.states
    assert (run.format, run.trajectory_id, run.problem, run.model, run.outcome) == (
        expected.format,
        expected.run,
        expected.problem,
        expected.model,
        expected.outcome,
    )
    assert len(run.warnings) == expected.warnings


def test_a_benchmark_line_gives_its_problem_model_and_exit_codes() -> None:
    (run,) = load(ZOO / "openhands-v0-output-jsonl/output.jsonl")
    assert (run.trajectory_id, run.problem) == ("ponylang__ponyc-4593", "ponylang__ponyc-4593")
    assert run.model == "openai/openrouter-llama-4-maverick"
    assert [state.exit_code for state in run.states[:3]] == [0, 2, 0]
    # tokens are the growth of what the run had spent: 11331 - 5549 and 144 - 88
    assert [(state.tokens_in, state.tokens_out) for state in run.states[:2]] == [(5549, 88), (5782, 56)]
    assert seen(run)[29] == ("insert", "packages/cli/command_parser.pony", "ok", "I2")


def test_a_chat_export_gives_one_run_an_episode() -> None:
    first, second = load(ZOO / "harbor-traces/openhands/hello-world.traces.json")
    assert (first.trajectory_id, second.trajectory_id) == (
        "hello-world__NORMALIZED#episode-0",
        "hello-world__NORMALIZED#episode-1",
    )
    assert seen(second) == [("create", "hello.txt", "ok", "I2"), ("finish", None, "unknown", "O1")]


def test_a_conversation_folder_is_one_run() -> None:
    (run,) = load(ZOO / "openhands-v1-sdk-events/conv-3fdb3160")
    assert (run.trajectory_id, run.model) == ("3fdb3160-98bb-48e1-aa02-9ce56805792a", "gpt-4o-mini")
    assert seen(run) == [("finish", None, "ok", "O1")] * 3


def test_parquet_rows_are_runs_with_their_labels() -> None:
    first, second = load(ZOO / "hf-dataset-rows-synthetic/swe_gym_openhands.parquet")
    assert (first.problem, first.outcome, second.outcome) == ("synth__repo-1", "failed", "passed")
    assert seen(first) == [
        ("view", "ext:/workspace/x", "ok", "E6"),
        ("shell", None, "ok", "E6"),
        ("shell", None, "unknown", "O1"),
        ("view", "ext:/workspace/y", "ok", "E6"),
        ("shell", None, "unknown", "O1"),
        ("finish", None, "unknown", "O1"),
    ]
    assert first.states[0].observation == "listing"


def test_messages_kept_as_json_text_are_read_like_others() -> None:
    runs = list(load(ZOO / "hf-dataset-rows-synthetic/swe_smith.parquet"))
    assert [(run.trajectory_id, run.outcome) for run in runs[:2]] == [
        ("synth__repo-a.0000000.pr_1.aaaa1111", "passed"),
        ("synth__repo-b.0000000.pr_2.bbbb2222", "failed"),
    ]
    assert seen(runs[0]) == [
        ("view", "a.py", "ok", "E6"),
        ("shell", None, "ok", "E6"),
        ("finish", None, "unknown", "O1"),
    ]


def test_the_edit_of_a_line_range_knows_its_lines() -> None:
    (run,) = load(ZOO / "swe-agent-traj/v0_gpt4_pydicom__pydicom-1458.traj")
    lines = run.states[8].lines
    assert lines is not None
    assert (lines.start, lines.end) == (287, 296)


@pytest.mark.parametrize(
    ("file", "sentence"),
    [
        ("codex-tui-session-log/oss-story.codex_events.jsonl", "use the session's rollout file"),
        ("others-synthetic/copilot-cli.jsonl", "convert the session to ATIF"),
        ("others-synthetic/cursor-agent-transcript/transcript.jsonl", "convert the session to ATIF"),
        ("others-synthetic/inspect-sample-bundle.json", "export the sample's messages"),
        ("hf-dataset-rows-synthetic/trail.parquet", "export the messages"),
        (
            "claude-code-session/claude-code-log-0.2.7_edge_cases.jsonl",
            "line 13: expected an object, found a text",
        ),
    ],
)
def test_what_cannot_be_scored_is_refused_with_a_sentence(file: str, sentence: str) -> None:
    with pytest.raises(TrajectoryError, match=sentence) as refusal:
        list(load(ZOO / file))
    assert Path(file).name in str(refusal.value)


def test_every_folder_of_the_zoo_is_read() -> None:
    read_folders: set[str] = set()
    for item in load_all(ZOO):
        if not isinstance(item, Skipped):
            read_folders.add(item.path.partition("/")[0])
    folders = {folder.name for folder in ZOO.iterdir() if folder.is_dir()} - {
        "LICENSES",
        "codex-tui-session-log",
    }
    assert read_folders == folders


def files() -> Iterator[Path]:
    for path in walk(ZOO):
        if path.is_file() and path.suffix != ".parquet" and path.stat().st_size < 120_000:
            yield path


def runs_of(path: Path, data: bytes, **more: Any) -> list[Trajectory] | str:
    try:
        return list(read(path.name, data, **more))
    except TrajectoryError as error:
        return str(error)


KEYS = (
    "steps", "messages", "trajectory", "tool_calls", "content", "action", "arguments", "observation", "args",
    "payload", "message", "nodes", "transitions", "function", "input", "info", "history",
)  # fmt: skip


@pytest.mark.parametrize("path", list(files()), ids=lambda path: path.relative_to(ZOO).as_posix())
class TestEveryFile:
    """What holds for every file of the zoo, whoever reads it."""

    def test_reading_again_or_by_name_or_with_another_parser_gives_the_same(self, path: Path) -> None:
        data = path.read_bytes()
        runs = runs_of(path, data)
        assert runs_of(path, data) == runs
        assert runs_of(path, data, decode=orjson.loads) == runs
        if not isinstance(runs, str):
            assert runs_of(path, data, format_name=runs[0].format) == runs

    def test_states_are_well_formed(self, path: Path) -> None:
        runs = runs_of(path, path.read_bytes())
        for run in [] if isinstance(runs, str) else runs:
            assert [state.index for state in run.states] == list(range(len(run.states)))
            assert all(state.content_digest and state.tool and state.intent is None for state in run.states)
            assert all(len(state.observation) <= 20_000 for state in run.states)
            assert all(
                state.lines is None or 0 < state.lines.start <= state.lines.end for state in run.states
            )
            labelled = label(run.states)
            assert all(state.intent is not None and 1 <= state.rule <= 7 for state in labelled)

    def test_a_file_cut_anywhere_is_an_answer_or_a_sentence(self, path: Path) -> None:
        data = path.read_bytes()
        for part in range(1, 8):
            answer = runs_of(path, data[: len(data) * part // 8])
            assert not isinstance(answer, str) or path.name in answer

    def test_a_file_whose_values_are_swapped_is_an_answer_or_a_sentence(self, path: Path) -> None:
        text = path.read_bytes()
        for old, new in ((b'"', b"[1]"), (b": {", b": [{"), (b"[", b"{"), (b': "', b': 7, "x": "')):
            answer = runs_of(path, text.replace(old, new, 3))
            assert isinstance(answer, list) or path.name in answer
        for wrong in (b"null", b"7", b'"x"', b"[]", b"{}"):
            for name in KEYS:
                key = f'"{name}": '.encode()
                answer = runs_of(path, text.replace(key, key + wrong + b', "was": ', 2))
                assert isinstance(answer, list) or path.name in answer

    def test_a_file_with_values_at_the_edge_of_json_is_scored_or_told(self, path: Path) -> None:
        data = path.read_bytes()
        answers = [runs_of(path, changed, decode=orjson.loads) for changed in at_the_edge(path.name, data)]
        for answer in answers:
            if isinstance(answer, str):
                assert answer.startswith(path.name + ": ")
            else:
                assert scored_bytes(answer)
        for name in KEYS:
            key = f'"{name}":'.encode()
            for value in (b"NaN", b"1", b"{}"):  # the key comes twice: the last one counts, as everywhere
                answer = runs_of(path, data.replace(key, key + value + b"," + key, 3), decode=orjson.loads)
                assert isinstance(answer, list) or answer.startswith(path.name + ": ")

    def test_shuffled_lines_are_an_answer_or_a_sentence(self, path: Path) -> None:
        lines = path.read_bytes().split(b"\n")
        for seed in range(3):
            mixed = random.Random(seed).sample(lines, len(lines))
            answer = runs_of(path, b"\n".join(mixed), decode=orjson.loads)
            assert isinstance(answer, list) or answer.startswith(path.name + ": ")


def nested(levels: int) -> Any:
    """A list in a list in a list."""
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


EDGES = (
    math.nan,
    -math.inf,
    10**400,
    -1,
    1e308,
    "\ud800",
    "\x00\x1b[2J\u202e",
    "<script>alert(1)</script>",
    "",
    "a" * 30_000,
    nested(800),
    None,
    True,
    [],
    {},
)


def mutated(value: Any, rng: random.Random, share: float) -> Any:
    """A document some of whose values, of any depth, are others."""
    if rng.random() < share:
        return rng.choice(EDGES)
    if isinstance(value, dict):
        return {key: mutated(item, rng, share) for key, item in value.items()}
    if isinstance(value, list):
        return [mutated(item, rng, share) for item in value]
    return value


def at_the_edge(name: str, data: bytes) -> Iterator[bytes]:
    """The file with other values, with bytes that are no UTF-8, and with numbers that no machine holds."""
    yield data.replace(b"e", b"\xff\xfe", 30)
    yield data.replace(b'": 1', b'": ' + b"7" * 5000, 3).replace(b'":1', b'":' + b"7" * 5000, 3)
    if name.endswith(".md"):
        return
    try:
        documents = [
            json.loads(line)
            for line in ([data] if name.endswith(".json") else data.splitlines())
            if line.strip()
        ]
    except ValueError:
        return
    for seed in range(24):
        rng = random.Random(seed)
        share = (0.002, 0.02, 0.1)[seed % 3]
        yield b"\n".join(json.dumps(mutated(document, rng, share)).encode() for document in documents)


def scored_bytes(runs: list[Trajectory]) -> bytes:
    """The runs' assessments and export as bytes, which must be JSON for a strict parser."""
    assessments, summary = assess_cohort(runs)
    written = to_bytes(
        {
            "assessments": [assessment_document(found) for found in assessments],
            "cohort": as_json(summary),
            "sft": [sft_record(run, found, set(Tier)) for run, found in zip(runs, assessments, strict=True)],
        }
    )
    orjson.loads(written)
    return written


@pytest.mark.parametrize("form", sorted({reader.name for reader in FORMATS}))
@pytest.mark.parametrize("name", ["x.json", "x.jsonl"])
def test_a_hundred_thousand_brackets_are_a_sentence(form: str, name: str) -> None:
    for data in (b"[" * 100_000, b'{"a":' * 100_000, b"[" * 100_000 + b"]" * 100_000):
        for decode in (json.loads, orjson.loads):
            with pytest.raises(
                TrajectoryError, match=r"^x\.jsonl?: (line 1: )?the JSON is nested too deeply"
            ):
                list(read(name, data, form, decode=decode))


def test_numbers_of_five_thousand_digits_are_read_as_some_large_number() -> None:
    digits = "7" * 5000
    row = '{"messages": [{"role": "user", "content": "x"}], "instance_id": "p", "cost": ' + digits + "}"
    for name, decode in (("x.json", json.loads), ("x.jsonl", orjson.loads)):
        (run,) = read(name, row.encode(), decode=decode)
        assert run.problem == "p"


def test_every_reader_names_itself_and_its_blind_spots() -> None:
    names = [reader.name for reader in FORMATS]
    assert len(set(names)) == len(names)
    assert all(
        reader.blind_signals for reader in FORMATS if reader not in REFUSED and reader.name != "openhands-v0"
    )


def test_an_unknown_format_name_lists_the_known_ones() -> None:
    with pytest.raises(TrajectoryError, match="expected one of agentlens-bench, atif"):
        list(read("x.json", b"{}", "no-such-format"))


@pytest.mark.parametrize(
    ("name", "data", "sentence"),
    [
        ("x.json", b"", "x.json: the file is empty"),
        ("x.json", b"{", "x.json: not JSON"),
        ("x.json", b"[1, 2]", "x.json: no known trajectory format"),
        ("x.jsonl", b'{"a": 1}\n{', "x.jsonl: line 2: not JSON"),
        ("x.json", b"[" * 100_000, "x.json: the JSON is nested too deeply"),
        (
            "x.json",
            b'{"schema_version": "ATIF-v1.5", "steps": 3}',
            r"x.json: steps: expected a list, found a number",
        ),
        (
            "x.json",
            b'{"schema_version": "ATIF-v1.5", '
            b'"steps": [{"source": "agent", "tool_calls": [{"arguments": {}}]}]}',
            r"x.json: steps\[0\].tool_calls\[0\].function_name: expected the tool's name",
        ),
        (
            "x.json",
            b'{"initial_state": "s", "metadata": {}, "states": {"s1": {"log_entry": '
            b'{"tool": "run_in_terminal", "args": {"command": 3}}}}}',
            r"x.json: states.s1.log_entry.args.command: expected a text, found a number",
        ),
        ("x.json", b'[{"role": "judge", "content": ""}]', r"x.json: file\[0\].role: expected system, user"),
    ],
)
def test_a_refusal_names_file_position_and_field(name: str, data: bytes, sentence: str) -> None:
    with pytest.raises(TrajectoryError, match=sentence):
        list(read(name, data))


BENCH = {
    "initial_state": "state_0",
    "states": {
        "state_0": {"log_entry": None},
        "state_1": {
            "intent_stage": "exploration",
            "log_entry": {
                "tool": "read_file",
                "args": {"filePath": "/pkg/a.py", "startLine": 3, "endLine": 9, "thought": "look"},
                "response_preview": "Here's the result of running `cat -n` on /testbed/pkg/a.py:\n     3\tx",
            },
            "metadata": {"input_tokens": 10, "output_tokens": 2, "timestamp": "1970-01-01T00:00:05"},
        },
        "state_2": {
            "log_entry": {
                "tool": "replace_string_in_file",
                "args": {
                    "filePath": "/pkg/a.py",
                    "command": "str_replace",
                    "oldString": "x",
                    "newString": "y",
                },
                "response_preview": "The file was edited successfully. ERROR:\nNo replacement was performed",
            },
            "metadata": {},
        },
    },
    "metadata": {
        "task_name": "p-1",
        "model_name": "m",
        "pass_fail_status": "passed",
        "source_path": "x-pass-1",
    },
}


def test_a_benchmark_run_is_read_from_raw_arguments() -> None:
    (run,) = read("dir/p-1-logs-m-pass-9_pta.json", json.dumps(BENCH).encode())
    assert (run.trajectory_id, run.problem, run.model, run.outcome) == (
        "p-1-logs-m-pass-9",
        "p-1",
        "m",
        "passed",
    )
    view, edit = run.states
    assert (view.path, view.lines and (view.lines.start, view.lines.end)) == ("pkg/a.py", (3, 9))
    assert (view.tokens_in, view.tokens_out, view.timestamp) == (10, 2, 5.0)
    # "edited successfully" was put before the tool's own words by the log's writer
    assert (edit.outcome, edit.path, edit.observation[:6]) == ("error", "pkg/a.py", "ERROR:")


def test_no_label_reaches_a_state() -> None:
    flipped = json.loads(
        json.dumps(BENCH).replace("exploration", "verification").replace("x-pass-1", "x-fail-1")
    )
    flipped["metadata"]["pass_fail_status"] = "failed"
    (one,) = read("pass/a-pass-1_pta.json", json.dumps(BENCH).encode())
    (two,) = read("fail/b-fail-1_pta.json", json.dumps(flipped).encode())
    assert (one.outcome, two.outcome) == ("passed", "failed")
    assert one.states == two.states
    assert "pass" not in repr(one.states)
    assert "fail" not in repr(two.states)
