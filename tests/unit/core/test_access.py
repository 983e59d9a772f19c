"""Each scope includes those before it."""

from __future__ import annotations

import pytest

from workers.core.access import Scope


@pytest.mark.parametrize(
    ("held", "included"),
    [
        (Scope.READ, {Scope.READ}),
        (Scope.SUBMIT, {Scope.READ, Scope.SUBMIT}),
        (Scope.ADMIN, {Scope.READ, Scope.SUBMIT, Scope.ADMIN}),
    ],
)
def test_a_scope_includes_itself_and_those_before_it(held: Scope, included: set[Scope]) -> None:
    assert {scope for scope in Scope if held.includes(scope)} == included
