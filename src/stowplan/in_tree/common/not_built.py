"""Errors for plugins that are known but not implemented.

A pod that needs such a plugin's decision is rejected with a reason that says so, and never placed without it. Other
pods pass as if the plugin were complete.
"""

from stowplan.framework.status import Reason

NOT_BUILT = Reason("NotBuiltYet", "Stowplan does not place {what} yet ({plugin})")

PODS_OF_GROUPS = "pods of pod groups"
