"""Text inside an artefact that tries to instruct its reviewers: found by code, reported, counted by nobody.

The patterns are few and each needs an order, not a topic: code *about* prompts must be able to speak of them. What
they miss is harmless all the same, because no text moves a verdict (fence.py, consensus.py, verdict.py)."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

from workers.core.artefact import Files, Span
from workers.core.claim import Claim
from workers.core.finding import Severity

CATEGORY = "injection"
#: More are one attack, or no attack at all.
MAX_INJECTIONS = 20
#: An order stands on one line; what is longer is minified and read only this far.
MAX_LINE_CHARACTERS = 4000

_AUDIENCE = (
    r"(?:an? |the |any |all )?(?:ai|llm|automated|language[- ]model) ?"
    r"(?:reviewer|model|assistant|agent|judge)s?"
)
_PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "orders whoever reads it to forget its instructions",
        re.compile(
            r"\b(?:ignore|disregard|forget|override)\b[\w ,'-]{0,40}"
            r"\b(?:previous|prior|above|earlier|preceding|system|your|all)\b[\w ,'-]{0,30}"
            r"\b(?:instructions?|prompts?|rules|directives|guidelines)\b"
            # "the above" may be a case or a comment; an order to forget it goes on with what to say instead.
            r"|\b(?:ignore|disregard|forget)\b[\w ]{0,20}\b(?:above|before)\b,? (?:and|then|instead)"
            r"(?: then| instead)? (?:output|say|answer|reply|respond|approve|accept)\b",
            re.IGNORECASE,
        ),
    ),
    (
        "dictates a reviewer's answer",
        re.compile(
            r"\b(?:report|return|output|answer|respond|reply)\b[\w ,:'\"-]{0,40}"
            r"(?:\b(?:no|zero|0) (?:findings?|issues?|problems?|defects?|vulnerabilit(?:y|ies)|alarms?)\b"
            r"|\ban? empty (?:list|array) of (?:findings|issues)\b)"
            # Code returns such a thing; only an order answers with it.
            r"|\b(?:answer|respond|reply|report)\b[\w ,:{'\"-]{0,40}[\"']findings[\"'] ?: ?\[ ?\]",
            re.IGNORECASE,
        ),
    ),
    (
        "orders whoever reads it to approve",
        re.compile(
            # The verb comes first and nothing limits the order: prose about approval names who approves, or when.
            r"(?:#|//|/\*|--|\"\"\"|[.:;]) *(?:please )?"
            r"(?:approve (?:this|the) (?:code|file|change|diff|patch|pull request)(?=[.! ]*$| without\b)"
            r"|(?:mark|rate|judge) this (?:code|file|change|diff|patch|pull request)"
            r" as (?:accepted|approved|safe|correct)\b)",
            re.IGNORECASE | re.MULTILINE,
        ),
    ),
    (
        "addresses a model that reviews it",
        re.compile(
            rf"\b(?:note|message|instructions?|attention|dear)\b[ ,:]{{1,3}}(?:to |for )?{_AUDIENCE}\b"
            rf"|\bif you are {_AUDIENCE}\b"
            rf"|\byou are (?:now )?{_AUDIENCE}\b[\w ,'-]{{0,40}}\b(?:must|should|approve|accept|ignore)\b",
            re.IGNORECASE,
        ),
    ),
    (
        "imitates a model's control tokens",
        # As the models write them: in small letters `[inst]` is a list.
        re.compile(r"<\|(?:im_start|im_end|system|assistant|endoftext)\|>|\[/?INST\]|<</?SYS>>"),
    ),
    (
        "imitates the tags that prompts are built of",
        re.compile(
            r"^\s*(?:#|//|\*|--)?\s*(?:</(?:spec|claims|reviews|killed|tool_result)(?: [0-9a-f]{16})?>"
            # These are tags of other languages, too; with a mark they are ours.
            r"|</(?:file|test) [0-9a-f]{16}>"
            r"|# Role: (?:lead|reviewer|consensus|coder)\b)"
        ),
    ),
    # Unicode tag characters spell ASCII that no editor shows; bidirectional overrides show another order than the
    # one that is read (CVE-2021-42574).
    (
        "hides text from people who read it",
        re.compile("[\U000e0020-\U000e007e]{4,}|[\u202a-\u202e\u2066-\u2069]"),
    ),
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Injection:
    """One line that tries to instruct its readers. `quote` is the line, printable and cut to 200 characters."""

    path: str
    line: int
    what: str
    quote: str


def injections(files: Files) -> tuple[Injection, ...]:
    """At most `MAX_INJECTIONS` lines, by path and line; a line counts once, under the first pattern that it fits."""
    found: list[Injection] = []
    for path in sorted(files):
        for item in _of_file(path, files[path]):
            found.append(item)
            if len(found) == MAX_INJECTIONS:
                return tuple(found)
    return tuple(found)


def injection_claims(files: Files, severity: Severity) -> tuple[Claim, ...]:
    """The injections as claims `I1`, `I2` …, which nobody flagged: their agreement is 0 and they go to no vote."""
    return tuple(
        Claim(
            claim_id=f"I{number}",
            text=f"The text {item.what}: {item.quote}",
            category=CATEGORY,
            severity=severity,
            span=Span(path=item.path, start=item.line, end=item.line),
            finding_ids=(),
            flagged_by=(),
            families=(),
            agreement=0.0,
            weighted_agreement=0.0,
        )
        for number, item in enumerate(injections(files), start=1)
    )


def _of_file(path: str, text: str) -> Iterator[Injection]:
    for number, line in enumerate(text.splitlines(), start=1):
        read = line[:MAX_LINE_CHARACTERS]
        what = next((what for what, pattern in _PATTERNS if pattern.search(read)), None)
        if what is not None:
            yield Injection(path=path, line=number, what=what, quote=_printable(read.strip()))


def _printable(line: str) -> str:
    shown = "".join(
        character if character.isprintable() else f"\\u{{{ord(character):x}}}" for character in line[:200]
    )
    return shown if len(shown) <= 200 else shown[:199] + "…"
