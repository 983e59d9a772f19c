"""A team: a YAML file as a value. Who sits where, on which model chain, under which policy (PANEL §6).

Reading the file and naming its lines is `workers/teams.py`'s business; this module only knows plain data."""

from __future__ import annotations

import dataclasses
import unicodedata
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StringConstraints,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from workers.core.equipment import Library, McpServer, RelativePath, Retrieval, Strict
from workers.core.model_family import model_family
from workers.core.run import Stage

Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,39}$")]
Link = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]*/\S+$", max_length=200)]
Cwe = Annotated[str, StringConstraints(pattern=r"^CWE-[1-9][0-9]{0,4}$")]
Alias = Annotated[
    str,
    StringConstraints(pattern=r"^\S+$", max_length=60),
    AfterValidator(lambda name: unicodedata.normalize("NFC", name)),
]


class Seat(Strict):
    """A role occupied by a chain of models: the first that answers speaks."""

    models: tuple[Link, ...] = Field(
        min_length=1, max_length=20, description="provider/model, first choice first"
    )
    persona: str = Field(
        default="", max_length=20_000, description="what this seat looks for, in plain words"
    )
    temperature: float | None = Field(
        default=None, ge=0, le=2, description="left out: the provider's own default"
    )
    max_tokens: int = Field(
        default=4096, ge=64, le=200_000, description="for the first try; re-asking raises it"
    )
    timeout_seconds: float = Field(
        default=180, gt=0, le=600, description="one call, waiting for tokens included"
    )
    stream: bool = Field(default=False, description="read the reply as it is written")


class Quorum(Strict):
    """How many must say the same."""

    heads: int = Field(default=2, ge=1, le=32, description="reviewers who must flag a claim")
    families: int = Field(default=2, ge=1, le=32, description="model families among them")


class Policy(Strict):
    """How findings become a verdict."""

    quorum: Quorum = Field(default=Quorum(), description="who must flag a claim for it to count")
    threshold: float = Field(
        default=0.0, ge=0, le=1, description="least weighted agreement of a claim that counts"
    )
    retries: int = Field(
        default=2, ge=0, le=10, description="N: a link of a chain sends at most N+1 requests"
    )
    context_tokens: int | None = Field(
        default=None,
        ge=1000,
        le=2_000_000,
        description="most tokens of code that one seat is shown; default: what its smallest model's window holds",
    )
    injection_severity: Literal["low", "medium", "high", "critical"] = Field(
        default="medium", description="of text in the code that tries to instruct its reviewers"
    )
    passes: int = Field(default=1, ge=1, le=5, description="how often each reviewer looks")
    rounds: int = Field(default=1, ge=1, le=5, description="most rounds; the lead may send the code back")
    refute: bool = Field(default=True, description="kill mandates on or off")
    max_refutations: int = Field(default=12, ge=0, le=64, description="most claims refuted in a round")
    # YAML 1.1 reads a bare `off` as false; whoever writes it means the word.
    gate: Annotated[
        Literal["auto", "required", "off"], BeforeValidator(lambda word: "off" if word is False else word)
    ] = Field(
        default="auto",
        description="auto: claims are tested where a cage is there; required: without one the run is degraded",
    )
    max_proofs: int = Field(default=6, ge=0, le=64, description="most claims tested in a round")
    coder_tests: bool = Field(
        default=False, description="run the coder's and the submitted tests in the cage"
    )


class Sandbox(Strict):
    """What one run of tests in the cage may take."""

    timeout_seconds: float = Field(default=20, ge=1, le=600, description="for one run, all its repeats")
    memory_mb: int = Field(default=256, ge=64, le=65_536, description="memory of the cage, MiB")


#: Words that name other seats than a reviewer's.
SEAT_WORDS = frozenset({"coder", "consensus", "lead", "refuter", "prover", "control"})


