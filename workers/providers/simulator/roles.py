"""What a simulated model answers in each role of a team: the JSON text that `teams/prompts/` asks for.

Models of known specs write, see, merge and rule by the problem's data, and only about what the request shows
them: a defect whose line does not stand in the files is not reported, a claim that is not listed gets no
ruling. For any other spec each role says that it does not know it."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from workers.core.artefact import fold
from workers.providers.simulator.catalogue import Catalogue
from workers.providers.simulator.edit import line_range, replace_block
from workers.providers.simulator.material import Question, read_question
from workers.providers.simulator.problem import Bug, Invention, Problem, Remark
from workers.providers.simulator.triage import judge

PLACEHOLDER_PATH = "simulated_placeholder.py"
_PLACEHOLDER_LINE = '"""A simulated placeholder for an unknown specification. It solves nothing.'
_UNKNOWN = "This is a simulated model and it does not know this specification"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question, to whom it went, and the problem it is about (None: unknown to the simulator)."""

    question: Question
    model: str
    seed: int
    problem: Problem | None


def answer(system: str, user: str, *, model: str, seed: int, catalogue: Catalogue) -> str:
    """The whole reply of `model`; the same arguments give the same text."""
    question = read_question(system, user)
    role = ROLES.get(question.role or "")
    if role is None:
        return (
            f"This is {model}, a simulated model. It only plays the roles {', '.join(ROLES)} of a team, for "
            "the example specifications that it knows."
        )
    problem = catalogue.find(question.spec) if question.spec is not None else None
    if question.role == "refuter" and question.claims:
        problem = catalogue.find_by_claim(str(question.claims[0].get("claim")), question.files)
    asked = Asked(question=question, model=model, seed=seed, problem=problem)
    return orjson.dumps(role(asked)).decode()


def _coder(asked: Asked) -> dict[str, Any]:
    problem = asked.problem
    if problem is None:
        files = {**asked.question.files, PLACEHOLDER_PATH: _placeholder(asked.model)}
        return {"files": files, "tests": {}, "notes": f"{_UNKNOWN}: {PLACEHOLDER_PATH} solves nothing."}
    if asked.question.claims:
        return {"files": _mended(asked), "tests": {}, "notes": "What the tests reproduced is mended."}
    code = problem.code_of(problem.variant_for(seed=asked.seed, model=asked.model))
    return {"files": {problem.path: code}, "tests": {}, "notes": problem.notes}


def _review_placeholder(asked: Asked) -> dict[str, Any]:
    """All that a simulated reviewer can say of a spec it does not know: a placeholder does not fulfil it."""
    summary = f"{_UNKNOWN}; of other code it sees only whether it is the simulator's placeholder."
    text = asked.question.files.get(PLACEHOLDER_PATH, "")
    if not text.startswith(_PLACEHOLDER_LINE):
        return {"findings": [], "summary": summary}
    finding = {
        "claim": "The file is a simulated placeholder and does nothing of what the specification asks for.",
        "category": "spec",
        "severity": "medium",
        "confidence": 0.95,
        "location": {"path": PLACEHOLDER_PATH, "start": 1, "end": 1},
        "evidence": [{"path": PLACEHOLDER_PATH, "line": 1, "quote": _PLACEHOLDER_LINE}],
    }
    return {"findings": [finding], "summary": summary}


def _placeholder(model: str) -> str:
    return (
        f"{_PLACEHOLDER_LINE}\n\n"
        f"{model} is a simulated model: it knows the example specifications and this is not one of them.\n"
        'With the key of a real provider in the environment a real model writes this file instead."""\n'
    )


def _reviewer(asked: Asked) -> dict[str, Any]:
    problem = asked.problem
    if problem is None:
        return _review_placeholder(asked)
    findings = []
    for path, text in asked.question.files.items():
        line_of = {fold(line): number for number, line in reversed(list(enumerate(text.split("\n"), 1)))}
        for remark in problem.remarks.values():
            line = line_of.get(fold(remark.anchor))
            if line is not None and asked.model in remark.seen_by:
                findings.append(_finding(remark, path, line, asked.model))
    found = f"{len(findings)} finding{'s' if len(findings) != 1 else ''}"
    return {"findings": findings, "summary": f"{found}; a simulated model sees only what was planted."}


