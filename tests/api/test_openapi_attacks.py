"""Requests that the interface's description suggests, and those that it forbids: each answer is one it describes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import APIOperation, Case, GenerationMode
from schemathesis.checks import CheckFunction
from schemathesis.core.failures import FailureGroup
from schemathesis.core.transport import Response
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from api.app import create_app
from api.dependencies import Services
from tests.api.conftest import served
from tests.api.keys import bearer, stored_key
from tests.api.streams import CountingHub, LiveServer
from workers.core.access import Scope
from workers.provenance.session import Database

GENTLY = settings(
    max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None
)


def operations(url: str, headers: dict[str, str]) -> Iterator[APIOperation]:
    description = schemathesis.openapi.from_url(f"{url}/openapi.json", headers=headers)
    # A stream goes on until its run or batch ends, and here nothing works on them.
    for found in description.exclude(path_regex=r"/events$").get_all_operations():
        yield found.ok()


def excluded(case: Case, answer: Response) -> list[CheckFunction]:
    """Checks that say too much of this answer."""
    if answer.status_code == 422:
        # A refusal of what fits: fields that exclude each other, cursors of no page, text that cannot be kept.
        return [positive_data_acceptance]
    if case.path == "/v1/trajectories" and answer.status_code == 200 and answer.json().get("refused"):
        # An upload says of each part what became of it; one that is no file was refused there.
        return [negative_data_rejection]
    return []


def faults_of(url: str, mode: GenerationMode, headers: dict[str, str]) -> list[str]:
    """What answers say that the description does not, for requests of every operation."""
    faults, said = [], ""
    for operation in operations(url, headers):

        @GENTLY
        @given(case=operation.as_strategy(generation_mode=mode))
        def ask(case: Case) -> None:
            nonlocal said
            answer = case.call(timeout=20, headers=headers)
            said = f"{answer.text[:300]} to {answer.request.url}"
            case.validate_response(answer, excluded_checks=excluded(case, answer), headers=headers)

        try:
            ask()
        except Unsatisfiable:
            # Nothing about it can be wrong: it takes neither parameters nor a body.
            assert mode is GenerationMode.NEGATIVE
        except FailureGroup as group:
            faults += [f"{operation.label}: {fault.message}; it said {said}" for fault in group.exceptions]
    return faults


@pytest.mark.parametrize("mode", list(GenerationMode))
def test_every_answer_is_one_that_the_description_has(live: LiveServer, mode: GenerationMode) -> None:
    """The status, its form and its headers, whether the request is as described or is not; never a fault of ours."""
    faults = faults_of(live.url, mode, {})
    assert not faults, "\n".join(faults)


def test_so_it_is_where_keys_are_asked_for(database: Database, database_url: str) -> None:
    services = Services(
        database=Database(database_url, pool_size=4),
        hub=CountingHub(database_url),
        submit=lambda _: None,
        broker_problem=lambda: None,
        needs_key=True,
    )
    key = bearer(stored_key(database, Scope.ADMIN))
    with served(create_app(services)) as url:
        faults = faults_of(url, GenerationMode.NEGATIVE, key)
        described = {operation.label for operation in operations(url, key)}
    assert len(described) > 20
    assert not faults, "\n".join(faults)
