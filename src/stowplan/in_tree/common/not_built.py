"""Errors for plugins that are known but not implemented.

A pod that needs what one of them decides is refused with a reason that says so; it is never placed blindly. A pod
that does not need it passes as if the plugin were complete.
"""

from stowplan.framework.status import Reason

NOT_BUILT = Reason("NotBuiltYet", "Stowplan does not place {what} yet ({plugin})")

PODS_OF_GROUPS = "pods of pod groups"
