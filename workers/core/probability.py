"""How probable it is that a counted claim is a defect worth a reader's time, before anything was run.

A third number beside the two agreements, and never part of a verdict: it orders claims, so that refuters,
the gate and readers meet the likeliest first. It adds up signs that can be seen from outside, and never what
a model says of its own certainty. Coefficients are fitted on real reviewers' remarks
(`docs/panel-benchmark.md`)."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from workers.core.claim import Claim
from workers.core.finding import Review
from workers.core.weights import Record

#: Share of remarks that are right where nothing is known of who made them.
PRIOR_PRECISION = 0.35
#: A record starts as this many resolved findings at the prior.
PRIOR_STRENGTH = 10.0

#: What a remark speaks of. The first three name a consequence, the others concern upkeep.
TOPICS = {
    "failure": r"will|always|never|crash\w*|\w+(?:Error|Exception)|NPE|runtime|raises?|throws?|undefined|null|nil"
    r"|none|breaks?|broken|wrong\w*|incorrect\w*|fails?|race|deadlock|infinite|leak\w*|corrupt\w*|lost|loses",
    "cause": r"causing|because|so|which|allowing|but|when|even|instead|now",
    "security": r"xss|csrf|injection|ssrf|security|vulnerab\w+|sanitiz\w+|escap\w+|attack\w*|secret\w*"
    r"|credential\w*|authoriz\w+|permission\w*|bypass\w*",
    "documents": r"docs?|documentation|javadoc|docstrings?|comments?|typos?|wording|misspell\w*|spelling",
    "style": r"naming|readab\w+|maintainab\w+|clean\w*|refactor\w*|simplif\w+|redundan\w+|unused|unnecessar\w+"
    r"|duplicat\w+|(?:in)?consisten\w+|convention\w*|format\w*|style|hardcod\w+|magic|extract\w*|i18n|lint\w*",
    "speed": r"performance|inefficien\w+|queries|memory|expensive|slow|cach\w+",
    "handling": r"handling|try|catch|fallback|guard|silently|swallow\w*|validation|validate",
}
_TOPICS = tuple(re.compile(rf"\b(?:{words})\b", re.IGNORECASE) for words in TOPICS.values())

#: Names of the signs, in the order of `signs_of`.
SIGNS = (
    "two heads",
    "three heads",
    "four heads",
    "first place",
    "findings a head",
    *TOPICS,
    "records",
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Scorecard:
    """Intercept and one slope a sign; `discount` is taken off, times ln(1 + claims before it), for each claim
    after the likeliest of a run, and a claim is worth reporting from `least` on (log-odds)."""

    intercept: float
    slopes: tuple[float, ...]
    discount: float = 0.0
    least: float = 0.0

    def log_odds(self, signs: Sequence[float]) -> float:
        return self.intercept + math.fsum(map(float.__mul__, self.slopes, signs))

    def probability(self, signs: Sequence[float]) -> float:
        return 1 / (1 + math.exp(-self.log_odds(signs)))

    def ranked(self, signs: Sequence[Sequence[float]]) -> list[float]:
        """Log-odds after the discount, in the order given; ties go to the claim that comes first."""
        plain = [self.log_odds(row) for row in signs]
        order = sorted(range(len(plain)), key=lambda index: (-plain[index], index))
        before = {index: place for place, index in enumerate(order)}
        return [value - self.discount * math.log1p(before[index]) for index, value in enumerate(plain)]


def signs_of(
    claims: Sequence[Claim], reviews: Sequence[Review], records: Mapping[str, Record]
) -> list[tuple[float, ...]]:
    """One row of `SIGNS` a claim: how many heads flagged it, how early its first finding comes in a review
    (ln(1 + findings before it)), how many findings a head it took, the share of findings on each topic, and the
    sum of its flaggers' records as log-odds against `PRIOR_PRECISION`."""
    texts = {finding.finding_id: finding.claim for review in reviews for finding in review.findings}
    place = {
        finding.finding_id: math.log1p(before)
        for review in reviews
        for before, finding in enumerate(review.findings)
    }
    trust = {review.reviewer: _log_odds(records.get(review.reviewer, Record())) for review in reviews}
    return [_signs(claim, texts, place, trust) for claim in claims]


def _signs(
    claim: Claim, texts: Mapping[str, str], place: Mapping[str, float], trust: Mapping[str, float]
) -> tuple[float, ...]:
    ids, heads = claim.finding_ids, len(claim.flagged_by)
    return (
        float(heads >= 2),
        float(heads >= 3),
        float(heads >= 4),
        min(place[finding_id] for finding_id in ids),
        len(ids) / heads,
        *(sum(column) / len(ids) for column in zip(*(_topics(texts[i]) for i in ids), strict=True)),
        math.fsum(trust[name] for name in claim.flagged_by),
    )


@lru_cache(maxsize=4096)
def _topics(text: str) -> tuple[bool, ...]:
    return tuple(bool(topic.search(text)) for topic in _TOPICS)


def _log_odds(record: Record) -> float:
    precision = record.precision(prior=PRIOR_PRECISION, strength=PRIOR_STRENGTH)
    return math.log(precision / (1 - precision)) - math.log(PRIOR_PRECISION / (1 - PRIOR_PRECISION))


#: Fitted on the replayed remarks of four projects; `benchmarks/panel.py --freeze` prints it.
SCORECARD = Scorecard(
    intercept=-2.355,
    slopes=(0.719, 1.048, 0.927, -0.534, 0.791, 0.336, 0.714, 0.477, 0.261, -0.244, -1.083, -0.778, 0.629),
    discount=1.0,
    least=-2.203,
)
