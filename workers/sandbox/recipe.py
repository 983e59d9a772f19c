"""The cage's image: its recipe, the tag that says which recipe an image was built from, and the build."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from importlib.resources import files

from workers.errors import CageError
from workers.sandbox.engine import Connect, as_cage_errors
from workers.sandbox.workspace import pack

REPOSITORY = "consensus-cage"

_FILES = ("Dockerfile", "bytecode.py", "launch.py", "pytest.ini", "requirements.txt")


def build_context() -> bytes:
    """The recipe as a tar, the same bytes every time."""
    folder = files("workers.sandbox.image")
    return pack({name: folder.joinpath(name).read_bytes() for name in _FILES})


def default_image() -> str:
    """The name under which this version's image is built. Another recipe has another name, so none is ever stale."""
    return f"{REPOSITORY}:{hashlib.sha256(build_context()).hexdigest()[:12]}"


def build(connect: Connect, *, base: str | None, network: str | None, say: Callable[[str], None]) -> str:
    """Build the image; each line of the engine's log goes to `say`. Returns its name.

    `base` replaces the public Python image, `network` the engine's default network during the build.
    Raises: CageError when no engine answers, or with its last words when the build fails.
    """
    name = default_image()
    with as_cage_errors("building the image"):
        client = connect()
        try:
            for message in client.api.build(
                fileobj=io.BytesIO(build_context()),
                custom_context=True,
                tag=name,
                buildargs={"BASE_IMAGE": base} if base else {},
                network_mode=network,
                rm=True,
                forcerm=True,
                decode=True,
            ):
                if "error" in message:
                    raise CageError(
                        f"the cage's image cannot be built: {str(message['error']).strip()[:300]}"
                    )
                for line in str(message.get("stream", "")).splitlines():
                    if line.strip():
                        say(line.strip())
        finally:
            client.close()
    return name
