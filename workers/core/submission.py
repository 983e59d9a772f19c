"""What may be submitted: the limits of a spec and of the files that come with it."""

from __future__ import annotations

from workers.core.artefact import Files, files_problem
from workers.errors import SpecError

MAX_SPEC_BYTES = 1024 * 1024


def check_spec(spec: str) -> None:
    """Raises: SpecError for an empty spec, one above 1 MiB, or one that is not text."""
    if not spec.strip():
        raise SpecError("the spec is empty; say in words what the code should do")
    size = len(spec.encode("utf-8", errors="replace"))
    if size > MAX_SPEC_BYTES:
        raise SpecError(f"the spec has {size:,} bytes; at most {MAX_SPEC_BYTES:,} (1 MiB) are accepted")
    for position, character in enumerate(spec):
        is_control = (ord(character) < 32 and character not in "\t\n\r\f") or 0xD800 <= ord(
            character
        ) < 0xE000
        if is_control:
            raise SpecError(
                f"the spec is not text: character {position} is U+{ord(character):04X}; send UTF-8 text"
            )


def decode_spec(body: bytes) -> str:
    """The text of a spec file. Raises: SpecError if it is too large, not UTF-8, empty or not text."""
    if len(body) > MAX_SPEC_BYTES:
        raise SpecError(f"the spec has {len(body):,} bytes; at most {MAX_SPEC_BYTES:,} (1 MiB) are accepted")
    try:
        spec = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SpecError(f"the spec is not text: byte {error.start} is not UTF-8; send UTF-8 text") from None
    check_spec(spec)
    return spec


def check_files(kind: str, files: Files) -> None:
    """`kind` is what the message calls them. Raises: SpecError."""
    problem = files_problem(files)
    if problem:
        raise SpecError(f"{kind}: {problem}")
