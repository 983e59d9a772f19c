"""One vocabulary over the tools of every agent: a call by name and arguments becomes one state."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping

from workers.agentlens.formats.base import Json, whole
from workers.agentlens.formats.seen import Seen
from workers.agentlens.formats.states import StateBuilder
from workers.agentlens.trajectory import Operation

_KEY_PRESS = re.compile(r"(?:[CM]-[a-z\[\]\\]|\^[A-Z]|Enter|Escape|Up|Down|Left|Right|Tab|BSpace)\s*$")
_FOLDER_SHOWN = re.compile(r"(?:NOTE:.*\n)?(?:Here's|Here are) the (?:files and directories|items)")

Handler = Callable[[StateBuilder, str, Mapping[str, Json], Seen], None]


def add_call(builder: StateBuilder, name: str, arguments: Json, seen: Seen) -> None:
    """Adds the state of a call. `arguments` is an object, or its JSON text as models write it.

    A tool that is not in the table, or a call without the argument its tool needs, becomes a step of its own
    that touches nothing; the builder's warnings name the tool."""
    handler = _TOOLS.get(_plain(name))
    given = _as_mapping(name, arguments)
    if given is None and handler in _NOTING:
        given = {}
    if handler is None or given is None:
        builder.other(name, _as_text(arguments), seen)
        return
    try:
        handler(builder, name, given, seen)
    except _MissingArgumentError:
        builder.other(name, _as_text(arguments), seen)


class _MissingArgumentError(Exception):
    """A known tool was called without what it needs."""


def _plain(name: str) -> str:
    return name.rpartition(".")[2].lower().replace("-", "_") if name else name


def _as_mapping(name: str, arguments: Json) -> Mapping[str, Json] | None:
    if isinstance(arguments, Mapping):
        return arguments
    if arguments is None:
        return {}
    if not isinstance(arguments, str):
        return None
    if _plain(name) in ("apply_patch", "applypatch") and not arguments.lstrip().startswith("{"):
        return {"patch": arguments}
    try:
        decoded = json.loads(arguments) if arguments.strip() else {}
    except (ValueError, RecursionError):
        return None
    return decoded if isinstance(decoded, dict) else None


def _as_text(arguments: Json) -> str:
    if isinstance(arguments, str):
        return arguments
    try:
        return json.dumps(arguments, sort_keys=True, default=str)
    except (ValueError, RecursionError):
        return ""


def _text(arguments: Mapping[str, Json], *names: str) -> str | None:
    for name in names:
        value = arguments.get(name)
        if isinstance(value, str):
            return value
    return None


def _needed(arguments: Mapping[str, Json], *names: str) -> str:
    value = _text(arguments, *names)
    if value is None:
        raise _MissingArgumentError
    return value


_PATH = (
    "path",
    "file_path",
    "filePath",
    "absolute_path",
    "target_file",
    "filename",
    "file",
    "notebook_path",
    "target_directory",
    "relative_workspace_path",
    "directory",
    "dir_path",
    "dir",
    "folder",
    "pathInProject",
)


def _span(arguments: Mapping[str, Json]) -> tuple[int, int] | None:
    view_range = arguments.get("view_range")
    if isinstance(view_range, str):
        numbers = re.findall(r"-?\d+", view_range)
        view_range = [int(number) for number in numbers]
    if isinstance(view_range, list) and view_range:
        start = whole(view_range[0])
        end = whole(view_range[1]) if len(view_range) > 1 else -1
        return (start, -1 if end is None else end) if start is not None else None
    for first, last in (
        ("start_line", "end_line"),
        ("startLine", "endLine"),
        ("start_line_one_indexed", "end_line_one_indexed_inclusive"),
        ("start", "end"),
    ):
        start = whole(arguments.get(first))
        if start is not None and start > 0:
            end = whole(arguments.get(last))
            return start, -1 if end is None else end
    offset, limit = whole(arguments.get("offset")), whole(arguments.get("limit"))
    if offset is None and limit is None:
        return None
    start = max(offset or 1, 1)
    return start, start + limit - 1 if limit else -1


