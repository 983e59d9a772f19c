"""The programs of `gate.py`: read from `programs/*.yaml`, each with one defect that is planted and two that are not.

name, spec, code        the good solution, in NAME.py
bug                     lines `good` that become `planted`; the claim, the spec's rule and a test that shows it
wrong                   a claim that is not so: a test that fails on good code, and how a liar would "mend" the line
                        `at` (`becomes`, or `control` for the whole file)
fine                    a claim that is not so, with a test of it that passes on the code
guard                   what the submitted tests hold on to
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import yaml

from workers.providers.simulator.problem import MODELS, Bug, Invention, LeadMove, Problem, Variant

#: What the prover and the control of a `wrong` claim do, by turns.
KINDS = (
    "lying prover and control",
    "fails everywhere",
    "flaky",
    "os._exit in the test",
    "os._exit in the control",
    "forged conftest",
    "control = code",
    "asks for a helper",
    "cannot be imported",
    "no rule",
    "reads the source",
    "skips itself",
)
#: What becomes of a `fine` claim, by turns: an honest test, or a refuter with the line that shows it.
HONEST, KILLED = "honest test", "refuter"

_FORGERY = """import pytest

@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    return True
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Program:
    """One program. `number` decides whose turn it is."""

    number: int
    data: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.data["name"])

    @property
    def spec(self) -> str:
        return f"{self.name}.py (Python).\n\n{self.data['spec']}"

    @property
    def wrong_kind(self) -> str:
        return KINDS[self.number % len(KINDS)]

    @property
    def fine_kind(self) -> str:
        return HONEST if self.number % 2 == 0 else KILLED

    @property
    def path(self) -> str:
        return f"{self.name}.py"

    @property
    def planted(self) -> str:
        """The code with its defect."""
        bug = self.data["bug"]
        code = str(self.data["code"]).replace(bug["good"], bug["planted"])
        assert code != self.data["code"], self.name
        return code

    def words(self, part: str) -> set[str]:
        text = self.data[part]["claim"]
        return {text, *self._wordings(text).values(), self._agreed(text)}

    def guards(self) -> dict[str, str]:
        return {"test_guard.py": self._test("guard", self.data["guard"])}

    def problem(self) -> Problem:
        bug = self.data["bug"]
        return Problem(
            name=self.name,
            spec=self.spec,
            path=self.path,
            solution=self.data["code"],
            notes="plain",
            bugs={
                "bug": Bug(
                    **self._remark("bug", severity="high" if self.number % 3 == 0 else "medium"),
                    quote=bug["planted"],
                    good=bug["good"],
                    planted=bug["planted"],
                    seen_by=MODELS,
                )
            },
            inventions={"wrong": self._wrong(), "fine": self._fine()},
            variants=(Variant(name="planted", bugs=("bug",)),),
        )

    def _fine(self) -> Invention:
        is_killed = self.fine_kind == KILLED
        return Invention(
            **self._remark("fine", severity="medium" if is_killed else "high"),
            at=self.data["fine"]["at"],
            seen_by=("sim-alder-small",) if is_killed else MODELS,
            survives=not is_killed,
            control={self.path: self.data["code"]},
        )

    def _wrong(self) -> Invention:
        wrong, kind = self.data["wrong"], self.wrong_kind
        mended = wrong.get("control") or self.planted.replace(wrong["at"], wrong["becomes"])
        good = str(self.data["code"])
        tests = {
            "fails everywhere": wrong["test"] + "\nassert False, 'never'",
            "flaky": "import random\nif random.random() < 0.5:\n"
            + "\n".join(f"    {line}" for line in wrong["test"].split("\n")),
            "os._exit in the test": "import os\nos._exit(0)",
            "asks for a helper": f"from {self.name} import helper_of_the_control\nassert helper_of_the_control()",
            "cannot be imported": "import a_module_that_is_not_there",
            "reads the source": f"import inspect, {self.name} as code\nassert 'mended' in inspect.getsource(code)",
            "skips itself": "pytest.importorskip('a_module_that_is_not_there')",
        }
        controls = {
            "lying prover and control": {self.path: mended},
            "os._exit in the control": {self.path: f"import os\nos._exit(0)\n{good}"},
            "forged conftest": {self.path: good, "conftest.py": _FORGERY},
            "control = code": {},
            "asks for a helper": {self.path: f"{good}\n\ndef helper_of_the_control():\n    return True\n"},
            "reads the source": {self.path: f"{good}\n# mended\n"},
        }
        values = self._remark("wrong", severity="high")
        values["test"] = self._test("wrong", tests.get(kind, wrong["test"]))
        if kind == "no rule":
            values["rule"] = values["test"] = ""
        return Invention(
            **values,
            at=wrong["at"],
            seen_by=MODELS,
            survives=True,
            control=controls.get(kind, {self.path: good}),
        )

    def _remark(self, part: str, *, severity: str) -> dict[str, Any]:
        data = self.data[part]
        return {
            "severity": severity,
            "category": "correctness",
            "wordings": self._wordings(data["claim"]),
            "agreed": self._agreed(data["claim"]),
            "rule": data["rule"],
            "test": self._test(part, data["test"]),
            "lead": LeadMove(does="uphold", reason="I leave the code as it is."),
        }

    @staticmethod
    def _wordings(claim: str) -> dict[str, str]:
        return {"sim-alder": claim, "sim-birch": claim, "sim-cedar": claim}

    @staticmethod
    def _agreed(claim: str) -> str:
        return claim

    def _test(self, part: str, body: str) -> str:
        lines = "\n".join(f"    {line}" for line in body.split("\n"))
        return (
            f"import pytest\nfrom {self.name} import *\n\nraises = pytest.raises\n\n"
            f"def test_{part}():\n{lines}\n"
        )


def load_programs() -> list[Program]:
    """All programs, the files by turns, so that the first few are of all sorts."""
    folder = Path(__file__).parent / "programs"
    files = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.yaml"))]
    ordered = [file[at] for at in range(max(map(len, files))) for file in files if at < len(file)]
    return [Program(number=number, data=data) for number, data in enumerate(ordered)]
