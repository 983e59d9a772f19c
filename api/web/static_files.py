"""Style sheets, modules and pictures, read once: no path of a request ever reaches the file system."""

from __future__ import annotations

import hashlib
import mimetypes
from functools import cache
from importlib import resources

from fastapi import APIRouter, Response

from workers.errors import NotFoundError

router = APIRouter(prefix="/static", include_in_schema=False)

#: The same for everything that a module may import beside it, so that `./other.js` needs no rewriting.
_FOREVER = "public, max-age=31536000, immutable"


@cache
def files() -> dict[str, bytes]:
    """Every file by its name."""
    folder = resources.files("api.web") / "static"
    return {entry.name: entry.read_bytes() for entry in folder.iterdir() if entry.is_file()}


@cache
def version() -> str:
    """A digest over all files: what a page asks for changes its address whenever any of them changes."""
    seen = hashlib.sha256()
    for name, content in sorted(files().items()):
        seen.update(name.encode() + b"\0" + hashlib.sha256(content).digest())
    return seen.hexdigest()[:12]


def address(name: str) -> str:
    """Where a page finds a file. Raises: NotFoundError for one that is not there."""
    _content(name)
    return f"/static/{version()}/{name}"


@router.get("/{version_asked}/{name}")
def static_file(version_asked: str, name: str) -> Response:
    """The file as it is now; only under its own version may it be kept."""
    kept = _FOREVER if version_asked == version() else "no-cache"
    media_type = "text/javascript" if name.endswith(".js") else mimetypes.guess_type(name)[0]
    return Response(
        _content(name),
        media_type=media_type,
        headers={"Cache-Control": kept, "X-Content-Type-Options": "nosniff"},
    )


def _content(name: str) -> bytes:
    if name not in files():
        raise NotFoundError(f"there is no static file {name[:80]!r}")
    return files()[name]
