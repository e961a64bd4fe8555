"""Tune a process of ours: Python's garbage collection, and NumPy's threads.

A scheduler keeps very many objects, hardly any of them in cycles. Collecting at Python's default rate costs 3 % of a
simulation, a tenth of a create in the embedded API, and a seventh of the start of `kube-scheduler`: modules are never
garbage.
"""

from __future__ import annotations

import gc
import os


def prepare_for_imports() -> None:
    """Call this before slow imports; `collect_garbage_less_often` ends it."""
    gc.disable()
    # As NumPy is loaded, its OpenBLAS starts a thread for each core, which spins for a while: 40 ms of CPU on two
    # cores. Nothing here multiplies matrices.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def collect_garbage_less_often() -> None:
    """Call this once per process, before its work begins."""
    gc.set_threshold(50_000, 20, 100)
    if not gc.isenabled():
        # Modules stay: no collection needs to look at them.
        gc.freeze()
        gc.enable()
