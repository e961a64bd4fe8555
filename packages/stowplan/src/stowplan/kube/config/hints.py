"""Suggest names similar to an unknown one."""

from collections.abc import Iterable, Iterator
from difflib import get_close_matches

_CUTOFF = 0.6


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The most similar known name, ignoring case; None if there is none."""
    by_lower = {one.lower(): one for one in known}
    found = get_close_matches(name.lower(), by_lower, n=1, cutoff=_CUTOFF)
    return by_lower[found[0]] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> Iterator[str]:
    found = nearest(name, known)
    if found is not None:
        yield f"did you mean {found}?"
