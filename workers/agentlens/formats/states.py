"""Builds a run's states from tool calls, whatever log they come from: paths, lines, digests, outcomes,
anchors."""

from __future__ import annotations

from workers.agentlens.formats.outcomes import exit_code_in, shell_outcome
from workers.agentlens.formats.seen import (
    Seen,
    digest,
    edit_ending,
    look_ending,
    observation_limit,
)
from workers.agentlens.formats.seen_lines import SeenLines
from workers.agentlens.locate import changed_lines, numbered_lines, scope_of
from workers.agentlens.paths import normalise
from workers.agentlens.shell import Command, Group, Segment, parse, parse_python
from workers.agentlens.shell.call import END_OF_FILE
from workers.agentlens.shell.inline import patched_paths
from workers.agentlens.shell_edits import edits_of, patch_edits
from workers.agentlens.trajectory import Edit, Lines, Operation, State, StateOutcome, make_state

# Bound once: looking a member up in its enum costs three times as much as a global.
_SHELL = Operation.SHELL
_WRITE, _READ, _TEST = Group.WRITE, Group.READ, Group.TEST


class StateBuilder:
    """Collects the states of one run. `root` is the repository's absolute path ("" if unknown); with
    `keeps_directory` a `cd` lasts to the next call (a session), else every call starts at the root."""

    def __init__(self, *, root: str = "", keeps_directory: bool = True, directory: str = "") -> None:
        self.root = root
        self.keeps_directory = keeps_directory
        self.directory = directory
        self.states: list[State] = []
        self.unknown_tools: dict[str, int] = {}
        self.notices: list[str] = []
        self._seen_lines = SeenLines()

    def path(self, raw: str) -> str:
        """A tool argument as a path of the run."""
        return normalise(raw, "", self.root)

    def shell(self, tool: str, text: str, seen: Seen) -> None:
        """A shell line."""
        start = self.directory if seen.directory is None else seen.directory
        command = parse(text, start, self.root)
        if self.keeps_directory:
            self.directory = command.directory
        self._command(tool, command, seen)

    def python(self, tool: str, code: str, seen: Seen) -> None:
        """A notebook cell."""
        self._command(tool, parse_python(code, self.directory, self.root), seen)

    def keys(self, tool: str, text: str, seen: Seen) -> None:
        """Input to a process that is still running, or a wait for its output: no command of its own."""
        self._add(tool, Operation.SHELL, seen, digest("keys", text), self._shell_ending(None, seen))

    def view(self, tool: str, raw_path: str, seen: Seen, lines: tuple[int, int] | None = None) -> None:
        """A look at a file, or at the closed range `lines` of it (an end of -1 is the end of the file)."""
        path = self.path(raw_path)
        span = None
        if lines is not None and lines[0] > 0:
            end = lines[1] if lines[1] >= lines[0] else END_OF_FILE
            span = Lines(start=lines[0], end=end)
        self._seen_lines.remember(path, lines[0] if lines else 1, seen.text)
        known = (span.start, span.end) if span else None
        self._add(
            tool, Operation.VIEW, seen, digest("view", path, known), look_ending(seen), path=path, lines=span
        )

    def views(
        self, tool: str, spans: list[tuple[str, str | None]], seen: Seen, lines: tuple[int, int] | None = None
    ) -> None:
        """A look at named places: files, each with the function or class shown if the log names one."""
        paths = [self.path(raw) for raw, _ in spans]
        scopes = [scope for _, scope in spans]
        path = paths[0] if paths else None
        command = None
        if len(paths) > 1:
            segment = Segment(
                program="cat",
                group=Group.READ,
                arguments=tuple(paths),
                reads=tuple(paths),
                target=" ".join(paths),
            )
            text = "cat " + " ".join(paths)
            command = Command(
                text=text, normal=text, segments=(segment,), strongest=segment, directory=self.directory
            )
        self._add(
            tool,
            Operation.VIEW,
            seen,
            digest("views", *paths, *scopes, lines),
            look_ending(seen),
            path=path,
            lines=Lines(start=lines[0], end=max(lines)) if lines and lines[0] > 0 else None,
            scope=scopes[0] if len(paths) == 1 else None,
            command=command,
        )

    def listing(self, tool: str, raw_path: str, seen: Seen) -> None:
        """A listing of a folder."""
        path = self.path(raw_path)
        self._add(tool, Operation.LIST, seen, digest("list", path), look_ending(seen), path=path)

    def search(self, tool: str, pattern: str, raw_path: str, seen: Seen, *, program: str = "grep") -> None:
        """A search tool; the command it stands for carries the pattern."""
        path = self.path(raw_path) if raw_path else ""
        segment = Segment(
            program=program,
            group=Group.SEARCH,
            arguments=(pattern, path),
            reads=(path,),
            pattern=pattern,
            target=f"{pattern} in {path or '.'}",
        )
        command = Command(
            text=f"{program} {pattern} {path or '.'}",
            normal=f"{program} {pattern} {path or '.'}",
            segments=(segment,),
            strongest=segment,
            directory=self.directory,
        )
        key = digest("search", program, pattern, path)
        self._add(tool, Operation.SEARCH, seen, key, look_ending(seen), path=path or None, command=command)

    def create(self, tool: str, raw_path: str, content: str, seen: Seen) -> None:
        """A file written as a whole."""
        path = self.path(raw_path)
        count = content.count("\n") + (not content.endswith("\n"))
        edit = Edit(old="", new=content)
        key = digest("create", path, content)
        ending = edit_ending(seen)
        if ending != "error":
            self._seen_lines.replace(path, content)
        self._add(
            tool,
            Operation.CREATE,
            seen,
            key,
            ending,
            path=path,
            lines=Lines(start=1, end=max(count, 1)),
            edits=(edit,),
        )

    def replace(self, tool: str, raw_path: str, pairs: list[tuple[str, str]], seen: Seen) -> None:
        """Texts replaced in one file; several pairs are one call."""
        path = self.path(raw_path)
        ending = edit_ending(seen)
        edits, scope = [], None
        for old, new in pairs:
            anchor, found_scope = (
                self._seen_lines.place(path, old, new, seen.text) if ending != "error" else (None, None)
            )
            edits.append(Edit(old=old, new=new, anchor=anchor))
            scope = scope or found_scope
        key = digest("replace", path, *(part for pair in pairs for part in pair))
        self._edited(
            tool, Operation.REPLACE, seen, path=path, edits=tuple(edits), scope=scope, key=key, ending=ending
        )

    def replace_lines(self, tool: str, raw_path: str, lines: Lines, new: str, seen: Seen) -> None:
        """A range of lines replaced; the old text is what the run has seen of it."""
        path = self.path(raw_path)
        ending = edit_ending(seen)
        shown = self._seen_lines.of(path)
        old = "\n".join(shown[number] for number in range(lines.start, lines.end + 1) if number in shown)
        scope = None
        if ending != "error":
            common, old_lines, new_lines = changed_lines(old, new)
            before = [text for number, text in sorted(shown.items()) if number < lines.start]
            scope = scope_of(before + old.split("\n")[:common], old_lines or new_lines)
            self._seen_lines.forget_below(path, lines, numbered_lines(seen.text))
        edit = Edit(old=old, new=new, anchor=lines)
        key = digest("lines", path, lines.start, lines.end, new)
        self._edited(
            tool, Operation.REPLACE, seen, path=path, edits=(edit,), scope=scope, key=key, ending=ending
        )

    def insert(self, tool: str, raw_path: str, after_line: int | None, text: str, seen: Seen) -> None:
        """Text inserted after a line (0 is the top)."""
        path = self.path(raw_path)
        anchor = Lines(start=after_line, end=after_line) if after_line is not None else None
        ending = edit_ending(seen)
        scope = None
        if anchor is not None and ending != "error":
            shown = self._seen_lines.of(path) | numbered_lines(seen.text)
            before = [line for number, line in sorted(shown.items()) if number <= anchor.start]
            scope = scope_of(before, text.split("\n"))
        edit = Edit(old="", new=text, anchor=anchor)
        key = digest("insert", path, after_line, text)
        self._edited(
            tool, Operation.INSERT, seen, path=path, edits=(edit,), scope=scope, key=key, ending=ending
        )

    def undo(self, tool: str, raw_path: str, seen: Seen) -> None:
        """The last edit of a file taken back."""
        path = self.path(raw_path)
        self._seen_lines.replace(path, "")
        self._add(tool, Operation.UNDO, seen, digest("undo", path), edit_ending(seen), path=path)

    def patch(self, tool: str, text: str, seen: Seen) -> None:
        """A patch over one or several files; the command it stands for carries the paths it writes."""
        paths = patched_paths(text, self.directory, self.root)
        segment = Segment(
            program="apply_patch",
            group=Group.WRITE,
            writes=paths or ("",),
            target=" ".join(paths) or None,
            body=text,
        )
        command = Command(
            text="apply_patch",
            normal="apply_patch\n" + text,
            segments=(segment,),
            strongest=segment,
            directory=self.directory,
        )
        edits, scope = patch_edits(text, lambda name: normalise(name, self.directory, self.root))
        ending = edit_ending(seen)
        self._add(
            tool,
            Operation.PATCH,
            seen,
            digest("patch", text),
            ending,
            path=paths[0] if paths else None,
            scope=scope,
            command=command,
            edits=edits,
            lines=edits[0].anchor if edits else None,
        )

    def patch_file(self, tool: str, raw_path: str, diff: str, scope: str | None, seen: Seen) -> None:
        """A change of one file of which the log keeps the diff."""
        path = self.path(raw_path)
        edits, found = patch_edits(diff, lambda _: path)
        key = digest("replace", path, diff)
        ending = "ok" if seen.is_error is None else edit_ending(seen)
        self._edited(
            tool,
            Operation.REPLACE,
            seen,
            path=path,
            edits=edits,
            scope=scope or found,
            key=key,
            ending=ending,
        )

    def other(self, tool: str, arguments: str, seen: Seen) -> None:
        """A call of a tool that no table knows: kept as a step of its own, told apart by its arguments."""
        segment = Segment(program=tool, group=Group.ENVIRONMENT, arguments=(arguments,) if arguments else ())
        command = Command(
            text=f"{tool} {arguments}",
            normal=f"{tool} {arguments}",
            segments=(segment,),
            strongest=segment,
            directory=self.directory,
        )
        self.unknown_tools[tool] = self.unknown_tools.get(tool, 0) + 1
        self._add(
            tool, Operation.SHELL, seen, digest("tool", tool, arguments), look_ending(seen), command=command
        )

    def note(self, tool: str, operation: Operation, seen: Seen, text: str = "") -> None:
        """A step that touches nothing: think, plan, message, finish, browse, delegate."""
        key = digest(operation) if operation is not Operation.BROWSE else digest(operation, text)
        self._add(tool, operation, seen, key, look_ending(seen) if seen.text else "unknown")

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the reader could not tell, for `Trajectory.warnings`."""
        unknown = [
            f"unknown tool {tool!r} ({count} calls) counted as a step that touches nothing"
            for tool, count in sorted(self.unknown_tools.items())
        ]
        empty = [] if self.states else ["no tool calls"]
        return (*self.notices, *unknown, *empty)

    def _command(self, tool: str, command: Command, seen: Seen) -> None:
        strongest = command.strongest
        paths = strongest.writes or strongest.reads
        path = paths[0] if paths else None
        lines = None
        if strongest.lines is not None and strongest.lines[0] > 0:
            lines = Lines(start=strongest.lines[0], end=max(strongest.lines))
        edits: tuple[Edit, ...] = ()
        scope = None
        ending = self._shell_ending(command, seen)
        if strongest.group is _WRITE:
            edits = edits_of(strongest, command.directory, self.root)
            if path is not None and edits and ending != "error":
                edits, scope = self._seen_lines.place_all(path, edits)
            if lines is None and edits:
                lines = edits[0].anchor
        elif path is not None and strongest.group is _READ:
            self._seen_lines.remember(path, lines.start if lines else 1, seen.text)
        self._add(
            tool,
            _SHELL,
            seen,
            digest("shell", command.normal),
            ending,
            path=path or None,
            lines=lines,
            scope=scope,
            command=command,
            edits=edits,
        )

    def _shell_ending(self, command: Command | None, seen: Seen) -> StateOutcome:
        if seen.exit_code is None:
            seen.exit_code = exit_code_in(seen.text)
        failed = seen.is_error
        if seen.exit_code is not None and seen.exit_code >= 0:
            failed = seen.exit_code != 0
        if failed is None:
            return shell_outcome(command, seen.text)
        # `pytest | tail` ends as tail does: what a check printed about itself says more.
        hidden = not failed and command is not None and command.strongest.group is _TEST
        return "error" if failed or (hidden and shell_outcome(command, seen.text) == "error") else "ok"

    def _edited(
        self,
        tool: str,
        operation: Operation,
        seen: Seen,
        *,
        path: str,
        edits: tuple[Edit, ...],
        scope: str | None,
        key: str,
        ending: StateOutcome,
    ) -> None:
        lines = edits[0].anchor if edits else None
        self._add(tool, operation, seen, key, ending, path=path, lines=lines, scope=scope, edits=edits)

    def _add(
        self,
        tool: str,
        operation: Operation,
        seen: Seen,
        key: str,
        ending: StateOutcome,
        *,
        path: str | None = None,
        lines: Lines | None = None,
        scope: str | None = None,
        command: Command | None = None,
        edits: tuple[Edit, ...] = (),
    ) -> None:
        text = seen.text
        limit = observation_limit.get()
        if len(text) > limit:
            text = text[:limit]
        self.states.append(
            make_state(
                len(self.states),
                tool,
                operation,
                path,
                lines,
                scope,
                key,
                command,
                edits,
                ending,
                seen.exit_code,
                text,
                seen.thought,
                seen.tokens_in,
                seen.tokens_out,
                seen.timestamp,
            )
        )
