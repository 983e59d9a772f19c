"""What the engine is told about one cage: every limit, in the words of its API.

The reason of each setting that Docker does not have by itself:

* `network_disabled` beside `network_mode="none"` is the same empty namespace for half the time.
* `log_config none`: a program's output would otherwise fill the engine's disk; it is read from the attached stream.
* `timeout` as process 1 cannot be killed or stopped from inside, and ends the cage when the worker has died.
* `/dev/shm` is a second writable place that cannot be left out (multiprocessing needs it), so it is made small.
* `nr_inodes`: empty files cost no bytes, only kernel memory.
* A uid per slot: the kernel counts some limits per uid over all containers. For the same reason there is no `nproc`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from workers.sandbox.base import SCRATCH, WORKSPACE, Limits

#: The uid of slot 0. 65534 is what everything else runs as that has no user of its own.
FIRST_UID = 20_000
SHARED_MEMORY_BYTES = 1024 * 1024
LAUNCHER = ("python", "-I", "/opt/cage/launch.py")
#: Process 1 gives up this long after the worker should have ended the cage.
GRACE_SECONDS = 3

#: All that a program sees of an environment, with what the image itself sets.
ENVIRONMENT = {
    "HOME": SCRATCH,
    "TMPDIR": SCRATCH,
    "LANG": "C.UTF-8",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
}


def uid_of(slot: int) -> int:
    return FIRST_UID + slot


def confinement(
    *,
    image: str,
    command: Sequence[str],
    slot: int,
    volume: str | None,
    limits: Limits,
    labels: Mapping[str, str],
) -> dict[str, Any]:
    """Keyword arguments of `containers.create`. `volume` holds the workspace; None leaves the folder empty."""
    from docker.types import LogConfig, Mount, Ulimit

    uid = uid_of(slot)
    whole_seconds = math.ceil(limits.timeout_seconds)
    ulimits = {
        "nofile": limits.open_files,
        "fsize": limits.scratch_bytes,
        "core": 0,
        "memlock": 65_536,
        "msgqueue": 0,
        "cpu": math.ceil(limits.timeout_seconds * max(1.0, limits.cpus)) + 1,
    }
    return {
        "image": image,
        "entrypoint": ["timeout", "-s", "KILL", str(whole_seconds + GRACE_SECONDS), *LAUNCHER],
        "command": list(command),
        "user": f"{uid}:{uid}",
        "working_dir": WORKSPACE,
        "hostname": "cage",
        "environment": dict(ENVIRONMENT),
        "labels": dict(labels),
        "detach": True,
        "init": False,
        "tty": False,
        "stdin_open": False,
        "restart_policy": {"Name": "no"},
        "log_config": LogConfig(type="none"),
        "network_mode": "none",
        "network_disabled": True,
        "read_only": True,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges=true"],
        "ipc_mode": "private",
        "cgroupns": "private",
        "shm_size": SHARED_MEMORY_BYTES,
        "pids_limit": limits.processes,
        "mem_limit": limits.memory_bytes,
        "memswap_limit": limits.memory_bytes,
        "nano_cpus": int(limits.cpus * 1e9),
        "oom_score_adj": 500,
        "tmpfs": {
            SCRATCH: f"rw,noexec,nosuid,nodev,size={limits.scratch_bytes},nr_inodes={limits.scratch_files},mode=1777"
        },
        "mounts": [Mount(WORKSPACE, volume, type="volume", read_only=True)] if volume else [],
        "ulimits": [Ulimit(name=name, soft=value, hard=value) for name, value in ulimits.items()],
    }
