"""The problems that the simulator knows, read from its package data and found by their spec."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Self

import yaml
from pydantic import ValidationError

from workers.core.artefact import fold
from workers.errors import InputError
from workers.providers.simulator.problem import Problem


class KnowledgeError(InputError):
    """A problem's folder is not in order; names the file and what is wrong with it."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """Problems by the digest of their spec."""

    by_digest: Mapping[str, Problem]

    @classmethod
    def of(cls, problems: Iterable[Problem]) -> Self:
        return cls(by_digest={spec_digest(problem.spec): problem for problem in problems})

    def find(self, spec: str) -> Problem | None:
        """The problem with exactly this spec, white space aside; a spec that only resembles it finds none."""
        return self.by_digest.get(spec_digest(spec))

    def find_by_claim(self, claim: str, files: Mapping[str, str]) -> Problem | None:
        """The problem one of whose remarks these are the words of, if its file is among the files: for whoever is
        shown no spec."""
        for problem in self.by_digest.values():
            if problem.path in files and problem.name_behind(claim) is not None:
                return problem
        return None


def spec_digest(spec: str) -> str:
    """A digest of the spec's words in their order."""
    return hashlib.blake2b(fold(spec).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


@lru_cache(maxsize=1)
def load_catalogue() -> Catalogue:
    """All problems of the package. Raises: KnowledgeError."""
    root = files("workers.providers.simulator").joinpath("problems")
    folders = sorted((entry for entry in root.iterdir() if entry.is_dir()), key=lambda entry: entry.name)
    return Catalogue.of(
        load_problem(folder) for folder in folders if folder.joinpath("problem.yaml").is_file()
    )


def load_problem(folder: Traversable) -> Problem:
    """One problem's folder as a value. Raises: KnowledgeError."""
    place = f"{folder.name}/problem.yaml"
    try:
        data = yaml.safe_load(folder.joinpath("problem.yaml").read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise KnowledgeError(f"{place} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(data, dict) or not isinstance(data.get("path"), str):
        raise KnowledgeError(
            f"{place} must be a mapping with the key 'path', the name of the solution's file"
        )
    source = folder.joinpath(data["path"])
    if not source.is_file():
        raise KnowledgeError(f"{place}: there is no solution {data['path']!r} beside it")
    try:
        return Problem.model_validate(
            {**data, "name": folder.name, "solution": source.read_text(encoding="utf-8")}
        )
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise KnowledgeError(f"{place}: {where + ': ' if where else ''}{first['msg']}") from None
