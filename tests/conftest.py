"""Profiles of the property tests: no deadlines, and the same examples every time where CI runs them.

STOWPLAN_EXAMPLES=20 looks twenty times as far; see tests/support/examples.py.
"""

import os

from hypothesis import HealthCheck, settings

from support.examples import SCALE

# Nor is it a fault of a test that the machine is busy.
LOAD = [HealthCheck.too_slow]
settings.register_profile("default", deadline=None, max_examples=100 * SCALE, suppress_health_check=LOAD)
settings.register_profile("ci", settings.get_profile("default"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")
