"""Tests of hostile and of plain programs under their keeper, on a real engine."""

from __future__ import annotations

import pytest

from workers.core.artefact import Span
from workers.core.proof import TEST_PATH, CageRun, Judged, Told, judge
from workers.sandbox.base import Limits, Unprovable
from workers.sandbox.docker import DockerCage
from workers.sandbox.trial import run_tests

pytestmark = pytest.mark.cage

CODE = {"calc.py": "def add(a, b):\n    return a - b\n"}
MENDED = {"calc.py": "def add(a, b):\n    return a + b\n"}
SPEC = "add(a, b) in calc.py returns the sum."
TEST = "from calc import add\n\ndef test_adds():\n    assert add(1, 2) == 3\n"
LIMITS = Limits(timeout_seconds=60)


def run(cage: DockerCage, code: dict[str, str], source: str = TEST, limits: Limits = LIMITS) -> CageRun:
    tried = run_tests(cage, code, {TEST_PATH: source}, limits, watch=Span(path="calc.py", start=2, end=2))
    assert not isinstance(tried, Unprovable), tried
    return tried[0]


def decide(cage: DockerCage, code: dict[str, str], control: dict[str, str], source: str = TEST) -> Judged:
    return judge(
        code=[run(cage, code, source) for _ in range(2)],
        control=[run(cage, control, source) for _ in range(2)],
        source=source,
        tests={},
        spec=SPEC,
    )


def test_a_true_claim_is_reproduced(cage: DockerCage) -> None:
    assert decide(cage, CODE, MENDED).reason == "fails_on_code"


def test_a_false_claim_is_not(cage: DockerCage) -> None:
    assert decide(cage, MENDED, {"calc.py": "def add(a, b):\n    return b + a\n"}).reason == "passes_on_code"


FORGED_CONFTEST = (
    "import pytest\n@pytest.hookimpl(tryfirst=True)\ndef pytest_pyfunc_call(pyfuncitem):\n    return True\n"
)
#: A report as the keeper would write it, from the code under test, and a clean exit.
FORGED_REPORT = (
    "import json, os\n"
    "case = {'name': 'test_adds', 'outcome': 'passed'}\n"
    f"report = {{{TEST_PATH!r}: [{{'told': 'reported', 'cases': [case]}}] * 4}}\n"
    "for place in ('/proc/1/fd/1', f'/proc/{os.getppid()}/fd/1', '/proc/self/fd/1'):\n"
    "    try:\n"
    "        with open(place, 'w') as out:\n"
    "            out.write(json.dumps(report))\n"
    "    except OSError:\n"
    "        pass\n"
    "os._exit(0)\n"
)


@pytest.mark.parametrize(
    "control",
    [
        pytest.param({**CODE, "conftest.py": FORGED_CONFTEST}, id="a forged conftest"),
        pytest.param({"calc.py": "import os\nos._exit(0)\n"}, id="os._exit(0)"),
        pytest.param({"calc.py": FORGED_REPORT}, id="a forged report"),
        pytest.param(
            {"calc.py": "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\n"}, id="kills its keeper"
        ),
        pytest.param({**CODE, "pytest.py": "def main(*a, **k): return 0\n"}, id="a pytest of its own"),
        pytest.param({"calc.py": "import sys\nsys.exit(0)\n"}, id="sys.exit(0)"),
    ],
)
def test_a_control_that_cheats_reproduces_nothing(cage: DockerCage, control: dict[str, str]) -> None:
    assert decide(cage, CODE, control).proof.value != "reproduced"


def test_a_test_that_ends_its_process_proves_nothing(cage: DockerCage) -> None:
    source = "import os\n\ndef test_adds():\n    os._exit(0)\n"

    assert decide(cage, CODE, MENDED, source).reason == "broken"


def test_a_test_that_hangs_is_ended_by_its_keeper(cage: DockerCage) -> None:
    run_ = run(cage, CODE, "def test_adds():\n    while True:\n        pass\n", Limits(timeout_seconds=8))

    assert {repeat.told for repeat in run_.files[TEST_PATH]} == {Told.HUNG}


def test_a_coin_is_flaky(cage: DockerCage) -> None:
    source = "import random\n\ndef test_adds():\n    assert random.random() < 0.5\n"

    assert decide(cage, CODE, MENDED, source).reason in {"flaky", "fails_everywhere", "setup_fault"}


def test_lines_that_were_not_reached_are_told(cage: DockerCage) -> None:
    reached = run(cage, CODE).files[TEST_PATH][0]
    missed = run(cage, CODE, "import calc\n\ndef test_adds():\n    pass\n").files[TEST_PATH][0]

    assert (reached.has_reached, missed.has_reached) == (True, False)


def test_the_keeper_s_memory_and_environment_are_closed_to_its_children(cage: DockerCage) -> None:
    source = (
        "import os\nimport pytest\n\n@pytest.mark.parametrize('name', ['mem', 'environ', 'maps', 'fd/1'])\n"
        "def test_keeper(name):\n    with pytest.raises(OSError):\n"
        "        open(f'/proc/{os.getppid()}/{name}', 'rb').read(1)\n"
    )

    (first, *_) = run(cage, CODE, source).files[TEST_PATH]

    assert [case.outcome for case in first.cases] == ["passed"] * 4


def test_the_way_of_an_error_through_the_code_is_told(cage: DockerCage) -> None:
    code = {"calc.py": "def add(a, b):\n    return half(a) + b\n\ndef half(a):\n    return a / 0\n"}

    (first, *_) = run(cage, code).files[TEST_PATH]

    assert first.cases[0].trace == ((TEST_PATH, 4), ("calc.py", 2), ("calc.py", 5))
    assert first.cases[0].raised_in == "calc.py"
