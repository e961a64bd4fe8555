"""Bind a pod's claims to volumes, and keep it off nodes where that cannot be done.

Not built yet: pods with claims are rejected.

Upstream: pkg/scheduler/framework/plugins/volumebinding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.framework.interface import EnqueueExtensions, PreScorePlugin, ReadsNoObjects, TemplateSigned
from stowplan.framework.status import SKIP, Status
from stowplan.in_tree.common.not_built import PODS_WITH_CLAIMS, NotBuiltBinding
from stowplan.in_tree.common.volume_claims import has_claims
from stowplan.in_tree.volume_binding.declaration import DECLARATION
from stowplan.in_tree.volume_binding.hints import events

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stowplan.cluster.pod_info import PodInfo
    from stowplan.cluster.view import Nodes
    from stowplan.framework.cycle_state import CycleState
    from stowplan.framework.events import ClusterEventWithHint


class VolumeBinding(NotBuiltBinding, PreScorePlugin, TemplateSigned, ReadsNoObjects, EnqueueExtensions):
    name = "VolumeBinding"
    declaration = DECLARATION
    short_name = "volumes"

    def _unsupported(self, pod: PodInfo) -> str | None:
        return PODS_WITH_CLAIMS if has_claims(pod.shape) else None

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        return SKIP

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return events()
