"""What our counting is held against: TF-IDF vectors, average linkage, and two votes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from panel_replay import Change, Panel
from scipy.cluster.hierarchy import fcluster, linkage

from workers.core.finding import Finding

_TOKEN = re.compile(r"\b\w\w+\b")
#: Cuts (cosine): the published baseline's, chosen by eye, and the one that turned out best afterwards on these
#: data, which nobody could have known beforehand.
CUTS = (0.2, 0.25)


def tf_idf(texts: Sequence[str]) -> np.ndarray:
    """Rows of unit length: term counts times smoothed inverse document frequency over these texts."""
    documents = [_terms(text) for text in texts]
    words = sorted({word for document in documents for word in document})
    column = {word: index for index, word in enumerate(words)}
    rows = np.zeros((len(texts), max(1, len(words))))
    for at, document in enumerate(documents):
        for word, count in document.items():
            rows[at, column[word]] = count
    rows *= np.log((1 + len(texts)) / (1 + (rows > 0).sum(axis=0))) + 1
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


@lru_cache(maxsize=4096)
def _terms(text: str) -> Counter[str]:
    return Counter(_TOKEN.findall(text.lower()))


def two_votes(change: Change, panel: Panel) -> list[list[tuple[str, ...]]]:
    """For each of `CUTS`, the claims that two heads of the panel flagged, as finding ids."""
    findings = [f for name in panel if name in change.reviews for f in change.reviews[name].findings]
    if len(findings) < 2:
        return [[] for _ in CUTS]
    rows = tf_idf([finding.claim for finding in findings])
    distances = 1 - np.clip(rows @ rows.T, 0, 1)
    tree = linkage(distances[np.triu_indices(len(findings), 1)], "average")
    promoted = []
    for cut in CUTS:
        groups: dict[int, list[Finding]] = {}
        for finding, label in zip(findings, fcluster(tree, 1 - cut, "distance"), strict=True):
            groups.setdefault(int(label), []).append(finding)
        promoted.append(
            [
                tuple(finding.finding_id for finding in group)
                for group in groups.values()
                if len({finding.reviewer for finding in group}) >= 2
            ]
        )
    return promoted
