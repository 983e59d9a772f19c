"""Text from logs and file names, made harmless for a terminal."""

from workers.plain import plain

__all__ = ["plain"]
