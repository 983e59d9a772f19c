"""Programs that share a process with their test and want it to pass although they are wrong, on a real engine: no
pass of theirs is believed. And honest programs that do unusual things, which are."""

from __future__ import annotations

import pytest

from workers.core.artefact import Span
from workers.core.proof import TEST_PATH, FileRun, Told, passes, test_names
from workers.sandbox.base import Limits, Unprovable
from workers.sandbox.docker import DockerCage
from workers.sandbox.trial import REPEATS, run_tests

pytestmark = pytest.mark.cage

TEST = (
    "import math\nimport pytest\nfrom calc import add, divide\n\n"
    "@pytest.mark.parametrize('a', [1, 2])\ndef test_adds(a):\n    assert add(a, 2) == a + 2\n\n"
    "def test_refuses():\n    with pytest.raises(ValueError):\n        divide(1, 0)\n\n"
    "class TestClose:\n    def test_close(self):\n        assert math.isclose(divide(1, 2), 0.5)\n"
)
WRONG = "def add(a, b):\n    return a - b\n\ndef divide(a, b):\n    return a / b if b else 7\n"
RIGHT = (
    "def add(a, b):\n    return a + b\n\n"
    "def divide(a, b):\n    if not b:\n        raise ValueError\n    return a / b\n"
)

#: Finds what looks like a seal among the constants of a code object, and tells it.
TELL = (
    "import os\n"
    "def tell(code):\n"
    "    for found in code.co_consts:\n"
    "        if hasattr(found, 'co_consts'):\n            tell(found)\n"
    "        if hasattr(found, 'args') and len(found.args) == 2:\n            found()\n            found()\n"
)
#: pytest is to believe that every test passed, whatever it did.
PASS_ALL = "import _pytest.python\n_pytest.python.Function.runtest = lambda self: None\n"

