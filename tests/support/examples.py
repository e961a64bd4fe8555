"""How many random examples a property is tried on.

STOWPLAN_EXAMPLES=20 makes every property test look twenty times as far; for a night, or after a change of the core.
"""

import os

from hypothesis import settings

SCALE = int(os.environ.get("STOWPLAN_EXAMPLES", "1"))


def examples(number):
    """Settings with so many examples, times the scale."""
    return settings(max_examples=number * SCALE)
