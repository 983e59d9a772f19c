"""A canary: a program that looks around in the cage before anything untrusted may enter.

An engine takes every setting and need not keep it (rootless engines on old kernels drop memory and process limits,
an image can lack the launcher). So the first run in an image is this one, and what it sees must be what was asked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from workers.sandbox.base import SCRATCH, CageResult, Ending, Limits

#: Room for a slow machine; the program itself needs milliseconds.
PROBE_LIMITS = Limits(timeout_seconds=30)

_SECCOMP_FILTER = "2"
#: Docker's own and the launcher's.
_LEAST_FILTERS = 2

#: Prints one JSON object. Reads only; the one attempt to write is made where it must fail.
PROBE = r"""
import json, os
status = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
def first(*paths):
    for path in paths:
        try:
            return open(path).read().strip()
        except OSError:
            pass
def writable(folder):
    try:
        os.rmdir(os.mkdir(folder + "/canary") or folder + "/canary")
    except OSError:
        return False
    return True
mounts = {line.split()[1]: line.split()[3].split(",") for line in open("/proc/self/mounts")}
room = os.statvfs("SCRATCH")
print(json.dumps({
    "uid": os.getuid(),
    "capabilities": [status[name].strip() for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")],
    "no_new_privileges": status["NoNewPrivs"].strip(),
    "seccomp": status["Seccomp"].strip(),
    "filters": status.get("Seccomp_filters", "").strip(),
    "interfaces": sorted(os.listdir("/sys/class/net")),
    "root": mounts["/"],
    "scratch": mounts.get("SCRATCH", []),
    "scratch_bytes": room.f_blocks * room.f_frsize,
    "writable": [f for f in ("/", "/workspace", "/opt/cage", "/etc", "/usr", "/var", "/root", "/run") if writable(f)],
    "processes": first("/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/pids/pids.max"),
    "memory_bytes": first("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"),
}))
""".replace("SCRATCH", SCRATCH)


def faults(result: CageResult, *, uid: int) -> list[str]:
    """What the canary found that a cage must not have, in words; empty when the cage holds."""
    if result.ending is not Ending.EXITED or result.exit_code != 0:
        said = result.stderr.text.strip().splitlines()
        return [f"the canary ended with {result.ending}, exit code {result.exit_code}: {' '.join(said[-1:])}"]
    try:
        return _compare(json.loads(result.stdout.tail), result.limits, uid)
    except (ValueError, LookupError, TypeError):
        return ["the canary said nothing that can be read"]


def _compare(seen: Mapping[str, Any], limits: Limits, uid: int) -> list[str]:
    checks = {
        f"it runs as uid {seen['uid']}": seen["uid"] == uid,
        "it has capabilities": all(int(mask, 16) == 0 for mask in seen["capabilities"]),
        "it may gain privileges": seen["no_new_privileges"] == "1",
        "its system calls are not filtered": seen["seccomp"] == _SECCOMP_FILTER,
        # Kernels before 5.9 do not count filters.
        "the launcher's filter is missing": not seen["filters"] or int(seen["filters"]) >= _LEAST_FILTERS,
        f"it has network interfaces {seen['interfaces']}": seen["interfaces"] in ([], ["lo"]),
        "its root is writable": "ro" in seen["root"],
        f"it can write to {seen['writable']}": not seen["writable"],
        f"{SCRATCH} is not a bounded noexec tmpfs": {"noexec", "nosuid", "nodev"} <= set(seen["scratch"])
        and seen["scratch_bytes"] <= limits.scratch_bytes,
        f"its processes are limited to {seen['processes']}": seen["processes"] == str(limits.processes),
        f"its memory is limited to {seen['memory_bytes']}": seen["memory_bytes"] == str(limits.memory_bytes),
    }
    return [fault for fault, holds in checks.items() if not holds]
