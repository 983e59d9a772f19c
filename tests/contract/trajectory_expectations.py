"""What a person reads in one file of every folder of the format zoo; `test_trajectory_formats.py` compares."""

from __future__ import annotations

import dataclasses

MINI_1 = "mini-swe-agent-1/20251118_mini-v1.15.0_gemini-3-pro-preview/django__django-15127.traj.json"
OUTSIDE = "ext:/Users/user/Documents/24/git_sync/swe-agent-test-repo/tests/missing_colon.py"
SOURCE = "django/contrib/messages/storage/base.py"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Expected:
    """A run as a person reads it in the file: operation, path, outcome, label with its rule."""

    file: str
    format: str
    run: str
    problem: str | None = None
    model: str | None = None
    outcome: str = "unknown"
    states: list[tuple[str, str | None, str, str]]
    warnings: int = 0


EXPECTED = [
    Expected(
        file="aider-chat/20240523_aider/django__django-12747.json",
        format="aider",
        run="django__django-12747",
        problem="django__django-12747",
        model="gpt-4o",
        outcome="failed",
        states=[
            ("view", "django/db/models/query.py", "ok", "E6"),
            ("replace", "django/db/models/query.py", "ok", "I2"),
        ],
    ),
    Expected(
        file="atif-v1.4/claude-code-regex-log/trajectory.json",
        format="atif",
        run="tbench-1765491470070-3679a2f1",
        model="claude-sonnet-4-20250514",
        # results stand in system steps before the step that lists the calls; mkdir of /app was refused
        states=[
            ("create", "regex.txt", "error", "I2"),
            ("shell", "ext:/", "ok", "E6"),
            ("shell", None, "error", "O7"),
            ("shell", "scratch:/tmp/tmp.Gtrekx29jH/test.txt", "ok", "E3"),
            ("create", "scratch:/tmp/tmp.Gtrekx29jH/regex.txt", "ok", "E3"),
        ],
    ),
    Expected(
        file="atif-v1.5/terminus_2/hello-world-context-summarization-linear-history.trajectory.json",
        format="atif",
        run="NORMALIZED_SESSION_ID",
        model="openai/gpt-4o",
        # the last four come from the continuation file; three sub-agent files are not in the zoo
        states=[
            ("shell", None, "unknown", "O7"),
            ("shell", "test_dir/file1.txt", "unknown", "E3"),
            ("shell", "test_dir/file2.txt", "unknown", "E3"),
            ("shell", "hello.txt", "unknown", "I2"),
            ("shell", "hello.txt", "ok", "V6"),
            ("finish", None, "ok", "O1"),
            ("finish", None, "ok", "O1"),
        ],
        warnings=3,
    ),
    Expected(
        file="atif-v1.7/login-trace.trajectory.json",
        format="atif",
        run="login-trace-trajectory",
        model="openagents/khala",
        states=[
            ("browse", None, "ok", "E6"),
            ("browse", None, "ok", "E6"),
            ("shell", None, "ok", "O7"),
            ("shell", None, "ok", "O7"),
            ("browse", None, "ok", "E6"),
            ("finish", None, "ok", "O1"),
        ],
        warnings=1,
    ),
    Expected(
        file="claude-code-message-kinds/tools/Read-tool_use.jsonl",
        format="claude-code",
        run="b25638d7-b104-4f06-a797-70ac33d069ed",
        model="claude-sonnet-4-20250514",
        states=[("view", "public/tokenizer.js", "unknown", "E6")],
    ),
    Expected(
        file="claude-code-session/claude-code-log-0.2.7_representative_messages.jsonl",
        format="claude-code",
        run="test_session",
        model="claude-3-sonnet-20240229",
        states=[("create", "decorator_example.py", "ok", "I2"), ("shell", None, "ok", "V5")],
    ),
    Expected(
        file="claude-code-stream-json/atif-make_claude-code-stream.jsonl",
        format="claude-code",
        run="sess-1",
        model="claude-opus-4-5",
        states=[("shell", None, "unknown", "O1")] * 3,
    ),
    Expected(
        file="codex-exec-json/atif-make_codex-exec.jsonl",
        format="codex-exec",
        run="th-9",
        states=[("shell", None, "ok", "E6")],
    ),
    Expected(
        file="codex-rollout/codex-0.142-rollout.sample.jsonl",
        format="codex-rollout",
        run="019efa28-63ad-76a2-8e9b-8a653170604e",
        model="gpt-5.5",
        states=[("shell", None, "ok", "E6"), ("shell", "README.md", "ok", "E6")],
    ),
    Expected(
        file=MINI_1,
        format="mini-swe-agent",
        run="django__django-15127",
        problem="django__django-15127",
        model="google/gemini-3-pro-preview",
        states=[
            ("shell", None, "ok", "E6"),
            ("shell", SOURCE, "ok", "E6"),
            ("shell", "django/contrib/messages/utils.py", "ok", "E6"),
            ("shell", "reproduce_issue.py", "ok", "E3"),
            ("shell", None, "error", "E5"),
            ("shell", "reproduce_issue.py", "ok", "E3"),
            ("shell", None, "ok", "E5"),
            ("shell", SOURCE, "ok", "E6"),
            ("shell", SOURCE, "unknown", "I2"),
            ("shell", "django/contrib/messages", "ok", "V6"),
            ("shell", SOURCE, "ok", "I2"),
            ("shell", None, "ok", "V5"),
            ("shell", None, "ok", "V6"),
            ("shell", "tests/messages_tests/base.py", "ok", "E6"),
            ("shell", None, "ok", "V4"),
            ("shell", None, "ok", "V5"),
            ("shell", "reproduce_issue.py", "ok", "V3"),
            ("finish", None, "ok", "O1"),
        ],
    ),
    Expected(
        file="mini-swe-agent-messages-list/v1_github_issue.traj.json",
        format="mini-swe-agent",
        run="v1_github_issue",
        states=[
            ("shell", OUTSIDE, "error", "E6"),
            ("shell", None, "ok", "E6"),
            ("shell", "tests", "ok", "E6"),
            ("shell", "tests/missing_colon.py", "ok", "E6"),
            ("shell", "tests/missing_colon.py", "ok", "E3"),
            ("shell", "tests/missing_colon.py", "ok", "E6"),
            ("shell", None, "ok", "E5"),
            ("shell", None, "error", "E5"),
            ("shell", "tests/missing_colon.py", "ok", "E3"),
            ("finish", None, "ok", "O1"),
        ],
    ),
    Expected(
        file="moatless-v0-steps/20240609_moatless_gpt4o/django__django-11848.json",
        format="moatless-v0",
        run="django__django-11848",
        problem="django__django-11848",
        states=[
            ("search", None, "ok", "E6"),
            ("view", "django/utils/http.py", "unknown", "E6"),
            ("view", "django/utils/http.py", "ok", "E6"),
            ("replace", "django/utils/http.py", "ok", "I2"),
            ("finish", None, "unknown", "O1"),
        ],
    ),
    Expected(
        file="moatless-v1-transitions/20240623_moatless_claude-3.5-sonnet/django__django-13660.json",
        format="moatless-v1",
        run="django__django-13660",
        problem="django__django-13660",
        model="openrouter/anthropic/claude-3.5-sonnet",
        states=[
            ("search", None, "ok", "E6"),
            ("view", "django/core/management/commands/shell.py", "unknown", "E6"),
            ("plan", None, "unknown", "O1"),
            ("view", "django/core/management/commands/shell.py", "ok", "E6"),
            ("replace", "django/core/management/commands/shell.py", "ok", "I2"),
            ("finish", None, "ok", "O1"),
        ],
    ),
    Expected(
        file="moatless-v2-nodes/20241117_moatless_claude_3_5_sonnet_20241022/django__django-14580.json",
        format="moatless-v2",
        run="django__django-14580",
        problem="django__django-14580",
        model="claude-3-5-sonnet-20241022",
        states=[
            ("search", None, "ok", "E6"),
            ("search", None, "ok", "E6"),
            ("replace", "django/db/migrations/serializer.py", "ok", "I2"),
            ("finish", None, "ok", "O1"),
        ],
    ),
    Expected(
        file="openhands-v0-events/wrong_initial_state.json",
        format="openhands-v0",
        run="wrong_initial_state",
        model="claude-3-5-sonnet-20241022",
        states=[
            ("list", "", "ok", "E6"),
            ("shell", "game_2048.py", "ok", "I2"),
            ("list", "", "ok", "V6"),
            ("finish", None, "unknown", "O1"),
        ],
    ),
    Expected(
        file="openhands-v1-sdk-events/goal/events.jsonl",
        format="openhands-v1",
        run="events",
        states=[("shell", None, "error", "O1"), ("shell", None, "error", "O1")],
    ),
    Expected(
        file="others-synthetic/claude-code-transcript.jsonl",
        format="claude-code",
        run="11111111-2222-3333-4444-555555555555",
        model="claude-opus-4-5",
        # the second and third step are the sub-agent's, from its own file
        states=[
            ("delegate", None, "ok", "O1"),
            ("shell", None, "unknown", "E5"),
            ("delegate", None, "ok", "O1"),
        ],
    ),
    Expected(
        file="swe-agent-traj/v0_gpt4_pydicom__pydicom-1458.traj",
        format="swe-agent",
        run="v0_gpt4_pydicom__pydicom-1458",
        problem="v0_gpt4_pydicom__pydicom-1458",
        states=[
            ("create", "reproduce_bug.py", "ok", "E3"),
            ("replace", "reproduce_bug.py", "ok", "E3"),
            ("shell", None, "error", "E5"),
            ("search", None, "ok", "E6"),
            ("view", "pydicom/pixel_data_handlers/numpy_handler.py", "ok", "E6"),
            ("replace", "pydicom/pixel_data_handlers/numpy_handler.py", "error", "I2"),
            ("replace", "pydicom/pixel_data_handlers/numpy_handler.py", "error", "I2"),
            ("replace", "pydicom/pixel_data_handlers/numpy_handler.py", "error", "I2"),
            ("replace", "pydicom/pixel_data_handlers/numpy_handler.py", "ok", "I2"),
            ("shell", None, "unknown", "V5"),
            ("shell", "reproduce_bug.py", "unknown", "V3"),
            ("finish", None, "ok", "O1"),
        ],
    ),
]
