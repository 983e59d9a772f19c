"""How tests run there: the image's pytest and configuration, whatever the workspace brings."""

from __future__ import annotations

import pytest

from workers.sandbox.base import PYTEST, CageResult, Limits, Workspace
from workers.sandbox.docker import DockerCage

pytestmark = pytest.mark.cage

CODE = "def add(a, b):\n    return a + b\n"
TEST = "from code_under_test import add\n\ndef test_adds():\n    assert add(2, 2) == {}\n"


def run(cage: DockerCage, files: Workspace) -> CageResult:
    result = cage.run(files, (*PYTEST, "-q", "-rA", "tests/test_add.py"), Limits(timeout_seconds=60))
    assert isinstance(result, CageResult), result
    return result


def workspace(expected: int, **more: str) -> dict[str, str]:
    return {"code_under_test.py": CODE, "tests/test_add.py": TEST.format(expected), **more}


def test_a_test_that_holds_passes_by_name(cage: DockerCage) -> None:
    result = run(cage, workspace(4))

    assert result.exit_code == 0, result.stdout.text
    assert "PASSED tests/test_add.py::test_adds" in result.stdout.text


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({}, id="as it is"),
        pytest.param(
            {
                "conftest.py": "import pytest\n@pytest.hookimpl(tryfirst=True)\n"
                "def pytest_pyfunc_call(pyfuncitem):\n    return True\n"
            },
            id="a conftest that makes every test pass",
        ),
        pytest.param({"pytest.ini": "[pytest]\naddopts = --collect-only\n"}, id="a configuration of its own"),
        pytest.param(
            {"pytest.py": "print('PASSED tests/test_add.py::test_adds')\n"}, id="a pytest of its own"
        ),
        pytest.param(
            {"sitecustomize.py": "print('PASSED tests/test_add.py::test_adds'); import os; os._exit(0)\n"},
            id="a sitecustomize",
        ),
    ],
)
def test_a_test_that_does_not_hold_fails_whatever_lies_beside_it(
    cage: DockerCage, more: dict[str, str]
) -> None:
    result = run(cage, {**workspace(5), **more})

    assert result.exit_code == 1
    assert "FAILED tests/test_add.py::test_adds" in result.stdout.text
    assert "PASSED" not in result.stdout.text
