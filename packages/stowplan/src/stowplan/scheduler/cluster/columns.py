"""Growable per-node arrays; nodes are the last axis."""

from __future__ import annotations

import numpy as np

from stowplan.scheduler.cluster.arrays import Values


def grown(array: Values, capacity: int) -> Values:
    """A copy of the array whose last axis is extended to `capacity` with zeros."""
    larger = np.zeros((*array.shape[:-1], capacity), array.dtype)
    larger[..., : array.shape[-1]] = array
    return larger


def with_rows(array: Values, rows: int) -> Values:
    """A copy of the matrix whose first axis is extended to `rows` with zeros."""
    larger = np.zeros((rows, *array.shape[1:]), array.dtype)
    larger[: array.shape[0]] = array
    return larger


def settle_allocator() -> None:
    """Make malloc keep freed memory for later arrays.

    glibc returns the top of its heap to the kernel once 128 KiB of it are free, and a cycle over thousands of nodes
    would fault those pages in again each time, which doubles its duration. Freeing one large block once raises the
    dynamic threshold (mallopt(3), M_TRIM_THRESHOLD). Other C libraries are unaffected.
    """
    del_me = np.empty(24 << 20, np.uint8)
    del del_me
