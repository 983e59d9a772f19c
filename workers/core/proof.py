"""The empirical gate as arithmetic (PANEL §4): what runs of a test on two programs say of the claim that it tests.

The test must fail on the code and pass on the control, a version of the code that somebody of another model family
mended. Everything else counts against the test and never against the code. What a process says of itself by its exit
code is no evidence here: only named tests, seen to be collected and run, are."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Literal

from workers.core.artefact import Files, fold
from workers.core.claim import GATED_SEVERITY, Claim
from workers.core.code_change import changed_spans
from workers.core.finding import Severity
from workers.core.team import Policy

#: Where deciding tests lie in the cage; no file of the code may be taken for one.
GATE_FOLDER = "consensus_gate/"
TEST_PATH = f"{GATE_FOLDER}test_claim.py"
#: What a prover may write where the team has no seat for it.
PROVER_MAX_TOKENS = 4096
#: A claim of less is about style and is never tested: it rejects nothing.
PROVABLE_SEVERITY = Severity.MEDIUM
#: Errors that say a test could not even begin, when the test's own lines raise them.
_SETUP_ERRORS = frozenset(
    {"ImportError", "ModuleNotFoundError", "AttributeError", "NameError", "SyntaxError", "FileNotFoundError"}
)

#: A test that looks at the code's text tells the control from the code by its letters and not by what it does.
_READERS = frozenset({"inspect", "ast", "dis", "tokenize", "linecache", "symtable", "subprocess"})
_READING_NAMES = frozenset({"__file__", "__code__", "__loader__", "__spec__"})

#: Why a claim stays undecided whose test the code under it interfered with.
CODE_TAMPERS = "code_tampers"

Outcome = Literal["passed", "failed", "error", "skipped"]


class Told(StrEnum):
    """How a process that ran a file of tests ended, as its keeper saw it."""

    REPORTED = "reported"
    HUNG = "hung"
    DIED = "died"
    TAMPERED = "tampered"


class Proof(StrEnum):
    """What the gate says of a claim."""

    REPRODUCED = "reproduced"
    NOT_REPRODUCED = "not_reproduced"
    INCONCLUSIVE = "inconclusive"
    UNPROVABLE = "unprovable"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TestCase:
    """One test of a file. `raised_in` is the file whose line raised (empty: outside the workspace), `trace` the last
    lines of the workspace that the error came through, as (path, line), the innermost last."""

    __test__ = False  # pytest would collect it

    name: str
    outcome: Outcome
    error: str = ""
    message: str = ""
    raised_in: str = ""
    trace: tuple[tuple[str, int], ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FileRun:
    """One run of one file of tests. `has_reached`: the watched lines were executed; None if none were watched."""

    told: Told
    cases: tuple[TestCase, ...] = ()
    has_reached: bool | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CageRun:
    """One cage: the runs of each file, repeats in order. `problem` is empty, or why nothing was reported."""

    files: Mapping[str, tuple[FileRun, ...]] = dataclasses.field(default_factory=dict)
    problem: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The gate's word and a closed reason for it. `detail` is a sentence."""

    proof: Proof
    reason: str
    detail: str


def to_prove(
    claims: Iterable[Claim], killed: Iterable[str], policy: Policy
) -> tuple[tuple[Claim, ...], tuple[Claim, ...]]:
    """(claims to test, claims left out for their number): what was not killed, costly and agreed claims first."""
    if policy.gate == "off":
        return (), ()
    dead = frozenset(killed)
    alive = [claim for claim in claims if claim.claim_id not in dead and claim.severity >= PROVABLE_SEVERITY]
    ordered = sorted(
        alive,
        key=lambda claim: (
            claim.severity < GATED_SEVERITY,
            len(claim.flagged_by) < 2,
            -claim.severity,
            -claim.weighted_agreement,
            int(claim.claim_id[1:]),
        ),
    )
    return tuple(ordered[: policy.max_proofs]), tuple(ordered[policy.max_proofs :])


