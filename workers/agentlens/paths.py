"""Paths as every run writes them alike: repository-relative, `ext:…` outside, `scratch:…` temporary
(AGENTLENS §1), and what a path is for: source, test, scratch or note (rules 2 and 3 of §2)."""

from __future__ import annotations

import functools
import posixpath
import re
from typing import Literal

# Where benchmark containers put the repository.
KNOWN_ROOTS = ("/testbed", "/repo", "/app")
_WORKSPACE = re.compile(r"/workspace/[^/]+__[^/]+")
_TEMPORARY = tuple(
    f"/{name}/" for name in ("tmp", "var/tmp", "var/folders", "private/tmp", "private/var/folders", "dev/shm")
)
_DRIVE = re.compile(r"[A-Za-z]:/")

PathKind = Literal["source", "test", "scratch", "note"]

_TEST_NAME = re.compile(
    r"(?i:tests?_.*|conftest|.*[_.-](?:tests?|spec)|tests?|mytest)\.\w+|.*_tests?|[A-Z]\w*(?:Tests?|TestCase|Spec|IT)\.\w+"
)
_TEST_FOLDERS = frozenset(("tests", "__tests__", "spec", "specs", "e2e", "testcases", "unittests"))
_SCRATCH_FOLDER = re.compile(
    r"(?:repro(?:duc\w*)?|mwe|mcve|poc|scratch|tmp|temp|trash|tests?_\w+)(?:[\W_\d].*)?$", re.IGNORECASE
)
# Names of throw-away programs at the top of a repository.
_SCRATCH_FILE = re.compile(
    r"(?:repro\w*|mwe|mcve|poc|scratch|tmp|temp|debug|try|demo\w*|verif\w*|valid\w*|check|final|issue|bug|fix|minimal"
    r"|dummy|example|simple|quick|sanity|comprehensive|complete|edge|before|trigger|exact|test\w*|trace|explore|investigate"
    r"|analy[sz]e|confirm|compare|visual|integration|manual|replicate|failing|sandbox|playground)(?:[\W_\d].*)?$"
    r"|(?:inspect|update|apply|modify|patch|parse|edit|run|change|replac\w*|insert|add|remove|show|print|dump|find|get"
    r"|search|read|view|look|refactor|rewrite|generate|gen|create|make|clean\w*|convert|count|diff|exact|my|new|script"
    r"|wrong|run_simple|move|rename|backup|restore|step|temp\w*)[_-].*|replacement\..*|patch\.\w+|.*\.(?:patch|diff)$"
    r"|.*[_-](?:repro|mwe|scratch|tmp|demo|debug)(?:[\W_\d].*)?$",
    re.IGNORECASE,
)
_LEFTOVER = (".bak", ".orig", ".rej", ".backup", ".swp", "~", ".tmp", ".old")
_NOTE = re.compile(
    r"(?i)(?:.*?(?:summary|notes?|report|explanation|documentation|analysis|findings|writeup|description|overview|plan|todo"
    r"|checklist|solution|implementation|verification|fix|changes?)\.(?:md|txt|rst)|.*summary\.py)$"
)
_PROGRAM = re.compile(
    r".*\.(?:py|sh|js|ts|rb|pl|php|txt|log|out|json|patch|diff|html|cfg|ini|ipynb|bak|orig|c|cpp|go|java|rs)$"
)
_KEPT_AT_TOP = frozenset(
    (
        "setup.py",
        "test.js",
        "run.py",
        "setup.cfg",
        "tox.ini",
        "pytest.ini",
        "requirements.txt",
        "package.json",
    )
)


@functools.lru_cache(maxsize=65_536)
def normalise(path: str, directory: str = "", root: str = "") -> str:
    """`path` as the run's states write it. `directory` is the working directory in that same form ("" is the
    repository's root); `root` is the absolute path of the repository, or "" if the log does not name it."""
    path = path.replace("\\", "/") if "\\" in path else path
    if path.startswith("/"):
        return _inside(
            posixpath.normpath(path) if "/." in path or "//" in path or path[-1] == "/" else path, root
        )
    if path.startswith("~") or _DRIVE.match(path):
        return _inside(path, root) if root and path.startswith(root) else "ext:" + path
    if directory:
        marker, separator, folder = directory.rpartition(":")
        joined = posixpath.normpath(folder + "/" + path)
        if separator:
            return _inside(joined, root) if joined.startswith("/") else f"{marker}:{joined}"
        path = joined
    elif path.startswith(".") or "/." in path or "//" in path or path.endswith("/"):
        path = posixpath.normpath(path)
    if path == ".." or path.startswith("../"):
        return "ext:" + path
    return "" if path == "." else path


def _inside(path: str, root: str) -> str:
    if root and (path == root or path.startswith(root + "/")):
        return path[len(root) + 1 :]
    for known in KNOWN_ROOTS:
        if path == known or path.startswith(known + "/"):
            return path[len(known) + 1 :]
    if path.startswith(_TEMPORARY) or path + "/" in _TEMPORARY:
        return "scratch:" + path
    match = _WORKSPACE.match(path)
    if match:
        return path[match.end() + 1 :]
    return "ext:" + path


@functools.lru_cache(maxsize=65_536)
def kind_of(path: str) -> PathKind:
    """What writing to `path` means: product source, a test, a scratch file, or a note about the work.

    A folder named `test` holds tests only at the top or below `src`: `django/test/client.py` is
    product source."""
    if path.startswith(("scratch:", "ext:")):
        return "scratch"
    folders, _, name = path.rpartition("/")
    parts = folders.split("/") if folders else []
    if name.endswith(_LEFTOVER) or (parts and _SCRATCH_FOLDER.match(parts[0])):
        return "scratch"
    if (_TEST_NAME.fullmatch(name) and name not in _KEPT_AT_TOP) or _in_test_folder(parts):
        return "test"
    return "source" if parts else _kind_at_top(name)


def _in_test_folder(parts: list[str]) -> bool:
    for position, part in enumerate(parts):
        if part in _TEST_FOLDERS or (part == "test" and (position == 0 or parts[position - 1] == "src")):
            return True
    return False


def _kind_at_top(name: str) -> PathKind:
    if _NOTE.fullmatch(name) and not name.lower().startswith(("changes.", "changelog")):
        return "note"
    if (
        _SCRATCH_FILE.match(name)
        and name not in _KEPT_AT_TOP
        and (_PROGRAM.fullmatch(name) or "." not in name)
    ):
        return "scratch"
    return "source"


def parent(path: str) -> str:
    """The folder of `path` in the same form; "" is the repository's root."""
    return path.rpartition("/")[0]


def names_a_path(word: str) -> bool:
    """Whether a bare word looks like a file or folder rather than an option value."""
    return ("/" in word or "." in word) and not word.startswith(("-", "http:", "https:"))
