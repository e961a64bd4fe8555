"""How often Python looks for garbage.

A scheduler keeps a great many objects, and hardly any of them are in cycles. Looking for cycles as often as Python does
by default costs 3 % of a simulation, and a tenth of a create in the embedded API.
"""

from __future__ import annotations

import gc


def collect_seldom() -> None:
    """For whole processes, when they begin."""
    gc.set_threshold(50_000, 20, 100)