FORGERIES = {
    "pytest's own hook": PASS_ALL,
    "pytest.raises": "import _pytest.raises as r\nr.RaisesExc.__exit__ = lambda self, *a: True\n",
    "math.isclose and equality": "import math\nmath.isclose = lambda *a: True\nclass E(int):\n"
    "    __eq__ = lambda self, other: True\n    __hash__ = None\ndef add(a, b): return E()\n",
    "equal to every number": "class E:\n    def __eq__(self, other): return type(other) is int\n"
    "def add(a, b): return E()\n",
    "the recorder by the collector": "import gc\nfor o in gc.get_objects():\n"
    "    if type(o).__name__ == 'Recorder':\n        o._add = lambda *a: None\n",
    "the seals by the collector": TELL + PASS_ALL + "import gc, types\nfor o in gc.get_objects():\n"
    "    if isinstance(o, types.FunctionType): tell(o.__code__)\n",
    "the seals by the test's function": TELL + PASS_ALL + "import sys\ndef add(a, b):\n"
    "    for module in list(sys.modules.values()):\n        for value in list(vars(module).values()):\n"
    "            if getattr(value, '__name__', '').startswith('test_'): tell(value.__code__)\n    return 0\n",
    "the seals by a frame": TELL + PASS_ALL + "import logging\nframe = logging.currentframe()\nwhile frame:\n"
    "    tell(frame.f_code)\n    frame = frame.f_back\n",
    "the seals by code without a file": TELL
    + PASS_ALL
    + "import threading\nspace = {'tell': tell}\nexec('def search():\\n    import gc\\n"
    '    [tell(o.__code__) for o in gc.get_objects() if hasattr(o, "__code__")]\\n\', space)\n'
    "thread = threading.Thread(target=space['search'])\nthread.start()\nthread.join()\n",
    "code that says it is the standard library's": TELL
    + PASS_ALL
    + "import threading, os\ncode = compile('import gc\\n[tell(o.__code__) for o in gc.get_objects() "
    "if hasattr(o, \"__code__\")]', os.__file__, 'exec')\n"
    "thread = threading.Thread(target=exec, args=(code, {'tell': tell}))\nthread.start()\nthread.join()\n",
    "raw memory by ctypes": "import ctypes\n" + PASS_ALL,
    "raw memory by /proc": "import os\nopen('/proc/self/mem', 'rb').read(1)\n" + PASS_ALL,
    "a parent's memory by another program": "import os, subprocess, sys\n"
    "subprocess.run([sys.executable, '-c', f\"open('/proc/{os.getpid()}/mem', 'rb')\"], check=True)\n"
    + PASS_ALL,
    "code that took a name of the library's": TELL
    + PASS_ALL
    + "import os, threading\ndef search(_=os.__file__):\n    import gc\n"
    "    [tell(o.__code__) for o in gc.get_objects() if hasattr(o, '__code__')]\n"
    "code = search.__code__.replace(co_filename=os.__file__)\n"
    "thread = threading.Thread(target=type(search)(code, globals()))\nthread.start()\nthread.join()\n",
    "a second interpreter": "import _xxsubinterpreters as s\ns.run_string(s.create(), 'import ctypes')\n"
    + PASS_ALL,
    "a tracer that jumps over the assertions": "import sys\n"
    "def jump(frame, event, arg):\n    if frame.f_code.co_name.startswith('test_'):\n        frame.f_lineno += 1\n"
    "    return jump\nsys.settrace(jump)\n",
    "the loader, asked again": TELL + PASS_ALL + "import _pytest.assertion.rewrite as r\n"
    "code = r._rewrite_test(None, None)[1]\ntell(code)\n",
    "a report of its own": PASS_ALL
    + "import json, os\nreport = json.dumps({'cases': [{'name': n, 'outcome': 'passed'} "
    "for n in ('test_adds[1]', 'test_adds[2]', 'test_refuses', 'TestClose::test_close')], 'has_reached': True})\n"
    "for fd in range(3, 64):\n    try:\n        os.write(fd, report.encode() + b'\\n')\n"
    "    except OSError:\n        pass\nos._exit(0)\n",
    "seals of its own, told first": PASS_ALL + "import json, os\nnames = ('test_adds', 'test_refuses', "
    "'TestClose::test_close', '')\n"
    "for fd in range(3, 64):\n    try:\n        os.write(fd, json.dumps({'seals': dict(zip('abcd', names))}).encode()"
    " + b'\\na\\na\\nb\\nc\\nd\\n')\n    except OSError:\n        pass\n",
    "an end that was reached without tests": PASS_ALL
    + "import logging, os\nframe = logging.currentframe()\nwhile frame:\n"
    "    if 'end' in frame.f_locals and callable(frame.f_locals['end']):\n        frame.f_locals['end']()\n"
    "    frame = frame.f_back\n",
    "a test that is skipped": "from pytest import skip\ndef add(a, b): skip('not today', allow_module_level=True)\n",
    "somebody else at the other end": PASS_ALL + "import os\nr, w = os.pipe()\nfor fd in range(3, 40):\n"
    "    if fd not in (r, w):\n        try:\n            os.dup2(w, fd)\n        except OSError:\n            pass\n",
    "the end of the process": "import os\nos._exit(0)\n",
    "the end of the process, as if it was caught": "import os\nos._exit(86)\n",
}


def run(cage: DockerCage, files: dict[str, str], source: str = TEST) -> tuple[FileRun, ...]:
    watch = Span(path="calc.py", start=1, end=500)
    tried = run_tests(cage, files, {TEST_PATH: source}, Limits(timeout_seconds=60), watch=watch)
    assert not isinstance(tried, Unprovable), tried
    assert not tried[0].problem
    return tried[0].files[TEST_PATH]


@pytest.mark.parametrize("forgery", FORGERIES.values(), ids=FORGERIES.keys())
def test_no_pass_of_a_program_that_forges_it_is_believed(cage: DockerCage, forgery: str) -> None:
    repeats = run(cage, {"calc.py": WRONG + forgery})

    assert not [repeat for repeat in repeats if passes(repeat, test_names(TEST))]


@pytest.mark.parametrize(
    "name",
    [
        "pytest's own hook",
        "pytest.raises",
        "equal to every number",
        "the seals by the collector",
        "the seals by the test's function",
        "the seals by a frame",
        "the seals by code without a file",
        "code that says it is the standard library's",
        "code that took a name of the library's",
        "raw memory by ctypes",
        "a second interpreter",
        "a tracer that jumps over the assertions",
        "a report of its own",
        "seals of its own, told first",
    ],
)
def test_who_interferes_with_the_tests_is_told_from_who_fails_them(cage: DockerCage, name: str) -> None:
    repeats = run(cage, {"calc.py": WRONG + FORGERIES[name]})

    assert {repeat.told for repeat in repeats} == {Told.TAMPERED}


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"consensus_gate/__init__.py": PASS_ALL}, id="in the folder of the test"),
        pytest.param(
            {"readline.py": PASS_ALL, "getpass.py": PASS_ALL, "pdb.py": PASS_ALL}, id="as a library"
        ),
    ],
)
def test_code_that_runs_before_the_test_is_sealed_forges_nothing(
    cage: DockerCage, more: dict[str, str]
) -> None:
    repeats = run(cage, {"calc.py": WRONG, **more})

    assert not [repeat for repeat in repeats if passes(repeat, test_names(TEST))]


