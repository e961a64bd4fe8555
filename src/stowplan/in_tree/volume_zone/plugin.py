"""Keep pods in the zones of their volumes.

Not built yet: pods with claims are rejected.

Upstream: pkg/scheduler/framework/plugins/volumezone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.framework.interface import EnqueueExtensions, ReadsNoObjects, TemplateSigned
from stowplan.in_tree.common.not_built import PODS_WITH_CLAIMS, NotBuiltFilter
from stowplan.in_tree.volume_zone.declaration import DECLARATION
from stowplan.in_tree.volume_zone.hints import events

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stowplan.cluster.pod_info import PodInfo
    from stowplan.framework.events import ClusterEventWithHint


class VolumeZone(NotBuiltFilter, TemplateSigned, ReadsNoObjects, EnqueueExtensions):
    name = "VolumeZone"
    declaration = DECLARATION

    def _unsupported(self, pod: PodInfo) -> str | None:
        # Generic ephemeral volumes are not looked at, as in the reference; VolumeBinding refuses them.
        return PODS_WITH_CLAIMS if pod.shape.claim_names else None

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return events()
