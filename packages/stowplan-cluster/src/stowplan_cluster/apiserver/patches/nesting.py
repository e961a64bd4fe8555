"""Reject requests that are nested too deeply for Python's stack."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from stowplan.kube.api.api_errors import BadRequest

P = ParamSpec("P")
R = TypeVar("R")


def bounded(function: Callable[P, R]) -> Callable[P, R]:
    """Raise BadRequest if recursion over a document gets too deep."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except RecursionError:
            raise BadRequest("the object is nested too deeply: exceeded max depth") from None

    return call