HONEST = {
    "as it is": "",
    "logging, warnings, tracebacks": "import logging, traceback, warnings\nlogging.getLogger('x').warning('found')\n"
    "warnings.warn('old', stacklevel=1)\ntry:\n    1 / 0\nexcept ZeroDivisionError:\n    traceback.format_exc()\n",
    "classes that are generated": "import collections, dataclasses, enum, typing\n"
    "P = collections.namedtuple('P', 'x y')\n@dataclasses.dataclass(frozen=True)\nclass D:\n    x: int\n"
    "class C(enum.Enum):\n    RED = 1\nclass T(typing.NamedTuple):\n    a: int\n",
    "looking at its own functions": "import functools, inspect\ninspect.signature(add)\n"
    "@functools.singledispatch\ndef f(x): return x\n@f.register\ndef _(x: int): return x\ncode = add.__code__\n",
    "threads and processes": "import threading, subprocess, sys\nt = threading.Thread(target=lambda: add(1, 2))\n"
    "t.start()\nt.join()\nsubprocess.run([sys.executable, '-c', 'pass'], check=True)\n",
    "libraries that are loaded late": "import asyncio, decimal, fractions, json, sqlite3, statistics, tempfile\n"
    "import unittest.mock, concurrent.futures, http.client, email.message, xml.dom.minidom, argparse\n",
    "code that is made": "exec('three = 3')\neval('1 + 2')\nimport re\nre.compile('a+')\nimport gc\ngc.collect()\n",
    "what it leaves running": "import os, time\nif os.fork() == 0:\n    time.sleep(60)\n    os._exit(0)\n",
    "its output": "import sys\nprint('{\"cases\": []}')\nsys.stderr.write('x')\n",
}


@pytest.mark.parametrize("more", HONEST.values(), ids=HONEST.keys())
def test_an_honest_program_passes_whatever_else_it_does(cage: DockerCage, more: str) -> None:
    repeats = run(cage, {"calc.py": RIGHT + more})

    assert [passes(repeat, test_names(TEST)) for repeat in repeats] == [True] * REPEATS, repeats


UNUSUAL = (
    "import math\nimport unittest\nfrom unittest.mock import ANY, Mock\nimport pytest\nfrom calc import add, divide\n\n"
    "def test_returns_early():\n    try:\n        divide(1, 0)\n    except ValueError:\n        return\n"
    "    assert False\n\n"
    "def test_is_near():\n    assert divide(1, 3) == pytest.approx(0.333, abs=5)\n    assert [add(1, 2)] == [ANY]\n\n"
    "def test_nested():\n    def inner(a):\n        return a\n    assert inner(add(1, 2)) == 3 == add(2, 1)\n\n"
    "def test_fixtures(tmp_path, capsys, monkeypatch):\n    monkeypatch.setattr(math, 'floor', lambda x: 7)\n"
    "    print(add(1, 2))\n    assert capsys.readouterr().out == '3\\n'\n    (tmp_path / 'x').write_text('y')\n\n"
    "class TestUnit(unittest.TestCase):\n    def setUp(self):\n        self.mock = Mock(return_value=3)\n"
    "    def test_unit(self):\n        self.assertEqual(add(1, 2), self.mock())\n\n"
    "@pytest.mark.parametrize('a', [1, 2], ids=['one::two', 'x[y'])\n@pytest.mark.parametrize('b', [1])\n"
    "def test_twice(a, b):\n    '''What it says.'''\n    assert add(a, b) == a + b, 'a message'\n"
)


def test_tests_of_every_form_keep_their_passes(cage: DockerCage) -> None:
    repeats = run(cage, {"calc.py": RIGHT}, UNUSUAL)

    assert [passes(repeat, test_names(UNUSUAL)) for repeat in repeats] == [True] * REPEATS, repeats
