"""Profiles of the property tests: no deadlines, and the same examples every time where CI runs them.

STOWPLAN_EXAMPLES=20 looks twenty times as far; see tests/support/examples.py.
"""

import os

from hypothesis import settings

from examples import SCALE

settings.register_profile("default", deadline=None, max_examples=100 * SCALE)
settings.register_profile("ci", settings.get_profile("default"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")