def _shell(builder: StateBuilder, name: str, arguments: Mapping[str, Json], seen: Seen) -> None:
    command = arguments.get("command", arguments.get("cmd", arguments.get("raw_action")))
    if isinstance(command, list):
        words = [word for word in command if isinstance(word, str)]
        command = words[2] if len(words) == 3 and words[1] in ("-lc", "-c", "-ic") else shlex.join(words)
    keystrokes = _text(arguments, "keystrokes")
    if command is None and keystrokes is not None:
        command = keystrokes.removesuffix("\n")
    if command is None:
        command = _needed(arguments, "script", "input", "code", "bash", "shell_command", "cmdline")
    if not isinstance(command, str):
        raise _MissingArgumentError
    if arguments.get("is_input") in (True, "true") or not command.strip() or _KEY_PRESS.match(command):
        builder.keys(name, command, seen)
        return
    directory = _text(arguments, "workdir", "cwd")
    if directory is not None:
        seen.directory = builder.path(directory)
    builder.shell(name, command, seen)


def _python(builder: StateBuilder, name: str, arguments: Mapping[str, Json], seen: Seen) -> None:
    builder.python(name, _needed(arguments, "code", "script", "source", "command"), seen)


def _keys(builder: StateBuilder, name: str, arguments: Mapping[str, Json], seen: Seen) -> None:
    builder.keys(name, _text(arguments, "chars", "input", "keys") or "", seen)


def _editor(builder: StateBuilder, name: str, arguments: Mapping[str, Json], seen: Seen) -> None:
    operation = _needed(arguments, "command", "cmd")
    if operation == "view":
        _read(builder, name, arguments, seen)
    elif operation in ("create", "write"):
        _create(builder, name, arguments, seen)
    elif operation in ("str_replace", "replace", "edit"):
        _replace(builder, name, arguments, seen)
    elif operation == "insert":
        _insert(builder, name, arguments, seen)
    elif operation in ("undo_edit", "undo"):
        builder.undo(name, _needed(arguments, *_PATH), seen)
    else:
        raise _MissingArgumentError


def _read(builder: StateBuilder, name: str, arguments: Mapping[str, Json], seen: Seen) -> None:
    path = _needed(arguments, *_PATH)
    if _FOLDER_SHOWN.match(seen.text):
        builder.listing(name, path, seen)
    else:
        builder.view(name, path, seen, _span(arguments))


def _create(builder: StateBuilder, name: str, arguments: Mapping[str, Json], seen: Seen) -> None:
    content = _text(arguments, "file_text", "content", "contents", "text", "code_edit", "new_source")
    builder.create(name, _needed(arguments, *_PATH), content or "", seen)


# Editing tools of which an empty old text makes a new file.
_CREATING = frozenset(("edit", "multiedit", "replace"))
_OLD = ("old_str", "old_string", "oldString", "old_text", "search", "old", "old_content")
_NEW = ("new_str", "new_string", "newString", "new_text", "replace", "new", "new_content", "new_source")


def _replace(builder: StateBuilder, name: str, arguments: Mapping[str, Json], seen: Seen) -> None:
    path = _needed(arguments, *_PATH)
    edits = arguments.get("edits")
    if isinstance(edits, list):
        pairs = [
            (_text(edit, *_OLD) or "", _text(edit, *_NEW) or "")
            for edit in edits
            if isinstance(edit, Mapping)
        ]
        builder.replace(name, path, pairs, seen)
        return
    old, new = _text(arguments, *_OLD), _text(arguments, *_NEW)
    if old is None and _plain(name) not in _CREATING:
        builder.replace(name, path, [("", new or "")], seen)
    elif not old and seen.is_error is not True and "No such" not in seen.text:
        builder.create(name, path, new or "", seen)
    else:
        builder.replace(name, path, [(old or "", new or "")], seen)


def _insert(builder: StateBuilder, name: str, arguments: Mapping[str, Json], seen: Seen) -> None:
    text = _needed(arguments, "new_str", "text", "content", "insert_text", "new_string")
    line = whole(arguments.get("insert_line", arguments.get("line", arguments.get("line_number"))))
    builder.insert(name, _needed(arguments, *_PATH), line, text, seen)


