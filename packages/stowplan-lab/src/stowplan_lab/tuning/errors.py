"""The error of a search."""

from __future__ import annotations


class TuningError(RuntimeError):
    """Says what is wrong and what to do."""
