"""Code shared by pod group plugins."""

from stowplan.framework.status import Status, error


def without_state(group: str) -> Status:
    """The Error of a group of which no pod is known."""
    return error(f"pod group state not found for pod group {group}")
