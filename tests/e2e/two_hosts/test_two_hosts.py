"""Workers apart from database and broker, and a line between them that is cut for longer than a lease."""

from __future__ import annotations

import pytest

from tests.e2e.two_hosts.__main__ import play
from tests.e2e.two_hosts.network import Network


@pytest.mark.namespaces
def test_runs_go_on_while_the_line_between_two_hosts_is_cut_and_after_it_is_healed() -> None:
    with Network() as network:
        assert play(network, seed=0, runs=24) == 0
