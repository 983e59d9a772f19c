"""Shell lines: a lexer, a table of programs, and the `Command` they make together."""

from workers.agentlens.shell.command import STRENGTH, Command, Group, Segment

__all__ = ["STRENGTH", "Command", "Group", "Segment"]
