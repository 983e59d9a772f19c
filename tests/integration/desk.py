"""A worker's desk without Celery: a gateway of its own, and runs that are played step by step on real rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tests.cages import NoCage
from tests.factories import NoToolbox, make_team, team_data
from tests.integration.model_server import ModelServer
from tests.integration.stored_runs import events_of, store_run
from workers.core.run import Close, Next, Stage
from workers.core.team import Team
from workers.gateway import Gateway, LoopThread
from workers.governor.accounts import Accounts
from workers.governor.base import Limits
from workers.governor.limit_book import LimitBook
from workers.provenance.repository.stages import SeatKey
from workers.provenance.session import Database
from workers.providers.registry import ProviderConfig, enabled
from workers.stages import STAGES
from workers.stages.context import Context
from workers.stages.finish import finish_run
from workers.stages.seat import advance, run_seat
from workers.teams import prompt_environment
from workers.wiring import SeatsAtWork, new_id, now


@dataclasses.dataclass
class Clock:
    """Seconds that pass when a test says so."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclasses.dataclass(frozen=True)
class Desk:
    """Works on seats as a worker's thread does."""

    context: Context
    gateway: Gateway
    accounts: Accounts

    def work(self, key: SeatKey) -> Next:
        return run_seat(self.context, key, STAGES[key.stage])

    def open(self, run_id: str) -> SeatKey:
        """The coder's seat of a stored run, opened."""
        advance(self.context, run_id)
        return SeatKey(run_id=run_id, round=1, stage=Stage.CODER, seat="coder")

    def play(self, run_id: str) -> None:
        """Every seat of a stored run, one after the other, to its end."""
        step = advance(self.context, run_id)
        while step is not None:
            if isinstance(step, Close):
                finish_run(self.context, step.run_id)
                return
            following = [
                self.work(SeatKey(run_id=run_id, round=step.round, stage=step.stage, seat=seat))
                for seat in step.seats
            ]
            step = next((next_step for next_step in following if next_step), None)

    def payloads(self, run_id: str) -> dict[str, Mapping[str, Any]]:
        """What each seat left in the ledger, by seat."""
        return {
            event.payload.get("seat", event.kind): event.payload
            for event in events_of(self.context.database, run_id)
            if event.payload
        }


def providers_at(server: ModelServer, **cheap_models: str) -> dict[str, ProviderConfig]:
    """Four real providers, all served by `server`, each with a key; cheap models as given."""
    names = ("OPENAI", "MISTRAL", "DEEPSEEK", "GROQ")
    environment = {f"{name}_BASE_URL": server.url for name in names} | {
        f"{name}_API_KEY": "a-key" for name in names
    }
    return {
        name: dataclasses.replace(config, cheap_model=cheap_models.get(name))
        for name, config in enabled(environment).items()
    }


@contextmanager
def desk(
    database: Database,
    redis_url: str,
    providers: Mapping[str, ProviderConfig],
    *,
    clock: Clock | None = None,
    limits: Mapping[str, Limits] | None = None,
    slot_wait_seconds: float = 5.0,
    owner: str = "me",
    loop: LoopThread | None = None,
) -> Iterator[Desk]:
    """`limits` by provider; none by default, so that nothing has to wait."""
    accounts = Accounts(clock or Clock())
    loop = loop or LoopThread()
    gateway = Gateway(
        loop,
        providers,
        redis_url=redis_url,
        owner=owner,
        processes=1,
        slot_wait_seconds=slot_wait_seconds,
        accounts=accounts,
        limits=LimitBook(limits or {}),
    )
    prompts = prompt_environment()
    context = Context(
        database=database,
        models=gateway,
        owner=owner,
        lease_seconds=30,
        held_seconds=300.0,
        now=now,
        new_id=new_id,
        sleep=lambda _: None,
        render=lambda name, **values: prompts.get_template(name).render(**values),
        at_work=SeatsAtWork(),
        toolbox=NoToolbox(),
        cage=NoCage(),
    )
    try:
        yield Desk(context=context, gateway=gateway, accounts=accounts)
    finally:
        gateway.close()
        loop.close()


def chain_team(
    coder: Sequence[str],
    others: Sequence[str] = ("groq/llama-9",),
    *,
    lead: Sequence[str] | None = None,
    retries: int = 1,
) -> Team:
    """The small team with these chains; the right reviewer begins with deepseek, as a panel needs two families."""
    data = team_data()
    data["coder"]["models"] = list(coder)
    for seat in (*data["reviewers"].values(), data["consensus"]):
        seat["models"] = list(others)
    data["reviewers"]["right"]["models"].insert(0, "deepseek/deepseek-flash")
    data["lead"]["models"] = list(lead or others)
    return make_team(**{**data, "policy": {"quorum": {"heads": 2, "families": 1}, "retries": retries}})


def store(database: Database, run_id: str, team: Team) -> str:
    store_run(database, run_id, team=team.as_data())
    return run_id
