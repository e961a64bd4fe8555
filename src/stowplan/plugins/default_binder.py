"""Write the decision: the binding of a pod to its node.

Upstream: pkg/scheduler/framework/plugins/defaultbinder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stowplan.framework.interface import BindPlugin
from stowplan.framework.status import Status, error

if TYPE_CHECKING:
    from stowplan.api.types import Pod
    from stowplan.cluster.pod_info import PodInfo
    from stowplan.framework.cycle_state import CycleState

NO_API = "this scheduler has no API to bind through"


class DefaultBinder(BindPlugin):
    name = "DefaultBinder"

    async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        # The handle offers no API yet; with one, `binding` is posted to the pod's binding subresource.
        return error(NO_API)


def binding(pod: Pod, node_name: str) -> dict[str, Any]:
    """The Binding that puts the pod on the node.

    The UID lets the API server refuse it for another pod of the same name.
    """
    meta = pod.metadata
    identity = {"namespace": meta.namespace, "name": meta.name, "uid": meta.uid}
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {key: value for key, value in identity.items() if value},
        "target": {"kind": "Node", "name": node_name},
    }
