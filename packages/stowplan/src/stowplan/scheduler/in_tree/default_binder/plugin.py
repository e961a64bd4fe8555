"""Bind a pod to its node.

Upstream: pkg/scheduler/framework/plugins/defaultbinder.
"""

from __future__ import annotations

from typing import Any

from stowplan.kube.klog import get_logger
from stowplan.kube.kubernetes_versions import V1_37
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.framework.handle import Handle
from stowplan.scheduler.framework.interface import RequestBinder
from stowplan.scheduler.framework.requests import Bind
from stowplan.scheduler.in_tree.default_binder.declaration import DECLARATION

#: Named after the folder, by which --vmodule selects the plugin.
_log = get_logger(__name__.rpartition(".")[0])


#: The reference has the same, with up to 10 % more at random.
_RETRY_DELAYS = (0.01, 0.05, 0.25)


class DefaultBinder(RequestBinder):
    declaration = DECLARATION

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        if handle.features.emulated_version >= V1_37:
            self.retry_delays = _RETRY_DELAYS

    def bind_request(self, pod: PodInfo, node_name: str) -> Bind:
        if _log.verbosity >= 3:
            named = _log.named(f"Bind.{self.name}")
            _log.v(3).info("Attempting to bind pod to node", **named, pod=pod, node=node_name)
        meta = pod.pod.metadata
        # The UID lets the API server refuse it for another pod of the same name.
        return Bind(namespace=pod.shape.namespace, name=meta.name, uid=meta.uid, node=node_name)
