"""Growable per-node arrays; nodes are the last axis."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def grown(array: npt.NDArray[Any], capacity: int) -> npt.NDArray[Any]:
    """The same array with its last axis extended to `capacity` by zeros."""
    larger = np.zeros((*array.shape[:-1], capacity), array.dtype)
    larger[..., : array.shape[-1]] = array
    return larger


def with_rows(array: npt.NDArray[Any], rows: int) -> npt.NDArray[Any]:
    """The same matrix with its first axis extended to `rows` by zeros."""
    larger = np.zeros((rows, *array.shape[1:]), array.dtype)
    larger[: array.shape[0]] = array
    return larger


def settle_allocator() -> None:
    """Let the C library keep the memory of freed arrays for the next ones.

    glibc gives the top of its heap back to the kernel as soon as 128 KiB of it are free, and a cycle over thousands of
    nodes would fault those pages in again and again: twice the time of the whole cycle. Freeing one large block once
    raises the limit (mallopt(3), M_TRIM_THRESHOLD: it is dynamic); other libraries do not mind.
    """
    del_me = np.empty(24 << 20, np.uint8)
    del del_me
