"""What makes a pass hard to forge for code that shares its process with its tests. In the cage, before that code runs.

* **Seals.** Every test is compiled with a call at each of its ends that tells the keeper a secret; a pass that came
  without its secret was invented. The call is made of functions in C and stands in the test's own code object: there
  is no name to rebind and no Python frame to look into.
* **A watch.** Who looks for a secret needs a code object, the collector's lists, raw memory, a tracer or a second
  interpreter. The interpreter announces these (`sys.addaudithook`, which nothing takes back); if code under test is
  on the stack then, the process ends on the spot.
* **A comparison.** A tool of the tests that is another one afterwards (`pytest.raises`, `builtins.len`) was rebound.
* **A second question.** What equals 3 and another number as well lies about itself.

Standard library and pytest only: nothing else of ours is in the cage.
"""

from __future__ import annotations

import ast
import functools
import os
import secrets
import sys
import threading
import types
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from _pytest.assertion import rewrite

#: The child's exit code when it was ended for tampering.
TAMPERED_EXIT = 86
WORKSPACE = "/workspace/"
_OWN_PATH = "/opt/cage/seal.py"
#: What only a search for secrets needs, or a change of somebody else's code.
_SEARCHES = frozenset(
    {
        "gc.get_objects",
        "gc.get_referrers",
        "gc.get_referents",
        "sys.settrace",
        "sys.setprofile",
        "sys._current_frames",
        "sys._current_exceptions",
        "ctypes.dlopen",
        "ctypes.dlsym",
        "cpython.PyInterpreterState_New",
    }
)
_RAW_MODULES = frozenset({"ctypes", "_ctypes", "_xxsubinterpreters", "_testcapi"})
_CODE_ATTRIBUTES = frozenset({"__code__", "f_code", "gi_code", "cr_code", "ag_code"})
#: Modules whose functions and classes tests rely on.
_TOOLS = frozenset({"builtins", "math", "operator", "functools", "unittest", "pytest", "_pytest", "pluggy"})
_COMPARED = (types.FunctionType, types.BuiltinFunctionType, type, property, staticmethod, classmethod)


class Seals:
    """The secrets of one file of tests, and its code with them in it. Made before any code under test runs."""

    def __init__(self, path: str, out: int) -> None:
        """`path`: the file of tests. `out`: where seals are written. Raises: SyntaxError, ValueError, OSError."""
        source = Path(path).read_bytes()
        tree = ast.parse(source, filename=path)
        rewrite.rewrite_asserts(tree, source, path)
        #: Secret → the test that tells it; the empty name is the end of the whole run.
        self.tests: dict[str, str] = {}
        self._path = path
        self._out = out
        self._parts: dict[str, Any] = {}
        self._guarded: list[types.CodeType] = []
        is_wild = any(isinstance(node, ast.Name) and node.id == "ANY" for node in ast.walk(tree))
        question = "" if is_wild else self._part(second_question)
        for name, function in _tests_of(tree.body, ""):
            _Sealing(self._part(self._telling(name)), question).seal(function)
        self._code = [self._compiled(tree, path)]

    def arm(self) -> Callable[[], None]:
        """Give pytest the sealed code and begin to watch. Returns what ends the run: it tells its own secret if every
        tool is still what it was, and ends the process if not."""
        # Of the sealed code nothing but its own frame and functions is left when it runs.
        stub = self._compiled(
            ast.parse(f"{self._part(exec)!r}({self._part(self._code.pop)!r}(), globals())"), _OWN_PATH
        )
        rewrite._rewrite_test = self._function(f"lambda path, config: [b'', {self._part(stub)!r}]")
        rewrite._read_pyc = lambda *_: None
        end: Callable[[], None] = self._function(
            f"lambda: {self._part(comparison())!r}() and {self._part(stop)!r}() or {self._part(self._telling(''))!r}()"
        )
        sys.addaudithook(watch(frozenset(map(id, self._guarded)), self._code, self._path))
        return end

    def _telling(self, name: str) -> Callable[[], object]:
        secret = secrets.token_hex(16)
        self.tests[secret] = name
        return functools.partial(os.write, self._out, f"{secret}\n".encode())

    def _part(self, thing: object) -> str:
        """The constant that `_filled` puts `thing` in the place of."""
        name = f"@part {secrets.token_hex(16)}"
        self._parts[name] = thing
        return name

    def _function(self, source: str) -> Any:
        """A function whose tools stand in its code, where nobody can exchange them."""
        return types.FunctionType(self._compiled(ast.parse(source), _OWN_PATH).co_consts[0], {})

    def _compiled(self, tree: ast.Module, path: str) -> types.CodeType:
        with warnings.catch_warnings():
            # A constant that is called.
            warnings.simplefilter("ignore")
            code = compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True)
        return self._filled(code)

    def _filled(self, code: types.CodeType) -> types.CodeType:
        is_guarded = False
        constants: list[Any] = []
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                constants.append(self._filled(constant))
            elif isinstance(constant, str) and constant in self._parts:
                constants.append(self._parts[constant])
                is_guarded = True
            else:
                constants.append(constant)
        filled = code.replace(co_consts=tuple(constants))
        if is_guarded:
            self._guarded.append(filled)
        return filled


