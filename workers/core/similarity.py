"""When two findings say the same thing: the same place *and* much the same words (PANEL §1).

A shared line alone is not the same claim: on AACR-Bench another model's remark on the same lines raised
validity only from 68 to 74 % (`reference/panel.md` §1.8)."""

from __future__ import annotations

import dataclasses
import math
import re
from collections import Counter
from functools import lru_cache

from workers.core.finding import Finding

#: Two findings at one place say the same thing from this share of common words on (Dice coefficient).
SAME_CLAIM_SIMILARITY = 0.35
#: … or from this one on when they also name the same weakness (CWE).
SAME_WEAKNESS_SIMILARITY = 0.20
#: Reviewers point at a statement or at the one beside it.
SLACK_LINES = 2

#: A likeness below this is as good as none, and by far the most pairs are.
LEAST_TOLD = 0.02

_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
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


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RemarkRule:
    """When two remarks without a place say the same thing. `slopes` belong to the signs of `pair_signs`; groups
    of remarks are joined while their members' mean likeness is at least `least`."""

    intercept: float
    slopes: tuple[float, float, float]
    least: float

    def likenesses(self, remarks: tuple[str, ...]) -> dict[tuple[int, int], float]:
        """How surely two remarks say the same thing, by index pair, where it is worth telling."""
        found = {}
        for pair, signs in pair_signs(remarks).items():
            odds = self.intercept + math.fsum(map(float.__mul__, self.slopes, signs))
            likeness = 1 / (1 + math.exp(-odds))
            if likeness >= LEAST_TOLD:
                found[pair] = likeness
        return found


#: Fitted on pairs of real reviewers' remarks (`docs/panel-benchmark.md`).
REMARK_RULE = RemarkRule(intercept=-7.218, slopes=(9.385, 3.327, 2.373), least=0.4)


@lru_cache(maxsize=64)
def pair_signs(remarks: tuple[str, ...]) -> dict[tuple[int, int], tuple[float, float, float]]:
    """For every two remarks with a common word, by index: cosine of their words, weight of the rarest word
    they share, share of the shorter one's words that the other has too; each 0 to 1.

    A word weighs by how few of these remarks use it (smoothed inverse document frequency), so what a whole
    panel speaks about counts little, and no corpus is needed.
    """
    documents = [_parts(remark) for remark in remarks]
    used = Counter(word for document in documents for word in document)
    rarity = {word: math.log((1 + len(remarks)) / (1 + count)) + 1 for word, count in used.items()}
    rarest = math.log((1 + len(remarks)) / 2) + 1
    vectors = [{word: count * rarity[word] for word, count in document.items()} for document in documents]
    norms = [math.sqrt(math.fsum(value * value for value in vector.values())) for vector in vectors]
    masses = [math.fsum(rarity[word] for word in document) for document in documents]
    signs = {}
    for right in range(len(remarks)):
        for left in range(right):
            common = vectors[left].keys() & vectors[right].keys()
            if common:
                shared = math.fsum(vectors[left][word] * vectors[right][word] for word in common)
                signs[left, right] = (
                    shared / (norms[left] * norms[right]),
                    max(rarity[word] for word in common) / rarest,
                    math.fsum(rarity[word] for word in common) / min(masses[left], masses[right]),
                )
    return signs


@lru_cache(maxsize=4096)
def _parts(text: str) -> Counter[str]:
    """Content words' stems with their counts; an identifier counts whole and in its parts."""
    words = Counter[str]()
    for word in _WORD.findall(text):
        parts = _PART.findall(word)
        for part in [word, *parts] if len(parts) > 1 else [word]:
            if part.lower() not in _STOP:
                words[_stem(part.lower())] += 1
    return words


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
