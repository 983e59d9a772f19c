"""What a run will cost, before anything is sent: the first model of every seat, one call each (DESIGN §4, §7).

The prompts are rendered as the seats will get them. What is not written yet (the candidate, the claims) is put
at what models usually write, and the candidate at most at what the coder may write."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from workers.core.budget import (
    Account,
    Amount,
    Budget,
    Price,
    PriceOf,
    bill_usd,
    likely_tokens,
    most_tokens,
    refusal,
    worst_case,
)
from workers.core.proof import PROVER_MAX_TOKENS
from workers.core.refutation import REFUTER_MAX_TOKENS
from workers.core.reply import Usage
from workers.core.run import Stage
from workers.core.slices import DEFAULT_CONTEXT_TOKENS
from workers.core.team import EquippedTeam, Seat, SeatAt
from workers.errors import InputError
from workers.providers.chain import Link, default_models, parse_link, resolve_chain
from workers.providers.prices import context_tokens as window_of
from workers.providers.registry import PROVIDERS, SIMULATOR, ProviderConfig
from workers.providers.simulator.problem import MODELS
from workers.tools.briefing import Render, instructions, references

#: What each role usually writes, tokens; a seat's `max_tokens` bounds it.
USUAL_OUTPUT_TOKENS = {
    Stage.CODER: 1500,
    Stage.PANEL: 600,
    Stage.CONSENSUS: 300,
    Stage.REFUTE: 200,
    Stage.GATE: 500,
    Stage.LEAD: 1800,
}
#: How many claims are usually refuted and tested; a team's own numbers bound both.
USUAL_REFUTATIONS, USUAL_PROOFS = 2, 1
#: Stands for the model of a provider that is asked for its list only when the run starts.
FIRST_LISTED = "(the first it lists)"

#: Whom existing code is shown to.
_READERS = frozenset({Stage.PANEL, Stage.LEAD})
_ROLES = {Stage.PANEL: "reviewer"}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """What the models will be shown of a submission."""

    spec: str
    files: Mapping[str, str] = dataclasses.field(default_factory=dict)
    tests: Mapping[str, str] = dataclasses.field(default_factory=dict)
    #: The files are judged as they are; no coder is asked.
    is_review: bool = False
    #: A scanner's alarms are judged; no claim goes to a refuter or to the gate.
    has_alarms: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SeatEstimate:
    """One call of one seat to the first model of its chain; of refuters, provers and controls, who get a claim each,
    all calls together. `price` is None where nobody knows it."""

    stage: Stage
    seat: str
    link: Link
    price: Price | None
    expected: Amount
    worst: Amount


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RunEstimate:
    """The seats in flow order; asking again is not in it, although a budget counts it."""

    team: str
    seats: tuple[SeatEstimate, ...]

    @property
    def expected(self) -> Amount:
        return sum((seat.expected for seat in self.seats), Amount())

    @property
    def worst(self) -> Amount:
        return sum((seat.worst for seat in self.seats), Amount())

    @property
    def lead_share(self) -> Amount:
        """What a budget keeps for the lead: the worst case of its first call."""
        return next(seat.worst for seat in self.seats if seat.stage is Stage.LEAD)

    @property
    def unpriced(self) -> tuple[SeatEstimate, ...]:
        return tuple(seat for seat in self.seats if seat.price is None)

    @property
    def is_simulated(self) -> bool:
        return all(seat.link.provider == SIMULATOR for seat in self.seats)


def estimate(
    team: EquippedTeam,
    submitted: Submitted,
    *,
    enabled: Mapping[str, ProviderConfig],
    price_of: PriceOf,
    render: Render,
) -> RunEstimate:
    """The cost of one run, from what is known before it. Pure but for `render`, which reads prompts."""
    seats = {(place.stage, place.name): place.seat for place in team.seats()}
    reviewers = [seat for (stage, _), seat in seats.items() if stage is Stage.PANEL]
    coder = seats[Stage.CODER, "coder"]
    code = likely_tokens("".join(submitted.files.values()))
    candidate = _Pending(
        likely=_usual(Stage.CODER, coder, at_least=code),
        most=coder.max_tokens,
    )
    if submitted.is_review:
        candidate = _Pending(likely=0, most=0)  # each seat is shown what fits into its own window
    # Claims are findings in fewer words. Were they put at all that reviewers may write, the lead's share would
    # leave most budgets no room for anybody else.
    written = sum(_usual(Stage.PANEL, seat) for seat in reviewers)
    claims = _Pending(likely=written // 2, most=written)
    nothing = _Pending(likely=0, most=0)
    shown = {
        Stage.CODER: (submitted, nothing),
        Stage.PANEL: (dataclasses.replace(submitted, files={}), candidate),
        Stage.CONSENSUS: (dataclasses.replace(submitted, files={}, tests={}), claims),
        Stage.LEAD: (dataclasses.replace(submitted, files={}), candidate + claims),
    }
    known: dict[str, Any] = {
        "enabled": enabled,
        "price_of": price_of,
        "render": render,
        "context_tokens": team.policy.context_tokens,
    }
    fixed = [
        _seat(
            place,
            *shown[place.stage],
            brief=_brief(_ROLES.get(place.stage, place.stage.value), team, submitted, render),
            code_tokens=code if submitted.is_review and place.stage in _READERS else 0,
            likely_output=candidate.likely if place.stage is Stage.CODER else _usual(place.stage, place.seat),
            **known,
        )
        for place in team.seats()
        if not (submitted.is_review and place.stage is Stage.CODER)
    ]
    claims_at_work = [
        _times(
            _seat(
                place,
                *work,
                brief=_brief(place.name, team, submitted, render),
                code_tokens=code if submitted.is_review else 0,
                likely_output=output,
                **known,
            ),
            usual,
            most,
        )
        for place, work, output, usual, most in _claim_seats(team, submitted, candidate)
    ]
    return RunEstimate(team=team.name, seats=(*fixed[:-1], *claims_at_work, fixed[-1]))


_ClaimSeat = tuple[SeatAt, tuple[Submitted, "_Pending"], int, int, int]


def _claim_seats(team: EquippedTeam, submitted: Submitted, candidate: _Pending) -> Iterator[_ClaimSeat]:
    """Refuter, prover and control: what each is shown and writes for a claim, and for how many, usually and at most."""
    policy, reviewer = team.policy, next(iter(team.reviewers.values()))
    code = dataclasses.replace(submitted, files={})
    if submitted.has_alarms:
        return
    if policy.refute and policy.max_refutations:
        seat = team.refuter or reviewer.model_copy(update={"max_tokens": REFUTER_MAX_TOKENS})
        place = SeatAt(index=0, stage=Stage.REFUTE, name="refuter", seat=seat)
        shown = (dataclasses.replace(code, spec="", tests={}), candidate)
        yield place, shown, _usual(Stage.REFUTE, seat), USUAL_REFUTATIONS, policy.max_refutations
    if policy.gate != "off" and policy.max_proofs:
        prover = team.prover or reviewer.model_copy(update={"max_tokens": PROVER_MAX_TOKENS})
        control = team.control or team.coder
        rewritten = likely_tokens("".join(submitted.files.values()))
        for name, seat, output in (
            ("prover", prover, _usual(Stage.GATE, prover)),
            ("control", control, candidate.likely or min(rewritten, control.max_tokens)),
        ):
            place = SeatAt(index=0, stage=Stage.GATE, name=name, seat=seat)
            yield place, (code, candidate), output, USUAL_PROOFS, policy.max_proofs


def _times(one: SeatEstimate, usual: int, most: int) -> SeatEstimate:
    return dataclasses.replace(
        one,
        expected=sum([one.expected] * min(usual, most), Amount()),
        worst=sum([one.worst] * most, Amount()),
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Pending:
    """Tokens of a text that is not written yet."""

    likely: int
    most: int

    def __add__(self, other: _Pending) -> _Pending:
        return _Pending(likely=self.likely + other.likely, most=self.most + other.most)


def _usual(stage: Stage, seat: Seat, *, at_least: int = 0) -> int:
    return min(max(USUAL_OUTPUT_TOKENS[stage], at_least), seat.max_tokens)


def _brief(role: str, team: EquippedTeam, submitted: Submitted, render: Render) -> list[str]:
    """What a role is told besides its task: instructions with skills, looked-up passages."""
    looked_up = references(render, role, team, spec=submitted.spec, submitted=submitted.files)
    return [instructions(render, role, team), *([looked_up] if looked_up else [])]


def _seat(
    place: SeatAt,
    submitted: Submitted,
    pending: _Pending,
    *,
    brief: Sequence[str],
    enabled: Mapping[str, ProviderConfig],
    price_of: PriceOf,
    render: Render,
    likely_output: int,
    code_tokens: int,
    context_tokens: int | None,
) -> SeatEstimate:
    texts = [
        *brief,
        render(
            "material.md",
            spec=submitted.spec,
            files=submitted.files,
            tests=submitted.tests,
            claims="",
            reviews="",
        ),
        *([render("persona.md", persona=place.seat.persona)] if place.seat.persona else []),
    ]
    link = first_link(place, enabled, price_of)
    price = price_of(link.provider, link.model)
    # Slices are chosen by three bytes a token, and at worst there are two.
    shown = min(
        code_tokens,
        window_of(link.provider, link.model) or DEFAULT_CONTEXT_TOKENS,
        *(() if context_tokens is None else (context_tokens,)),
    )
    pending += _Pending(likely=shown, most=2 * shown)
    likely_input = sum(map(likely_tokens, texts)) + pending.likely
    usual = Usage(input_tokens=likely_input, output_tokens=likely_output)
    return SeatEstimate(
        stage=place.stage,
        seat=place.name,
        link=link,
        price=price,
        expected=Amount(
            input_tokens=likely_input,
            output_tokens=likely_output,
            usd=bill_usd(price, usual),
        ),
        worst=worst_case(
            price, input_tokens=most_tokens(texts) + pending.most, output_tokens=place.seat.max_tokens
        ),
    )


def first_link(place: SeatAt, enabled: Mapping[str, ProviderConfig], price_of: PriceOf) -> Link:
    """The model that the seat asks first. Where this process has no provider on (its workers may have others),
    the first of the chain that has a price."""
    links = [parse_link(entry) for entry in place.seat.models]
    if not enabled:
        return next((link for link in links if price_of(link.provider, link.model)), links[0])
    listed = {
        name: default_models(SIMULATOR, MODELS) if name == SIMULATOR else (FIRST_LISTED,) for name in enabled
    }
    return resolve_chain(place.seat.models, enabled, listed, place.index)[0]


def check_priced(estimated: RunEstimate, budget: Budget) -> None:
    """Raises: InputError when a budget in dollars could not be kept, because a model's price is unknown."""
    if budget.usd is None or not estimated.unpriced:
        return
    seat = estimated.unpriced[0]
    if seat.link.model == FIRST_LISTED:
        variable = PROVIDERS[seat.link.provider].model_variable
        raise InputError(
            f"the seat {seat.seat!r} would ask whatever model {seat.link.provider} lists first, whose price is not "
            f"known, so a budget in dollars cannot be kept; name a model in {variable}, or give a budget in tokens"
        )
    raise InputError(
        f"no price is known for {seat.link.provider}/{seat.link.model} (seat {seat.seat!r}), so a budget in dollars "
        "cannot be kept; give a budget in tokens, or a team whose models have prices"
    )


