"""What keeps a search from being made."""

from __future__ import annotations


class TuningError(RuntimeError):
    """Says what is wrong and what to do."""