def _tests_of(body: Iterable[ast.stmt], within: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _tests_of(node.body, f"{within}{node.name}::")
        elif isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
            yield within + node.name, node


class _Sealing(ast.NodeTransformer):
    """Puts a call at every end of a test, and a second question behind every comparison for equality in an assert."""

    def __init__(self, telling: str, question: str) -> None:
        self._telling = telling
        self._question = question

    def seal(self, function: ast.FunctionDef) -> None:
        body = [self.visit(node) for node in function.body]
        function.body = [
            statement for found in body for statement in (found if isinstance(found, list) else [found])
        ]
        function.body.append(self._call(self._telling))

    def visit_Return(self, node: ast.Return) -> list[ast.stmt]:
        value = node.value or ast.Constant(None)
        kept = ast.Assign([ast.Name("@returned", ast.Store())], value)
        return [kept, self._call(self._telling), ast.Return(ast.Name("@returned", ast.Load()))]

    def visit_Assign(self, node: ast.Assign) -> ast.stmt | list[ast.stmt]:
        """pytest's rewriting has given every operand of an assert a name of its own."""
        asked = node.value
        if not isinstance(asked, ast.Compare):
            return node
        operands = [asked.left, *asked.comparators]
        pairs = [
            (left, right)
            for left, operator, right in zip(operands, asked.ops, operands[1:], strict=False)
            if self._question and isinstance(operator, ast.Eq) and _is_plain(left) and _is_plain(right)
        ]
        return [
            *(self._call(self._question, left, right) for left, right in pairs),
            node,
            *(self._call(self._question, left, right) for left, right in pairs),
        ]

    def visit(self, node: ast.AST) -> Any:
        """The ends of a function inside a test are not the test's."""
        return node if isinstance(node, _SCOPES) else super().visit(node)

    @staticmethod
    def _call(part: str, *arguments: ast.expr) -> ast.Expr:
        return ast.Expr(ast.Call(ast.Constant(part), list(arguments), []))


_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def _is_plain(operand: ast.expr) -> bool:
    return isinstance(operand, (ast.Name, ast.Constant))


#: Taken before any code under test could put its own in its place; `random` it could also seed.
chance = os.urandom
#: Ends the process; nobody can be asked to do it otherwise.
stop = functools.partial(os._exit, TAMPERED_EXIT)


def second_question(left: Any, right: Any) -> None:
    """End the process if one side equals the other and something far from it too. It is asked a number of times that
    nobody can foresee, or a liar could count."""
    if type(left) is type(right) and type(left) in {list, tuple, dict}:
        keys = left.keys() & right.keys() if type(left) is dict else range(min(len(left), len(right)))
        for key in keys:
            second_question(left[key], right[key])
    for one, other in ((left, right), (right, left)):
        far = _far_from(other)
        if far is None or type(one) in _PLAIN:
            continue
        for _ in range(1 + chance(1)[0] % 3):
            try:
                is_liar = (one == far) is True and (one == other) is True
            except Exception:  # noqa: BLE001 - an honest comparison may not know what to do with it
                return
            if is_liar:
                stop()


_PLAIN = frozenset({int, float, complex, str, bytes, bool, type(None), list, tuple, dict, set, frozenset})


def _far_from(value: Any) -> Any:
    """Something of the same type that no tolerance reaches, or None where there is none."""
    kind = type(value)
    if kind in {int, float, complex}:
        return value * 1000 + 10**18
    if kind is bool:
        return not value
    if kind is str:
        return value + "\0far"
    if kind is bytes:
        return value + b"\0far"
    return value + kind((object(),)) if kind in {list, tuple} else None


def comparison() -> Callable[[], bool]:
    """Says whether a function or class that tests rely on is another one than now, in its module or its class."""
    taken: list[tuple[Mapping[str, Any], dict[str, Any]]] = []
    for name, module in tuple(sys.modules.items()):
        if name.partition(".")[0] not in _TOOLS:
            continue
        spaces: list[Mapping[str, Any]] = [vars(module)]
        spaces += [vars(value) for value in vars(module).values() if isinstance(value, type)]
        for space in spaces:
            taken.append(
                (space, {key: value for key, value in space.items() if isinstance(value, _COMPARED)})
            )

    def is_changed() -> bool:
        # No name in here is looked up where it could be rebound.
        for space, before in taken:
            for key, value in before.items():
                if space.get(key) is not value:
                    return True
        return False

    return is_changed


def watch(guarded: frozenset[int], waiting: Sequence[types.CodeType], path: str) -> Callable[..., None]:
    """An audit hook. `guarded`: ids of the code objects that hold secrets. `waiting` is not empty until the file of
    tests at `path` runs: before it no code under test may, or it would find the seals unguarded."""
    # Local names only, here and in what is made here: those of a module can be rebound.
    filters, this_thread, caller, end = _filters(guarded, waiting), threading.get_ident, sys._getframe, stop
    is_ours = _recognises(path)
    busy: set[int] = set()

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        is_search = filters.get(event)
        me = this_thread()
        if is_search is None or me in busy:
            return
        busy.add(me)
        try:
            frame: types.FrameType | None = caller(1)
            if is_search(arguments, frame):
                while frame is not None:
                    if not is_ours(frame.f_code):
                        end()
                    frame = frame.f_back
        finally:
            busy.discard(me)

    return hook


#: What the interpreter and pytest bring, and we.
_TRUSTED = (
    f"{os.__file__.rpartition('/')[0]}/",
    f"{rewrite.__file__.rpartition('/_pytest/')[0]}/",
    "/opt/cage/",
    "<frozen ",
)


def _recognises(path: str) -> Callable[[types.CodeType], bool]:
    trusted, identity = _TRUSTED, id
    ours: set[int] = set()
    frame: types.FrameType | None = sys._getframe()
    while frame is not None:
        ours.add(id(frame.f_code))
        frame = frame.f_back
    return lambda code: (
        code.co_filename == path or identity(code) in ours or code.co_filename.startswith(trusted)
    )


#: Of the arguments of an event and the frame that it happened in: whether code under test may not do that.
_Filter = Callable[[tuple[Any, ...], Any], bool]


def _filters(guarded: frozenset[int], waiting: Sequence[types.CodeType]) -> dict[str, _Filter]:
    raw_modules, attributes, trusted, workspace = _RAW_MODULES, _CODE_ATTRIBUTES, _TRUSTED, WORKSPACE
    frame_type, text, kind_of, identity, attribute = types.FrameType, str, type, id, getattr
    leave = functools.partial(os._exit, 1)

    def holds_seals(arguments: tuple[Any, ...], _: Any) -> bool:
        found, name = arguments
        if name not in attributes:
            return False
        return (
            identity(found.f_code if kind_of(found) is frame_type else attribute(found, name, None))
            in guarded
        )

    def comes_early(arguments: tuple[Any, ...], _: Any) -> bool:
        code = arguments[0]
        if waiting and code.co_filename.startswith(workspace) and code.co_names:
            leave()
        return False

    def made_in_the_library_s_name(makers: tuple[str, ...]) -> _Filter:
        def is_made(arguments: tuple[Any, ...], frame: Any) -> bool:
            name = arguments[1]
            is_named = kind_of(name) is text and name.startswith(trusted)
            return is_named and not frame.f_code.co_filename.startswith(makers)

        return is_made

    importer = "<frozen importlib"
    return {
        **dict.fromkeys(_SEARCHES, lambda *_: True),
        "object.__getattr__": holds_seals,
        "exec": comes_early,
        "import": lambda arguments, _: arguments[0] in raw_modules,
        "compile": made_in_the_library_s_name((importer,)),
        "code.__new__": made_in_the_library_s_name((types.__file__, importer)),
        "marshal.loads": lambda _, frame: not frame.f_code.co_filename.startswith(importer),
    }
