"""How `kube-scheduler` ends with exit code 1."""

from __future__ import annotations


class CommandError(Exception):
    """`str()` says what is to be mended."""


class LeaseLost(Exception):
    """Somebody else may lead now."""
