"""How a `Verdict` comes about: the engine is asked, and says what it would do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.explain.preemption import preemption_of
from stowplan.explain.verdict import Verdict

if TYPE_CHECKING:
    from stowplan.cluster.pod_info import PodInfo
    from stowplan.engine.engine import Engine


def judged(engine: Engine, info: PodInfo) -> Verdict:
    """The verdict on a pod of one of the profiles; nothing changes."""
    with engine.asking(info) as question:
        found = question.judgement()
        preemption = preemption_of(question.framework, found.post_filter)
    # A verdict outlasts the question.
    return Verdict(**vars(found) | {"post_filter": (), "preemption": preemption})
