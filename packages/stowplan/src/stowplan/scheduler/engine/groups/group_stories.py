"""Stories of pod groups: the outcome of each trial.

A group's story is stored among those of pods, under a key that no pod can have.

Upstream has no counterpart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.scheduler.framework.status import Code
from stowplan.scheduler.inspection.stories import Stories

if TYPE_CHECKING:
    from stowplan.scheduler.engine.groups.group_trial import GroupTrial

SCHEDULED, REFUSED = "scheduled", "not scheduled"
WAITS, FAILED = "waits for preemption", "failed"


def story_key(group: str) -> str:
    """The key of a group's story; a pod's key contains one slash."""
    return f"podgroup/{group}"


def record_trial(stories: Stories, group: str, trial: GroupTrial) -> None:
    """Record a completed trial."""
    if not stories.kept:
        return
    what = FAILED
    if trial.status.code == Code.Success:
        what = SCHEDULED
    elif trial.status.rejected:
        what = WAITS if trial.waiting else REFUSED
    placed = sum(pod.placed for pod in trial.pods)
    message = f": {trial.status.message}" if trial.status.message else ""
    key = story_key(group)
    stories.step(key, key, what, f"{placed:,} of {len(trial.pods):,} pods fit together{message}")
