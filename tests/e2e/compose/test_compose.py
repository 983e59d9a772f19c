"""The compose file as users bring it up, but for the images, which are made on this machine."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tests.e2e.compose.play import play


@pytest.mark.compose
def test_a_batch_goes_through_the_compose_file_and_nothing_is_left_of_it(docker_host: str) -> None:
    assert docker_host.startswith("unix://")
    # Not under a home directory: the engine mounts its socket from here into containers.
    with tempfile.TemporaryDirectory(prefix="consensus-compose-", dir="/var/tmp") as folder:
        play(Path(docker_host.removeprefix("unix://")), Path(folder), say=print)
