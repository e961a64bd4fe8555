"""The number of random examples of property tests.

STOWPLAN_EXAMPLES=20 runs every property test on twenty times as many examples, for a night or after a change of the
core. `make test` uses 0.1.
"""

import os

from hypothesis import settings

_SHARE = float(os.environ.get("STOWPLAN_EXAMPLES", "1"))
#: For values that must be at least 1.
SCALE = max(1, int(_SHARE))


def times(number):
    """The number, scaled; at least 1."""
    return max(1, round(number * _SHARE))


def sampled(rows):
    """All recorded rows, or an evenly spaced part of them if the scale is below 1."""
    return rows[:: max(1, round(1 / _SHARE))]


def examples(number):
    """Hypothesis settings with this number of examples, scaled."""
    return settings(max_examples=times(number))
