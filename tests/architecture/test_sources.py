"""A paragraph that a comment cites can be looked up here."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("api", "workers", "migrations", "teams", "tests", "benchmarks", "ops", "docs")
#: One paper, then one or more paragraphs: `PANEL §2.2, §2.3`, `AGENTLENS §4 to §8`, `reference/panel.md` §5.4.
_CITATION = re.compile(
    r"(?P<paper>\b(?:DESIGN|PANEL|AGENTLENS|STYLE)|reference/[a-z-]+)(?:\.md)?`? "
    r"(?P<paragraphs>§[0-9][0-9.]*(?:(?:,| and| to) §[0-9][0-9.]*)*)"
)


def citations(text: str) -> set[str]:
    """`PANEL §2.3` for each paragraph that is named; the ends of a range stand for it."""
    return {
        f"{found['paper']} {paragraph.rstrip('.')}"
        for found in _CITATION.finditer(text)
        for paragraph in re.findall(r"§[0-9.]+", found["paragraphs"])
    }


def test_every_paragraph_that_the_code_cites_is_in_the_list() -> None:
    page = ROOT / "docs/sources.md"
    listed = set(re.findall(r"^\| ([^|]+?) \|", page.read_text(encoding="utf-8"), re.MULTILINE))
    read = [
        path
        for folder in FOLDERS
        for kind in ("*.py", "*.md", "*.lua", "*.yaml")
        for path in (ROOT / folder).rglob(kind)
        if path != page
    ]
    cited = set[str]().union(*(citations(path.read_text(encoding="utf-8")) for path in read))

    assert len(cited) > 25
    assert cited - listed == set()
    assert listed - cited - {"cited"} == set()


def test_a_citation_is_read_in_all_its_forms() -> None:
    assert citations("counted (PANEL §2.2, §2.3.)") == {"PANEL §2.2", "PANEL §2.3"}
    assert citations("AGENTLENS §4 to §8") == {"AGENTLENS §4", "AGENTLENS §8"}
    assert citations("`reference/panel.md` §5.4.") == {"reference/panel §5.4"}
