"""Events that a reconcile asks for."""

from typing import NamedTuple

NORMAL = "Normal"
WARNING = "Warning"


class Event(NamedTuple):
    """About the object that is reconciled."""

    type: str
    reason: str
    message: str
