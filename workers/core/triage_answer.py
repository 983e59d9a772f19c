"""What a reviewer of alarms answers, as its JSON comes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from workers.core.alarm import Judgement
from workers.core.answers import Answer, Text
from workers.core.finding import Evidence

#: A word that is none of the three is a doubt, and a doubt keeps the alarm.
_WORDS = frozenset({"benign", "exploitable", "uncertain"})


def _judgement_word(value: object) -> object:
    word = value.strip().lower() if isinstance(value, str) else ""
    return word if word in _WORDS else "uncertain"


class _Quote(Answer):
    path: str = ""
    line: int = 0
    quote: str


class _Judged(Answer):
    alarm: str
    verdict: Annotated[Literal["benign", "exploitable", "uncertain"], BeforeValidator(_judgement_word)]
    ground: Text = ""
    reason: Text = ""
    evidence: list[_Quote] = Field(default_factory=list, max_length=20)


class TriageAnswer(Answer):
    judgements: list[_Judged]
    summary: Text = ""


def to_judgements(answer: TriageAnswer, *, reviewer: str, paths: dict[str, str]) -> tuple[Judgement, ...]:
    """Judgements of alarms that were asked about; `paths` are their files by alarm, for quotes that name none."""
    return tuple(
        Judgement(
            alarm_id=item.alarm,
            reviewer=reviewer,
            word=item.verdict,
            ground=item.ground.strip()[:40] or "unstated",
            reason=item.reason,
            evidence=tuple(
                Evidence(path=quote.path or paths[item.alarm], line=quote.line, quote=quote.quote)
                for quote in item.evidence
            ),
        )
        for item in answer.judgements
        if item.alarm in paths
    )
