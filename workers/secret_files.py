"""Secrets from files: wherever NAME may hold one, NAME_FILE may name a file that does, as Docker, Kubernetes and
systemd hand them out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from workers.errors import SettingsError

SUFFIX = "_FILE"
#: Keys and addresses are short; whatever is larger is another file.
MAX_BYTES = 64 * 1024


def read_secret(name: str, variables: Mapping[str, str]) -> str | None:
    """What `name` holds, itself or in the file of `name_FILE`, without the line's end; None where neither is set.

    Raises: SettingsError for both, and for a file that cannot be read or has nothing in it.
    """
    own, path = variables.get(name, ""), variables.get(name + SUFFIX, "")
    if not path:
        return own or None
    if own:
        raise SettingsError(f"{name} and {name}{SUFFIX} are both set; keep one of them")
    return _content(name + SUFFIX, Path(path))


def _content(variable: str, path: Path) -> str:
    """The content stays out of every message: it is a secret, if a spoilt one."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        text = data.decode("utf-8-sig").strip()
    except OSError as error:
        raise SettingsError(f"{variable}: {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{variable}: {path} is not UTF-8 text") from None
    if len(data) > MAX_BYTES:
        raise SettingsError(
            f"{variable}: {path} has more than {MAX_BYTES:,} bytes; it should hold the secret alone"
        )
    if not text:
        raise SettingsError(f"{variable}: {path} is empty; it should hold the secret")
    return text


class WithFiles(Mapping[str, str]):
    """Variables as they are, and secrets that a file holds. A file is read when its name is asked for, not before: what
    others call NAME_FILE is none of our business."""

    def __init__(self, variables: Mapping[str, str], *, is_secret: Callable[[str], bool]) -> None:
        self._variables = variables
        self._is_secret = is_secret

    def __getitem__(self, name: str) -> str:
        found = read_secret(name, self._variables) if self._is_secret(name) else None
        # Set to nothing is set all the same.
        return self._variables[name] if found is None else found

    def __iter__(self) -> Iterator[str]:
        return iter(self._variables)

    def __len__(self) -> int:
        return len(self._variables)