def test_names(source: str) -> tuple[str, ...]:
    """The tests that a file defines, as pytest names them without parameters. Empty for what is no Python."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    names = []
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test"):
            names.append(node.name)
        if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            names += [
                f"{node.name}::{inner.name}"
                for inner in node.body
                if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef))
                and inner.name.startswith("test")
            ]
    return tuple(dict.fromkeys(names))


test_names.__test__ = False  # type: ignore[attr-defined]  # pytest would collect it


def reads_source(source: str) -> str | None:
    """By what a test would read the code's text, or None. Raises: SyntaxError for what is no Python."""
    for node in ast.walk(ast.parse(source)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        elif isinstance(node, ast.Attribute) and node.attr in _READING_NAMES:
            return node.attr
        elif isinstance(node, ast.Name) and node.id in _READING_NAMES:
            return node.id
        found = next((name for name in names if name.partition(".")[0] in _READERS), None)
        if found:
            return found
    return None


def is_rule_of(quote: str, spec: str) -> bool:
    """Whether the sentence that the prover says it checks stands in the spec, white space folded."""
    wanted = fold(quote)
    return len(wanted) >= 8 and wanted in fold(spec)


def guards(*tests: Mapping[str, str]) -> dict[str, str]:
    """The files that pytest would collect among the submitted and the coder's tests; later ones win."""
    merged = {path: text for given in tests for path, text in given.items()}
    return {
        path: text
        for path, text in sorted(merged.items())
        if not path.startswith(GATE_FOLDER)
        and path.endswith(".py")
        and _is_test_file(path.rpartition("/")[2])
        and test_names(text)
    }


def _is_test_file(name: str) -> bool:
    return name.startswith("test_") or name.endswith("_test.py")


def control_problem(code: Files, control: Files) -> str | None:
    """Why this control is none, or None: it must change what the code does."""
    missing = sorted(set(code) - set(control))
    if missing:
        return f"the control lacks {missing[0]!r}"
    return (
        None
        if changed_spans(code, control)
        else "the control is the code: nothing in it changes what it does"
    )


def passes(run: FileRun, names: Sequence[str]) -> bool:
    """Every named test was collected, ran and passed, and nothing else failed."""
    if run.told is not Told.REPORTED or any(case.outcome != "passed" for case in run.cases):
        return False
    seen = {_bare(case.name) for case in run.cases}
    return bool(names) and set(names) <= seen


def hangs(runs: Iterable[CageRun]) -> bool:
    """Whether a run of the deciding test had to be ended."""
    return any(repeat.told is Told.HUNG for run in runs for repeat in run.files.get(TEST_PATH, ()))


def green(runs: Sequence[CageRun], tests: Mapping[str, str]) -> frozenset[str]:
    """`path::test` of the tests that passed in every repeat of every run; none if a run reported nothing."""
    if any(run.problem for run in runs):
        return frozenset()
    found = set()
    for path, source in tests.items():
        repeats = [repeat for run in runs for repeat in run.files.get(path, ())]
        if repeats:
            found |= {
                f"{path}::{name}"
                for name in test_names(source)
                if all(_has_passed(repeat, name) for repeat in repeats)
            }
    return frozenset(found)


def _has_passed(run: FileRun, name: str) -> bool:
    ends = [case.outcome for case in run.cases if _bare(case.name) == name]
    return run.told is Told.REPORTED and bool(ends) and set(ends) == {"passed"}


def judge(
    *, code: Sequence[CageRun], control: Sequence[CageRun], source: str, tests: Mapping[str, str], spec: str
) -> Judged:
    """What both runs on the code and both on the control say together. `source` is the deciding test, `tests` the
    guard tests that ran beside it."""
    problem = next((run.problem for run in (*code, *control) if run.problem), "")
    if problem:
        return _inconclusive("broken", problem)
    lost = green(code, tests) - green(control, tests)
    if lost:
        return Judged(
            proof=Proof.UNPROVABLE,
            reason="control_breaks_tests",
            detail=f"the control breaks {sorted(lost)[0]}, which passes on the code",
        )
    names = test_names(source)
    on_code = [run for cage in code for run in cage.files.get(TEST_PATH, ())]
    on_control = [run for cage in control for run in cage.files.get(TEST_PATH, ())]
    return _judge_runs(on_code, on_control, names, spec)


def _judge_runs(
    on_code: Sequence[FileRun], on_control: Sequence[FileRun], names: Sequence[str], spec: str
) -> Judged:
    fault = _unusable(on_code, "code") or _unusable(on_control, "control")
    if fault is not None:
        return fault
    code, control = on_code[0], on_control[0]
    match passes(code, names), passes(control, names):
        case False, True:
            return _reproduced(code, spec)
        case True, True:
            return _not_reproduced(code)
        case True, False:
            return _inconclusive("control_fails", "the test passes on the code and fails on the control")
        case _:
            return _fails_everywhere(code, control)


def _unusable(runs: Sequence[FileRun], where: str) -> Judged | None:
    if not runs:
        return _inconclusive("broken", "the test was not run")
    if any(run.told is Told.TAMPERED for run in runs):
        reason = CODE_TAMPERS if where == "code" else "control_tampers"
        return _inconclusive(reason, f"the {where} interfered with its test")
    if any(run.told is Told.DIED for run in runs):
        return _inconclusive("broken", f"on the {where} the process ended without a report of its tests")
    if len({_signature(run) for run in runs}) > 1:
        return _inconclusive("flaky", f"on the {where} the test does not end the same way every time")
    return None


def _reproduced(on_code: FileRun, spec: str) -> Judged:
    fault = setup_fault(on_code, spec)
    if fault:
        return _inconclusive("setup_fault", fault)
    return Judged(
        proof=Proof.REPRODUCED, reason="fails_on_code", detail=_message(on_code) or "the test fails"
    )


def _not_reproduced(on_code: FileRun) -> Judged:
    """A test that never came near the lines in question says nothing of them."""
    if on_code.has_reached is False:
        return _inconclusive("lines_not_reached", "the test passes on the code without reaching its lines")
    return Judged(
        proof=Proof.NOT_REPRODUCED, reason="passes_on_code", detail="the test passes on the code as it is"
    )


def _fails_everywhere(on_code: FileRun, on_control: FileRun) -> Judged:
    messages = {(case.error, case.message) for run in (on_code, on_control) for case in run.cases}
    if len(messages) == 1 and on_code.cases:
        return _inconclusive("setup_fault", f"every test ends with the same message: {_message(on_code)}")
    return _inconclusive("fails_everywhere", "the test fails on the code and on the control alike")


def setup_fault(run: FileRun, spec: str) -> str:
    """Why these failures say that the test could not begin rather than that the code is wrong; empty if they do not.

    A name that the code lacks is the code's fault only if the spec asks for that name: else a test could demand
    whatever the control happens to have.
    """
    bad = [case for case in run.cases if case.outcome != "passed"]
    if not bad:
        return "" if run.told is Told.HUNG else "no test was collected"
    if any(case.outcome == "skipped" for case in bad):
        return "a test was skipped"
    if all(_could_not_begin(case, spec) for case in bad):
        return f"the test does not get as far as the code: {bad[0].message or bad[0].error}"
    messages = {(case.error, case.message) for case in bad}
    all_same_error = len(bad) > 1 and len(messages) == 1 and bad[0].outcome == "error"
    return f"every test ends with the same message: {bad[0].message}" if all_same_error else ""


def _could_not_begin(case: TestCase, spec: str) -> bool:
    if case.outcome == "error":
        return True
    if case.error not in _SETUP_ERRORS or case.raised_in != TEST_PATH:
        return False
    missing = _missing_name(case)
    return not missing or re.search(rf"\b{re.escape(missing)}\b", spec) is None


def _missing_name(case: TestCase) -> str:
    """What was not there, from the interpreter's own sentence: the first quoted name, of attributes the one behind."""
    before, found, after = case.message.partition("no attribute ")
    quoted = (after if found else before).split("'")
    return quoted[1].rpartition(".")[2] if len(quoted) > 1 else ""


def _signature(run: FileRun) -> tuple[object, ...]:
    return (run.told, tuple(sorted((case.name, case.outcome) for case in run.cases)))


def _bare(name: str) -> str:
    return name.partition("[")[0]


def _message(run: FileRun) -> str:
    if run.told is Told.HUNG:
        return "the test does not end"
    text = next((case.message or case.error for case in run.cases if case.outcome != "passed"), "")
    # Below its first line pytest explains values, with addresses that are others every time.
    return text.strip().partition("\n")[0][:300]


def _inconclusive(reason: str, detail: str) -> Judged:
    return Judged(proof=Proof.INCONCLUSIVE, reason=reason, detail=detail[:400])