def _finding(remark: Remark, path: str, line: int, model: str) -> dict[str, Any]:
    claim = remark.words_of(model)
    return {
        "claim": claim,
        "category": remark.category,
        "cwe": remark.cwe,
        "severity": remark.severity,
        "confidence": _confidence(model, claim),
        "location": {"path": path, "start": line, "end": line, "symbol": remark.symbol},
        "evidence": [{"path": path, "line": line, "quote": remark.quoted}],
        "suggested_test": remark.suggested_test,
        "suggested_fix": remark.suggested_fix,
    }


def _confidence(model: str, claim: str) -> float:
    """Between 0.55 and 0.95: as unrelated to the truth as a model's own confidence is."""
    return round(0.55 + hashlib.blake2b(f"{model}|{claim}".encode(), digest_size=1).digest()[0] / 640, 2)


def _consensus(asked: Asked) -> dict[str, Any]:
    problem, claims = asked.problem, asked.question.claims
    if problem is None:
        return {"merges": [], "summary": f"{_UNKNOWN}, so it proposes no merges."}
    alike: dict[str, list[Mapping[str, Any]]] = {}
    for claim in claims:
        name = _name_behind(problem, claim)
        if name is not None and isinstance(claim.get("id"), str):
            alike.setdefault(name, []).append(claim)
    merges: list[dict[str, Any]] = [
        {
            "claims": [claim["id"] for claim in same],
            "text": problem.remarks[name].agreed,
            "flagged_by": sorted({reviewer for claim in same for reviewer in _flagged_by(claim)}),
        }
        for name, same in alike.items()
        if len(same) > 1
    ]
    if merges and problem.ghost:
        merges[0]["flagged_by"].append(problem.ghost)
    return {"merges": merges, "summary": f"Claims: {len(claims)}; merges proposed: {len(merges)}."}


def _refuter(asked: Asked) -> dict[str, Any]:
    """Kills what it knows to be invented, with the line that shows it; a planted bug survives."""
    remark = _claimed(asked)
    files = asked.question.files
    if not isinstance(remark, Bug | Invention):
        return _refutation("cannot_tell", "This is a simulated model and it does not know this claim.")
    if isinstance(remark, Bug) or remark.survives:
        return _refutation("survives", "The lines in question do what the claim says.")
    quoted = [
        {"path": path, "line": lines[0], "quote": remark.anchor}
        for path, text in files.items()
        if (lines := line_range(text, (remark.anchor,))) is not None
    ]
    return _refutation("killed", remark.lead.reason, ground="intended", evidence=quoted)


