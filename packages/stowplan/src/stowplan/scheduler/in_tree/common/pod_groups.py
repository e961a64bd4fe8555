"""Code shared by pod group plugins."""

from stowplan.scheduler.framework.status import Status, error


def without_state(group: str) -> Status:
    """The Error for a group without any known pod."""
    return error(f"pod group state not found for pod group {group}")
