"""What the engine is told holds every limit of the design, with the numbers that were asked for."""

from __future__ import annotations

from typing import Any

import pytest

from workers.errors import InputError
from workers.sandbox.base import MIB, Limits
from workers.sandbox.confinement import confinement


def told(volume: str | None = "files", slot: int = 3, **limits: Any) -> dict[str, Any]:
    return confinement(
        image="sha256:1",
        command=["python", "-c", "pass"],
        slot=slot,
        volume=volume,
        limits=Limits(**limits),
        labels={"a": "b"},
    )


def test_a_cage_is_closed_by_default() -> None:
    arguments = told()

    assert (arguments["network_mode"], arguments["network_disabled"]) == ("none", True)
    assert arguments["read_only"] is True
    assert arguments["cap_drop"] == ["ALL"]
    assert arguments["security_opt"] == ["no-new-privileges=true"]
    assert arguments["user"] == "20003:20003"
    assert (arguments["ipc_mode"], arguments["cgroupns"]) == ("private", "private")
    assert (arguments["pids_limit"], arguments["mem_limit"]) == (64, 256 * MIB)
    assert arguments["memswap_limit"] == arguments["mem_limit"]
    assert arguments["tmpfs"] == {"/tmp": "rw,noexec,nosuid,nodev,size=67108864,nr_inodes=4096,mode=1777"}
    assert arguments["log_config"]["Type"] == "none"
    assert {"privileged", "devices", "volumes", "cap_add", "pid_mode", "volumes_from"}.isdisjoint(arguments)


def test_the_workspace_is_the_only_mount_and_read_only() -> None:
    (mount,) = told()["mounts"]

    assert mount == {"Target": "/workspace", "Source": "files", "Type": "volume", "ReadOnly": True}
    assert told(volume=None)["mounts"] == []


def test_limits_become_the_engines_numbers() -> None:
    arguments = told(
        timeout_seconds=2.5, cpus=1.5, memory_bytes=64 * MIB, scratch_bytes=8 * MIB, processes=20
    )

    ulimits = {limit["Name"]: (limit["Soft"], limit["Hard"]) for limit in arguments["ulimits"]}
    assert arguments["nano_cpus"] == 1_500_000_000
    assert (arguments["mem_limit"], arguments["pids_limit"]) == (67_108_864, 20)
    assert ulimits["fsize"] == (8_388_608, 8_388_608)
    # 2.5 s on 1.5 cores are 3.75 s of processor time: 4, and one more so that the deadline comes first.
    assert ulimits["cpu"] == (5, 5)
    # 2.5 s are 3 whole ones, and 3 of grace for the worker to do it.
    assert arguments["entrypoint"][:4] == ["timeout", "-s", "KILL", "6"]


def test_no_limit_counts_over_all_cages_of_a_user() -> None:
    assert "nproc" not in {limit["Name"] for limit in told()["ulimits"]}
    assert told(slot=0)["user"] != told(slot=1)["user"]


def test_nothing_of_our_environment_is_handed_on() -> None:
    assert set(told()["environment"]) == {
        "HOME",
        "TMPDIR",
        "LANG",
        "PYTHONDONTWRITEBYTECODE",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD",
    }


@pytest.mark.parametrize(
    ("limits", "sentence"),
    [
        ({"timeout_seconds": 0}, "cage limit timeout_seconds is 0 seconds; it must be between 0.1 and 3600"),
        ({"processes": 1}, "cage limit processes is 1 processes; it must be between 8 and 4096"),
        ({"memory_bytes": -1}, "cage limit memory_bytes is -1 bytes"),
        ({"timeout_seconds": float("nan")}, "cage limit timeout_seconds is nan seconds"),
        ({"output_bytes": 2048, "tail_bytes": 4096}, "cage limit tail_bytes is more than output_bytes"),
    ],
)
def test_a_limit_out_of_bounds_is_refused(limits: dict[str, float], sentence: str) -> None:
    with pytest.raises(InputError) as raised:
        told(**limits)
    assert str(raised.value).startswith(sentence)


def test_the_engine_is_told_this_and_nothing_else() -> None:
    """Each word of it, since a misspelled argument would be no limit at all."""
    arguments = told(
        timeout_seconds=10, cpus=2, memory_bytes=64 * MIB, scratch_bytes=8 * MIB, processes=20, open_files=32
    )
    ulimits = {limit["Name"]: (limit["Soft"], limit["Hard"]) for limit in arguments.pop("ulimits")}
    assert ulimits == {
        "nofile": (32, 32),
        "fsize": (8_388_608, 8_388_608),
        "core": (0, 0),
        "memlock": (65_536, 65_536),
        "msgqueue": (0, 0),
        "cpu": (21, 21),
    }
    assert dict(arguments.pop("log_config")) == {"Type": "none", "Config": {}}
    assert [dict(mount)["Source"] for mount in arguments.pop("mounts")] == ["files"]
    assert arguments == {
        "image": "sha256:1",
        "entrypoint": ["timeout", "-s", "KILL", "13", "python", "-I", "/opt/cage/launch.py"],
        "command": ["python", "-c", "pass"],
        "user": "20003:20003",
        "working_dir": "/workspace",
        "hostname": "cage",
        "environment": {
            "HOME": "/tmp",
            "TMPDIR": "/tmp",
            "LANG": "C.UTF-8",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
        "labels": {"a": "b"},
        "detach": True,
        "init": False,
        "tty": False,
        "stdin_open": False,
        "restart_policy": {"Name": "no"},
        "network_mode": "none",
        "network_disabled": True,
        "read_only": True,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges=true"],
        "ipc_mode": "private",
        "cgroupns": "private",
        "shm_size": 1_048_576,
        "pids_limit": 20,
        "mem_limit": 67_108_864,
        "memswap_limit": 67_108_864,
        "nano_cpus": 2_000_000_000,
        "oom_score_adj": 500,
        "tmpfs": {"/tmp": "rw,noexec,nosuid,nodev,size=8388608,nr_inodes=4096,mode=1777"},
    }