def estimate_data(estimated: RunEstimate, budget: Budget) -> dict[str, Any]:
    """The estimate as plain data for JSON; money in US dollars, null where a price is not known."""
    worst = estimated.worst
    fits = None
    if budget.is_set:
        account = Account(scope="run", budget=budget)
        fits = refusal(account, worst, is_lead=True) is None
    return {
        "dry_run": True,
        "team": estimated.team,
        "simulated": estimated.is_simulated,
        "seats": [
            {
                "stage": seat.stage.value,
                "seat": seat.seat,
                "provider": seat.link.provider,
                "model": seat.link.model,
                **_figures(seat.expected, seat.worst),
            }
            for seat in estimated.seats
        ],
        "total": _figures(estimated.expected, worst),
        "unpriced": sorted({f"{seat.link.provider}/{seat.link.model}" for seat in estimated.unpriced}),
        "budget_usd": _number(budget.usd),
        "budget_tokens": budget.tokens,
        "fits_budget": fits,
    }


def _figures(expected: Amount, worst: Amount) -> dict[str, Any]:
    return {
        "input_tokens": expected.input_tokens,
        "output_tokens": expected.output_tokens,
        "cost_usd": _number(expected.usd),
        "worst_input_tokens": worst.input_tokens,
        "worst_output_tokens": worst.output_tokens,
        "worst_cost_usd": _number(worst.usd),
    }


def _number(usd: Decimal | None) -> float | None:
    return None if usd is None else float(usd)
