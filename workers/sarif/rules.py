"""The rules of a SARIF run, gathered while its results are written: what each is about, and how bad it gets."""

from __future__ import annotations

import dataclasses
from typing import Any

from workers.sarif.results import Result

#: GitHub takes this many tags of a rule.
MAX_TAGS = 20

LEVELS = {"critical": "error", "high": "error", "medium": "warning", "low": "note"}
ORDER = {"critical": 0, "high": 1, "medium": 2, "low": 3}
#: The middle of each band of GitHub's scale.
_SCORES = {"critical": "9.5", "high": "8.0", "medium": "5.5", "low": "2.0"}


@dataclasses.dataclass(slots=True, kw_only=True)
class _Rule:
    number: int
    worst: str
    weaknesses: set[int] = dataclasses.field(default_factory=set)
    categories: set[str] = dataclasses.field(default_factory=set)


class RuleBook:
    """Rules in the order in which they were first met; as large as the number of rules, however many results."""

    def __init__(self) -> None:
        self._rules: dict[str, _Rule] = {}

    def index(self, item: Result) -> int:
        """The place of the result's rule, which learns of the result."""
        rule = self._rules.get(item.rule_id)
        if rule is None:
            rule = self._rules[item.rule_id] = _Rule(number=len(self._rules), worst=item.severity)
        rule.worst = min(rule.worst, item.severity, key=ORDER.__getitem__)
        rule.categories.add(item.category)
        if item.cwe:
            rule.weaknesses.add(item.cwe)
        return rule.number

    def rules(self) -> list[dict[str, Any]]:
        """SARIF's reporting descriptors, by index."""
        return [_descriptor(rule_id, rule) for rule_id, rule in self._rules.items()]


def _descriptor(rule_id: str, rule: _Rule) -> dict[str, Any]:
    weaknesses = sorted(rule.weaknesses)
    categories = sorted(rule.categories)
    is_security = bool(weaknesses) or "security" in categories
    tags = [*(["security"] if is_security else []), *(f"external/cwe/cwe-{cwe:03d}" for cwe in weaknesses)]
    tags += [category for category in categories if category not in tags]
    what = f"CWE-{weaknesses[0]}" if len(weaknesses) == 1 else rule_id
    return {
        "id": rule_id,
        "shortDescription": {"text": f"{what}: {', '.join(categories)[:200]}"},
        "defaultConfiguration": {"level": LEVELS[rule.worst]},
        **(
            {"helpUri": f"https://cwe.mitre.org/data/definitions/{weaknesses[0]}.html"}
            if len(weaknesses) == 1
            else {}
        ),
        "properties": {
            "tags": tags[:MAX_TAGS],
            **({"security-severity": _SCORES[rule.worst]} if is_security else {}),
        },
    }