def _refutation(
    word: str, reason: str, *, ground: str | None = None, evidence: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    return {"verdict": word, "ground": ground, "reason": reason, "evidence": list(evidence)}


def _prover(asked: Asked) -> dict[str, Any]:
    remark = _claimed(asked)
    if remark is None or not remark.test:
        test = f'def test_unknown():\n    """{_UNKNOWN}."""\n'
        return {"test": test, "spec_quote": "", "reason": f"{_UNKNOWN}."}
    return {"test": remark.test, "spec_quote": remark.rule, "reason": remark.suggested_test or remark.agreed}


def _control(asked: Asked) -> dict[str, Any]:
    return {"files": _mended(asked), "reason": "The lines of the claim as the solution has them."}


def _mended(asked: Asked) -> dict[str, str]:
    """The files with the claimed bugs taken out again; what is invented or unknown cannot be mended."""
    files = dict(asked.question.files)
    for claim in asked.question.claims:
        name = _name_behind(asked.problem, claim) if asked.problem else None
        bug = asked.problem.bugs.get(name) if asked.problem and name else None
        invention = asked.problem.inventions.get(name) if asked.problem and name else None
        if invention is not None:
            files |= invention.control
        for path, text in files.items():
            changed = replace_block(text, bug.planted, bug.good) if bug else None
            if changed is not None:
                files[path] = changed
    return files


def _claimed(asked: Asked) -> Remark | None:
    """The remark that the only claim of the question words."""
    if asked.problem is None or not asked.question.claims:
        return None
    name = _name_behind(asked.problem, asked.question.claims[0])
    return asked.problem.remarks[name] if name else None


def _lead(asked: Asked) -> dict[str, Any]:
    problem, question = asked.problem, asked.question
    claims = [claim for claim in question.claims if isinstance(claim.get("id"), str)]
    files = dict(question.files)
    if problem is None:
        rulings = [_ruling(claim, "upheld", f"{_UNKNOWN}.") for claim in claims]
        return {"files": {}, "rulings": rulings, "summary": f"{_UNKNOWN}; the files are as they were."}
    # Without a consensus there are raw reviews instead of claims: they can be acted on, but not ruled on.
    names = [_name_behind(problem, item) for item in (*claims, *_raw_findings(question))]
    acted_on = {name: _act(problem.remarks[name], files) for name in dict.fromkeys(names) if name}
    rulings = [
        _rule(claim, problem.remarks[name], acted_on[name], files)
        if name
        else _ruling(
            claim, "upheld", "This simulated lead does not know the claim and leaves the code alone."
        )
        for claim, name in zip(claims, names, strict=False)
    ]
    changed = sum(files[path] != text for path, text in question.files.items())
    return {
        "files": files,
        "rulings": rulings,
        # What a test shows and this lead leaves alone goes back to the coder, if the team has another round.
        "decision": "send_back" if _reproduced_and_left(claims, rulings) else "sign",
        "summary": f"Rulings: {len(rulings)}; files changed: {changed}.",
    }


def _reproduced_and_left(claims: Sequence[Mapping[str, Any]], rulings: Sequence[Mapping[str, Any]]) -> bool:
    shown = {claim["id"] for claim in claims if claim.get("gate") == "reproduced"}
    return any(ruling["claim"] in shown and ruling["ruling"] != "fixed" for ruling in rulings)


def _act(remark: Remark, files: dict[str, str]) -> str | None:
    """Make the lead's change, if it makes one, in the first file that holds the lines; returns that file."""
    if isinstance(remark, Bug) and remark.lead.does == "fix":
        before, after = remark.planted, remark.good
    elif remark.lead.does == "pretend":
        before, after = remark.lead.before, remark.lead.after
    else:
        return None
    for path, text in files.items():
        changed = replace_block(text, before, after)
        if changed is not None:
            files[path] = changed
            return path
    return None


def _rule(
    claim: Mapping[str, Any], remark: Remark, path: str | None, files: Mapping[str, str]
) -> dict[str, Any]:
    """The ruling on a claim, after all changes have been made: their line numbers are those of `files`."""
    move = remark.lead
    if move.does == "dismiss":
        return _ruling(claim, "dismissed", move.reason)
    if move.does == "uphold":
        return _ruling(claim, "upheld", move.reason)
    block = remark.good if isinstance(remark, Bug) and move.does == "fix" else (remark.anchor,)
    lines = line_range(files[path], block) if path is not None else None
    if lines is None:
        return _ruling(claim, "upheld", "The lines in question do not stand in the code as I was shown it.")
    start, end = lines
    return _ruling(claim, "fixed", move.reason, changed=[{"path": path, "start": start, "end": end}])


def _ruling(
    claim: Mapping[str, Any], word: str, reason: str, *, changed: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    return {"claim": claim["id"], "ruling": word, "reason": reason, "changed": list(changed)}


def _name_behind(problem: Problem, item: Mapping[str, Any]) -> str | None:
    claim = item.get("claim")
    return problem.name_behind(claim) if isinstance(claim, str) else None


def _flagged_by(claim: Mapping[str, Any]) -> list[str]:
    names = claim.get("flagged_by")
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def _raw_findings(question: Question) -> list[Mapping[str, Any]]:
    listed = [review.get("findings") for review in question.reviews]
    return [item for found in listed if isinstance(found, list) for item in found if isinstance(item, dict)]


def _triage(asked: Asked) -> dict[str, Any]:
    return judge(asked.question, asked.model)


#: Whom the simulator can play, by the word after `# Role:`.
ROLES: dict[str, Callable[[Asked], dict[str, Any]]] = {
    "coder": _coder,
    "reviewer": _reviewer,
    "consensus": _consensus,
    "refuter": _refuter,
    "prover": _prover,
    "control": _control,
    "lead": _lead,
    "triage": _triage,
}
