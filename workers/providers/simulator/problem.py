"""A problem that the simulator knows: a spec, its good solution, and the defects that can be planted in it.

The values are read from `problems/*/problem.yaml`, whose README explains each key; what does not fit together
is refused when it is loaded, with a sentence for whoever wrote the file."""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import Annotated, Literal, Self, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from workers.core.artefact import fold
from workers.providers.simulator.edit import Block, find_all, line_range, replace_block

SeverityWord = Literal["low", "medium", "high", "critical"]
ModelName = Literal[
    "sim-alder-large",
    "sim-alder-small",
    "sim-birch-large",
    "sim-birch-small",
    "sim-cedar-large",
    "sim-cedar-small",
]
#: The simulated models, three families of two. Reviewers of one family share their words, not their eyes.
MODELS: tuple[str, ...] = get_args(ModelName)


def family(model: str) -> str:
    """`sim-birch` for `sim-birch-large`."""
    return model.rpartition("-")[0]


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _block(value: object) -> object:
    return tuple(value.rstrip("\n").split("\n")) if isinstance(value, str) and value.strip() else value


Lines = Annotated[Block, BeforeValidator(_block)]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class LeadMove(Strict):
    """What the simulated lead does about a remark; `pretend` changes the lines `before`."""

    does: Literal["fix", "uphold", "dismiss", "pretend"]
    reason: str = Field(min_length=1)
    before: Lines = ()
    after: Lines = ()

    @model_validator(mode="after")
    def _only_a_pretence_has_lines(self) -> Self:
        if {bool(self.before), bool(self.after)} != {self.does == "pretend"}:
            raise ValueError("'before' and 'after' are needed by 'does: pretend' and allowed nowhere else")
        return self


class Remark(Strict):
    """Something that a reviewer may say of the code, right or wrong."""

    severity: SeverityWord
    category: str
    cwe: int | None = None
    symbol: str | None = None
    quote: str = ""
    seen_by: tuple[ModelName, ...] = Field(min_length=1)
    wordings: dict[str, str]
    agreed: str
    suggested_test: str | None = None
    suggested_fix: str | None = None
    #: Words of the spec that decide it, and the test of them that the simulated prover writes.
    rule: str = ""
    test: str = ""
    lead: LeadMove

    @property
    def anchor(self) -> str:
        """The line that must stand in the file for a model to remark on it."""
        return self.quote

    @property
    def quoted(self) -> str:
        """The line that the model gives as evidence."""
        return self.quote

    def words_of(self, model: str) -> str:
        """The model's own words for it, else its family's."""
        return self.wordings.get(model) or self.wordings[family(model)]

    @model_validator(mode="after")
    def _every_beholder_has_words(self) -> Self:
        for model in self.seen_by:
            if not {model, family(model)} & self.wordings.keys():
                raise ValueError(f"{model} sees it, but 'wordings' has neither {model} nor {family(model)}")
        return self


class Bug(Remark):
    """A planted defect: the lines `good` of the solution become `planted`."""

    quote: str = Field(min_length=1)
    good: Lines
    planted: Lines


class Invention(Remark):
    """A remark that is wrong: `at` stands in good code, `quote` may stand nowhere. `survives`: the simulated refuter
    lets it pass. `control`: files that the simulated control mends it with."""

    at: str
    survives: bool = False
    control: dict[str, str] = {}

    @property
    def anchor(self) -> str:
        return self.at

    @property
    def quoted(self) -> str:
        return self.quote or self.at


class Variant(Strict):
    """One of the answers a simulated coder may give: the solution with these bugs planted."""

    name: str
    bugs: tuple[str, ...]


class Problem(Strict):
    name: str
    spec: str = Field(min_length=1)
    path: str
    solution: str
    notes: str
    bugs: dict[str, Bug]
    inventions: dict[str, Invention] = {}
    ghost: str | None = None
    variants: tuple[Variant, ...] = Field(min_length=1)

    @cached_property
    def remarks(self) -> dict[str, Remark]:
        """Bugs and inventions by name."""
        return {**self.bugs, **self.inventions}

    @cached_property
    def _said(self) -> dict[str, str]:
        return {
            fold(words): name
            for name, remark in self.remarks.items()
            for words in (*remark.wordings.values(), remark.agreed)
        }

    def name_behind(self, claim: str) -> str | None:
        """The name of the remark that a claim words, known by its words; None for words of somebody else."""
        return self._said.get(fold(claim))

    def variant_for(self, *, seed: int, model: str) -> Variant:
        """What this coder writes. With seed 0 the first model takes the first variant, the next model the
        next one, round and round; any other seed turns the list by an amount of its own for each problem."""
        turn = int(_digest(f"{seed}|{self.name}"), 16) if seed else 0
        return self.variants[(turn + MODELS.index(model)) % len(self.variants)]

    def code_of(self, variant: Variant) -> str:
        """The variant's code. Raises ValueError if its bugs cannot be planted in the solution."""
        if variant.bugs not in self._written:
            self._written[variant.bugs] = self._plant(variant)
        return self._written[variant.bugs]

    @cached_property
    def _written(self) -> dict[tuple[str, ...], str]:
        return {}

    def _plant(self, variant: Variant) -> str:
        code = self.solution
        for name in variant.bugs:
            if name not in self.bugs:
                raise ValueError(f"variant {variant.name!r} names {name!r}, which is not among the bugs")
            planted = replace_block(code, self.bugs[name].good, self.bugs[name].planted)
            if planted is None:
                raise ValueError(
                    f"variant {variant.name!r}: 'good' of {name!r} must stand in it exactly once"
                )
            code = planted
        return code

    @model_validator(mode="after")
    def _every_bug_fits_the_solution(self) -> Self:
        for name, bug in self.bugs.items():
            if len(find_all(self.solution.split("\n"), bug.good)) != 1:
                raise ValueError(f"bugs.{name}: 'good' must stand in {self.path} exactly once")
            if line_range("\n".join(bug.planted), (bug.quote,)) is None:
                raise ValueError(f"bugs.{name}: 'quote' must be one line of 'planted'")
            if line_range(self.solution, (bug.quote,)) is not None:
                raise ValueError(f"bugs.{name}: 'quote' stands in the good solution too; quote another line")
        return self

    @model_validator(mode="after")
    def _every_invention_fits_the_solution(self) -> Self:
        for name, invention in self.inventions.items():
            if name in self.bugs:
                raise ValueError(f"inventions.{name}: a bug has that name; give it another")
            if line_range(self.solution, (invention.at,)) is None:
                raise ValueError(f"inventions.{name}: 'at' must be a line of {self.path}")
            if invention.lead.does == "fix":
                raise ValueError(
                    f"inventions.{name}: there is nothing to fix; 'does' may be uphold or dismiss"
                )
        return self

    @model_validator(mode="after")
    def _every_rule_stands_in_the_spec(self) -> Self:
        for name, remark in self.remarks.items():
            if remark.rule and fold(remark.rule) not in fold(self.spec):
                raise ValueError(f"{name}: 'rule' must be words of the spec")
            if bool(remark.rule) != bool(remark.test):
                raise ValueError(f"{name}: 'rule' and 'test' go together")
        return self

    @model_validator(mode="after")
    def _every_remark_has_words_of_its_own(self) -> Self:
        for name, remark in self.remarks.items():
            for words in (*remark.wordings.values(), remark.agreed):
                if self.name_behind(words) != name:
                    raise ValueError(f"{words!r} words two remarks; each needs words of its own")
        return self

    @model_validator(mode="after")
    def _every_variant_can_be_written(self) -> Self:
        for variant in self.variants:
            self.code_of(variant)
        return self
