"""How many random examples a property is tried on.

STOWPLAN_EXAMPLES=20 makes every property test look twenty times as far; for a night, or after a change of the core.
0.1 is what `make test` has.
"""

import os

from hypothesis import settings

_SHARE = float(os.environ.get("STOWPLAN_EXAMPLES", "1"))
#: For what cannot be less than once.
SCALE = max(1, int(_SHARE))


def times(number):
    """So many, times the scale; at least one."""
    return max(1, round(number * _SHARE))


def sampled(rows):
    """Of what was recorded, everything; or evenly as much of it as the scale says, where that is below 1."""
    return rows[:: max(1, round(1 / _SHARE))]


def examples(number):
    """Settings with so many examples, times the scale."""
    return settings(max_examples=times(number))
