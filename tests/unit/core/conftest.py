"""Properties here are the same examples on every run, and a busy machine fails none of them."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("core", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("core")
