"""Packs a folder with tar, for callers who do not trust the folder's name."""

from collections.abc import Callable, Sequence

TARGET_FOLDER = "/var/backups"


def backup_command(folder: str, name: str) -> list[str]:
    """The arguments of the process that packs `folder` into TARGET_FOLDER."""
    if not folder:
        raise ValueError("the folder is empty")
    if not name.isascii() or not name.isalnum():
        raise ValueError(f"the name {name!r} is not made of letters and digits")
    target = f"{TARGET_FOLDER}/{name}.tar.gz"
    packing = ["tar", "--create", "--gzip", f"--file={target}"]
    return [*packing, "--", folder]


def run_backup(folder: str, name: str, run: Callable[[Sequence[str]], int]) -> bool:
    """Whether the process that `run` starts with these arguments ended well."""
    return run(backup_command(folder, name)) == 0