def _patch(builder: StateBuilder, name: str, arguments: Mapping[str, Json], seen: Seen) -> None:
    builder.patch(name, _needed(arguments, "patch", "input", "diff", "patch_text", "patchText"), seen)


def _grep(builder: StateBuilder, name: str, arguments: Mapping[str, Json], seen: Seen) -> None:
    pattern = _needed(arguments, "pattern", "query", "regex", "search_term", "search_query", "text", "q")
    builder.search(name, pattern, _text(arguments, *_PATH) or "", seen)


def _find(builder: StateBuilder, name: str, arguments: Mapping[str, Json], seen: Seen) -> None:
    pattern = _needed(arguments, "pattern", "glob_pattern", "file_name", "query", "name", "glob")
    builder.search(name, pattern, _text(arguments, *_PATH[:1], *_PATH[5:]) or "", seen, program="find")


def _list(builder: StateBuilder, name: str, arguments: Mapping[str, Json], seen: Seen) -> None:
    builder.listing(name, _text(arguments, *_PATH) or ".", seen)


def _noting(operation: Operation) -> Handler:
    def note(builder: StateBuilder, name: str, arguments: Mapping[str, Json], seen: Seen) -> None:
        builder.note(name, operation, seen, _as_text(dict(arguments)))

    return note


_NAMES: dict[Handler, str] = {
    _shell: "execute_bash bash shell terminal run_in_terminal run_shell_command exec_command "
    "local_shell run run_command execute_command bash_command run_bash exec shell_command "
    "run_terminal_cmd swe_agent_action execute_shell command run_terminal_command "
    "local_shell_call powershell",
    _python: "execute_ipython_cell run_ipython python ipython jupyter run_python execute_python "
    "code_interpreter",
    _keys: "write_stdin write_bash read_bash bashoutput killshell killbash kill_bash stop_bash "
    "kill_shell bash_output",
    _editor: "str_replace_editor file_editor str_replace_based_edit_tool editor text_editor edit_anthropic",
    _read: "read read_file readfile view open open_file view_file cat_file get_file read_many_files "
    "notebookread",
    _create: "write write_file create create_file createfile save_file new_file writefile overwrite_file",
    _replace: "edit multiedit edit_file replace str_replace strreplace search_replace "
    "replace_string_in_file replace_in_file string_replace stringreplace edit_block multi_edit notebookedit",
    _insert: "insert insert_lines insertlines insert_text insert_at_line",
    _patch: "apply_patch applypatch apply_diff patch",
    _grep: "grep grep_search search_files search_dir search_file ripgrep search search_file_content "
    "codebase_search semantic_search search_code code_search searchtext",
    _find: "glob find_file file_search find find_files find_by_name",
    _list: "ls list_dir list_directory list_files listfiles listdir tree",
    _noting(Operation.THINK): "think thought sequentialthinking reflect",
    _noting(
        Operation.PLAN
    ): "todowrite todoread task_tracker task_tracking update_plan todo todo_write write_todos "
    "plan exitplanmode enterplanmode manage_todo_list taskcreate taskupdate tasklist taskget",
    _noting(
        Operation.FINISH
    ): "finish submit task_complete complete attempt_completion done mark_task_complete "
    "final_answer stop end terminate exit",
    _noting(
        Operation.MESSAGE
    ): "message ask_user askuserquestion ask_followup_question request_user_input notify_user "
    "send_message reply slashcommand skill",
    _noting(
        Operation.BROWSE
    ): "browser browse browse_interactive webfetch websearch web_search fetch fetch_webpage "
    "web_fetch navigate google_web_search goto_url browser_navigate open_url click screenshot "
    "waitfor type scroll",
    _noting(
        Operation.DELEGATE
    ): "task agent delegate spawn_agent delegate_task new_task runsubagent wait_agent send_input",
}
_NOTING = frozenset(handler for handler in _NAMES if handler.__name__ == "note")
_TOOLS: dict[str, Handler] = {word: handler for handler, words in _NAMES.items() for word in words.split()}