class Team(Strict):
    """A whole domain, without code."""

    name: Name = Field(description="what `--team` takes; small letters, digits and '-'")
    aliases: tuple[Alias, ...] = Field(
        default=(), max_length=10, description="other names it answers to; accents and capitals do not matter"
    )
    version: int = Field(default=1, ge=1, description="raise it when the team changes what it does")
    description: str = Field(min_length=1, max_length=2000, description="what the team is for")
    coder: Seat = Field(description="writes the candidate")
    reviewers: dict[Name, Seat] = Field(
        min_length=1, max_length=32, description="the panel, by name; each looks without seeing the others"
    )
    consensus: Seat = Field(description="proposes which claims are the same; code does the counting")
    lead: Seat = Field(description="fixes, rules on claims and signs")
    refuter: Seat | None = Field(
        default=None, description="who tries to kill claims; default: reviewers of another family"
    )
    prover: Seat | None = Field(
        default=None,
        description="writes the deciding test; default: reviewers of another family than the coder",
    )
    control: Seat | None = Field(
        default=None, description="writes the fixed code; default: a seat of another family than the prover"
    )
    policy: Policy = Field(default=Policy(), description="how findings become a verdict")
    sandbox: Sandbox = Field(default=Sandbox(), description="limits of one run of tests in the cage")
    skills: tuple[RelativePath, ...] = Field(
        default=(), max_length=20, description="folders with a SKILL.md, from the team file's folder"
    )
    retrieval: Retrieval | None = Field(default=None, description="documents to look things up in")
    mcp: tuple[McpServer, ...] = Field(
        default=(), max_length=8, description="servers of tools that seats may call"
    )
    never_dismiss_cwe: tuple[Cwe, ...] = Field(
        default=(),
        max_length=200,
        description="weaknesses that no model may dismiss; for alarms of a scanner",
    )

    @field_validator("reviewers")
    @classmethod
    def _names_are_free(cls, reviewers: dict[str, Seat]) -> dict[str, Seat]:
        taken = sorted(set(reviewers) & SEAT_WORDS)
        if taken:
            raise ValueError(f"{taken[0]!r} is the name of another seat; call the reviewer something else")
        return reviewers

    @model_validator(mode="after")
    def _rules_are_kept(self) -> Self:
        broken = tuple(self._broken_rules())
        if broken:
            raise PydanticCustomError("team_rule", "{message}", {"message": broken[0][1], "broken": broken})
        return self

    def _broken_rules(self) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """Rules between fields (PANEL §6): the field where each can be mended, and what is wrong."""
        coder = self.coder.models[0]
        for name, seat in self.reviewers.items():
            if bare_model(seat.models[0]) == bare_model(coder):
                yield (
                    ("reviewers", name, "models"),
                    f"reviewer {name!r} has the coder's model {coder}; give it another first choice",
                )
        families = sorted({family_of(seat.models[0]) for seat in self.reviewers.values()})
        if len(families) < 2:
            yield (
                ("reviewers",),
                f"all reviewers are of the model family {families[0]!r}; a panel needs at least two families",
            )
        if self.policy.quorum.heads > len(self.reviewers):
            yield (
                ("policy", "quorum", "heads"),
                f"is {self.policy.quorum.heads} but there are {len(self.reviewers)} reviewers",
            )
        if self.policy.quorum.families > len(families):
            yield (
                ("policy", "quorum", "families"),
                f"is {self.policy.quorum.families} but the reviewers are of {len(families)} families",
            )
        names = [server.name for server in self.mcp]
        for number, name in enumerate(names):
            if name in names[:number]:
                yield ("mcp", number, "name"), f"{name!r} is the name of another server; give it its own"
        if self.prover and self.control:
            proving, mending = family_of(self.prover.models[0]), family_of(self.control.models[0])
            if proving == mending:
                yield (
                    ("control", "models"),
                    f"the control is of the prover's model family {proving!r}; give it another first choice",
                )

    def answers_to(self, name: str) -> bool:
        """Whether `name` is this team's or one of its aliases, accents and capitals aside."""
        return fold_name(name) in {fold_name(own) for own in (self.name, *self.aliases)}

    def chains(self) -> Iterator[tuple[tuple[str, ...], Seat]]:
        """Every seat that the file describes, with the field where it stands."""
        yield ("coder",), self.coder
        for name, seat in self.reviewers.items():
            yield ("reviewers", name), seat
        yield ("consensus",), self.consensus
        yield ("lead",), self.lead
        for word in ("refuter", "prover", "control"):
            extra: Seat | None = getattr(self, word)
            if extra is not None:
                yield (word,), extra

    def seats(self) -> Iterator[SeatAt]:
        """Every seat in flow order; `index` counts them from 0 and spreads seats over providers."""
        places = [(Stage.CODER, "coder", self.coder)]
        places += [(Stage.PANEL, name, seat) for name, seat in self.reviewers.items()]
        places += [(Stage.CONSENSUS, "consensus", self.consensus), (Stage.LEAD, "lead", self.lead)]
        for index, (stage, name, seat) in enumerate(places):
            yield SeatAt(index=index, stage=stage, name=name, seat=seat)

    def seat_names(self, stage: Stage) -> tuple[str, ...]:
        return tuple(place.name for place in self.seats() if place.stage is stage)

    def place(self, stage: Stage, name: str) -> SeatAt:
        """The seat of that name. Raises KeyError: names come from our own rows."""
        for place in self.seats():
            if place.stage is stage and place.name == name:
                return place
        raise KeyError(f"{stage}/{name}")

    def as_data(self) -> dict[str, Any]:
        return self.model_dump(mode="json")


class EquippedTeam(Team):
    """A team with the texts it brings along, as a run keeps it."""

    texts: Library = Library()

    def manifest(self) -> dict[str, Any]:
        """The team as its file has it, with every default filled in."""
        return self.model_dump(mode="json", exclude={"texts"})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SeatAt:
    index: int
    stage: Stage
    name: str
    seat: Seat


def fold_name(name: str) -> str:
    """A team's name as it is compared: `consensus-testé`, however its accent is encoded, is `consensus-teste`."""
    parts = unicodedata.normalize("NFKD", name)
    return "".join(part for part in parts if not unicodedata.combining(part)).casefold()


def bare_model(link: str) -> str:
    """The model of a link without those who serve it: `openrouter/openai/gpt-5` and `openai/gpt-5` are one."""
    return link.rpartition("/")[2].lower()


def family_of(link: str) -> str:
    """The model family of a chain's link, `provider/model`."""
    provider, _, model = link.partition("/")
    return model_family(provider, model)
