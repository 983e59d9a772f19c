"""Alarms instead of findings: each reviewer judges what a scanner reported, a few alarms at a time."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from workers.core.alarm import MAX_JUDGED, Alarm, Judgement, Triage, triage
from workers.core.artefact import Files
from workers.core.budget import likely_tokens
from workers.core.consensus import Tally
from workers.core.finding import Evidence, Evidenced, Review
from workers.core.run import Stage
from workers.core.slices import choose, view
from workers.core.team import Team
from workers.core.triage_answer import TriageAnswer, to_judgements
from workers.core.weights import NEW_REVIEWER_WEIGHT
from workers.stages.ask import Answered, ask, provenance_of
from workers.stages.seat import Work
from workers.stages.shown import context_tokens

#: Alarms that are asked about in one call, those of one file beside each other.
ALARMS_PER_CALL = 12
#: Tokens of code around one alarm, and for a call whatever its number of alarms.
TOKENS_PER_ALARM, TOKENS_PER_CALL = 1_200, 4_000


def judge_alarms(work: Work) -> tuple[str, dict[str, Any]]:
    """This seat's judgements, in as many calls as the alarms need."""
    candidate = work.results[Stage.CODER, "coder"]
    judged: list[Judgement] = []
    summaries: list[str] = []
    provenance: dict[str, Any] = {}
    for alarms in batches(alarms_of(candidate)):
        answered = _ask_about(work, candidate["files"], alarms)
        judged += to_judgements(
            answered.answer,
            reviewer=work.key.seat,
            paths={alarm.alarm_id: alarm.span.path for alarm in alarms},
        )
        summaries.append(answered.answer.summary)
        provenance = provenance_of(answered)
    return "review.arrived", {
        "seat": work.key.seat,
        "findings": [],
        "judgements": [dataclasses.asdict(item) for item in judged],
        "summary": " ".join(summaries)[:2000],
        **provenance,
    }


def _ask_about(work: Work, files: Files, alarms: Sequence[Alarm]) -> Answered[TriageAnswer]:
    lines = "\n".join(map(alarm_line, alarms))
    near = [span for alarm in alarms for span in (alarm.span, *alarm.flow)]
    wanted = {path: files[path] for path in sorted({span.path for span in near}) if path in files}
    room = context_tokens(work) - likely_tokens(work.material.spec) - likely_tokens(lines)
    selection = choose(
        wanted,
        max(0, min(room, TOKENS_PER_CALL + TOKENS_PER_ALARM * len(alarms))),
        parts=work.material.existing.parts if work.material.existing else None,
        first=near,
    )
    return ask(
        work,
        answer_type=TriageAnswer,
        role="triage",
        render_user=lambda: work.context.render(
            "material.md",
            spec=work.material.spec,
            files={path: view(wanted[path], spans) for path, spans in selection.shown.items()},
            tests={},
            claims=lines,
            reviews="",
        ),
    )


def batches(alarms: Sequence[Alarm]) -> Iterator[list[Alarm]]:
    """The first `MAX_JUDGED` alarms, those of one file together."""
    ordered = sorted(alarms[:MAX_JUDGED], key=lambda alarm: (alarm.span, alarm.alarm_id))
    for start in range(0, len(ordered), ALARMS_PER_CALL):
        yield ordered[start : start + ALARMS_PER_CALL]


def alarm_line(alarm: Alarm) -> str:
    """An alarm as models read it: one JSON object."""
    return json.dumps(
        {
            "id": alarm.alarm_id,
            "claim": alarm.message,
            "rule": f"{alarm.tool}/{alarm.rule}",
            "cwe": alarm.cwe,
            "severity": alarm.severity.word,
            "path": alarm.span.path,
            "lines": [alarm.span.start, alarm.span.end],
            **({"flow": [[span.path, span.start] for span in alarm.flow]} if alarm.flow else {}),
        },
        ensure_ascii=False,
    )


def alarms_of(candidate: Mapping[str, Any]) -> tuple[Alarm, ...]:
    """The alarms that came with the submitted code; none in a run of another kind."""
    return tuple(map(Alarm.of, candidate.get("alarms", ())))


def triaged(
    results: Mapping[tuple[Stage, str], Any], reviews: Sequence[Review], team: Team
) -> tuple[Triage, ...]:
    """What became of each alarm, worked out from the panel's results alone."""
    candidate = results[Stage.CODER, "coder"]
    judgements = [
        Judgement(**{**item, "evidence": tuple(Evidence(**quote) for quote in item["evidence"])})
        for (stage, _), result in sorted(results.items())
        if stage is Stage.PANEL
        for item in result.get("judgements", ())
    ]
    return triage(
        alarms_of(candidate),
        judgements,
        reviews,
        Evidenced(candidate["files"]),
        policy=team.policy,
        never_dismiss={int(cwe.removeprefix("CWE-")) for cwe in team.never_dismiss_cwe},
    )


def tally_of_alarms(fates: Sequence[Triage], reviews: Sequence[Review]) -> Tally:
    """The alarms as claims, so that the lead and the verdict read them like any others."""
    names = tuple(sorted(review.reviewer for review in reviews))
    return Tally(
        claims=tuple(fate.claim for fate in fates),
        unsupported=(),
        reviewers=names,
        weights=dict.fromkeys(names, NEW_REVIEWER_WEIGHT),
    )
