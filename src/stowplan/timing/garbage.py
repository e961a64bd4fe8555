"""Tune Python's garbage collection.

A scheduler keeps very many objects, hardly any of them in cycles. Collecting at Python's default rate costs 3 % of a
simulation, a tenth of a create in the embedded API, and a seventh of the imports of `kube-scheduler`.
"""

from __future__ import annotations

import gc


def collect_garbage_less_often() -> None:
    """Call this once per process, at the start, before slow imports."""
    gc.set_threshold(50_000, 20, 100)
