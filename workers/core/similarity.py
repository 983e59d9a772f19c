"""When two findings say the same thing: the same place *and* much the same words (PANEL §1).

A shared line alone is not the same claim: on AACR-Bench another model's remark on the same lines raised
validity only from 68 to 74 % (`reference/panel.md` §1.8)."""

from __future__ import annotations

import re
from functools import lru_cache

from workers.core.finding import Finding

#: Two findings at one place say the same thing from this share of common words on (Dice coefficient).
SAME_CLAIM_SIMILARITY = 0.35
#: … or from this one on when they also name the same weakness (CWE).
SAME_WEAKNESS_SIMILARITY = 0.20
#: Reviewers point at a statement or at the one beside it.
SLACK_LINES = 2

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|\d+")
_STOP = frozenset(
    """
    a an and are as at be because been before but by can cannot could do does doing done for from had
    has have how if in into is it its may might must no not of off on only or other our out over own
    same should so some such than that the their them then there these they this those through to too
    under until up very was were what when where which while who why will with would you your code
    function line value method variable
    """.split()  # noqa: SIM905 - a word list reads better as words
)
_ENDINGS = ("ations", "ation", "ingly", "ments", "ment", "ings", "ing", "edly", "ies", "ied", "ed", "es", "s")


def similarity(left: str, right: str) -> float:
    """Dice coefficient of the two texts' content words, 0 to 1; two texts without any have 0."""
    one, other = _stems(left), _stems(right)
    if not one or not other:
        return 0.0
    return 2 * len(one & other) / (len(one) + len(other))


def same_claim(left: Finding, right: Finding) -> bool:
    """Whether two findings are one claim: near each other (or in one symbol) and alike in words."""
    if left.span.path != right.span.path:
        return False
    near = left.span.overlaps(right.span, slack=SLACK_LINES)
    one_symbol = left.symbol is not None and left.symbol == right.symbol
    if not (near or one_symbol):
        return False
    same_weakness = left.cwe is not None and left.cwe == right.cwe
    needed = SAME_WEAKNESS_SIMILARITY if same_weakness and near else SAME_CLAIM_SIMILARITY
    return similarity(left.claim, right.claim) >= needed


@lru_cache(maxsize=4096)
def _stems(text: str) -> frozenset[str]:
    words = (word.lower() for word in _WORD.findall(text))
    return frozenset(_stem(word) for word in words if word not in _STOP)


def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)]
            break
    return word.rstrip("e") if len(word) > 3 else word
