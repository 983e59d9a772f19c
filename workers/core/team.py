"""A team: a YAML file as a value. Who sits where, on which model chain, under which policy (PANEL §6).

Reading the file and naming its lines is `workers/teams.py`'s business; this module only knows plain data."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator, model_validator
from pydantic_core import PydanticCustomError

from workers.core.model_family import model_family
from workers.core.run import Stage

Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,39}$")]
Link = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]*/\S+$", max_length=200)]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)


class Seat(Strict):
    """A role occupied by a chain of models: the first that answers speaks."""

    models: tuple[Link, ...] = Field(
        min_length=1, max_length=20, description="provider/model, first choice first"
    )
    persona: str = Field(
        default="", max_length=20_000, description="what this seat looks for, in plain words"
    )
    temperature: float | None = Field(default=None, ge=0, le=2)
    max_tokens: int = Field(
        default=4096, ge=64, le=200_000, description="for the first try; re-asking raises it"
    )
    timeout_seconds: float = Field(
        default=180, gt=0, le=600, description="one call, waiting for tokens included"
    )
    stream: bool = Field(default=False, description="read the reply as it is written")


class Quorum(Strict):
    heads: int = Field(default=2, ge=1, le=32, description="reviewers who must flag a claim")
    families: int = Field(default=2, ge=1, le=32, description="model families among them")


class Policy(Strict):
    quorum: Quorum = Quorum()
    threshold: float = Field(
        default=0.0, ge=0, le=1, description="least weighted agreement of a claim that counts"
    )
    retries: int = Field(
        default=2, ge=0, le=10, description="N: a link of a chain sends at most N+1 requests"
    )
    passes: int = Field(default=1, ge=1, le=5, description="how often each reviewer looks")
    rounds: int = Field(default=1, ge=1, le=5, description="most rounds; the lead may send the code back")
    refute: bool = Field(default=True, description="kill mandates on or off")
    max_refutations: int = Field(default=12, ge=0, le=64, description="most claims refuted in a round")
    gate: Literal["auto", "required", "off"] = Field(
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


class Team(Strict):
    """A whole domain, without code."""

    name: Name
    version: int = Field(default=1, ge=1)
    description: str = Field(min_length=1, max_length=2000)
    coder: Seat
    reviewers: dict[Name, Seat] = Field(min_length=1, max_length=32)
    consensus: Seat
    lead: Seat
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
    policy: Policy = Policy()
    sandbox: Sandbox = Sandbox()

    @field_validator("reviewers")
    @classmethod
    def _names_are_free(cls, reviewers: dict[str, Seat]) -> dict[str, Seat]:
        taken = sorted(set(reviewers) & {"coder", "consensus", "lead", "refuter", "prover", "control"})
        if taken:
            raise ValueError(f"{taken[0]!r} is the name of another seat; call the reviewer something else")
        return reviewers

    @model_validator(mode="after")
    def _panel_is_diverse(self) -> Self:
        """A reviewer never shares the coder's model, and a panel has at least two families (PANEL §6)."""
        coder = self.coder.models[0]
        for name, seat in self.reviewers.items():
            if bare_model(seat.models[0]) == bare_model(coder):
                raise _rule(
                    ("reviewers", name, "models"),
                    f"reviewer {name!r} has the coder's model {coder}; give it another first choice",
                )
        families = {family_of(seat.models[0]) for seat in self.reviewers.values()}
        if len(families) < 2:
            raise _rule(
                ("reviewers",),
                f"all reviewers are of the model family {families.pop()!r}; a panel needs at least two families",
            )
        if self.policy.quorum.heads > len(self.reviewers):
            raise _rule(
                ("policy", "quorum", "heads"),
                f"is {self.policy.quorum.heads} but there are {len(self.reviewers)} reviewers",
            )
        if self.policy.quorum.families > len(families):
            raise _rule(
                ("policy", "quorum", "families"),
                f"is {self.policy.quorum.families} but the reviewers are of {len(families)} families",
            )
        return self

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


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SeatAt:
    index: int
    stage: Stage
    name: str
    seat: Seat


def _rule(place: tuple[str, ...], message: str) -> PydanticCustomError:
    """A rule between fields that is broken; `place` is the field where it can be mended."""
    return PydanticCustomError("team_rule", "{message}", {"message": message, "place": place})


def bare_model(link: str) -> str:
    """The model of a link without those who serve it: `openrouter/openai/gpt-5` and `openai/gpt-5` are one."""
    return link.rpartition("/")[2].lower()


def family_of(link: str) -> str:
    """The model family of a chain's link, `provider/model`."""
    provider, _, model = link.partition("/")
    return model_family(provider, model)
