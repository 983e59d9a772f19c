"""Shell lines: a lexer, a table of programs, and the `Command` they make together."""

from workers.agentlens.shell.command import STRENGTH, Command, Group, Segment
from workers.agentlens.shell.parse import parse, parse_python

__all__ = ["STRENGTH", "Command", "Group", "Segment", "parse", "parse_python"]
