"""Bind a pod to its node.

Upstream: pkg/scheduler/framework/plugins/defaultbinder.
"""

from __future__ import annotations

from stowplan.kube.klog import get_logger
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.framework.interface import RequestBinder
from stowplan.scheduler.framework.requests import Bind
from stowplan.scheduler.in_tree.default_binder.declaration import DECLARATION

#: Named after the folder, by which --vmodule selects the plugin.
_log = get_logger(__name__.rpartition(".")[0])


class DefaultBinder(RequestBinder):
    declaration = DECLARATION

    def bind_request(self, pod: PodInfo, node_name: str) -> Bind:
        if _log.verbosity >= 3:
            named = _log.named(f"Bind.{self.name}")
            _log.v(3).info("Attempting to bind pod to node", **named, pod=pod, node=node_name)
        meta = pod.pod.metadata
        # The UID lets the API server refuse it for another pod of the same name.
        return Bind(namespace=pod.shape.namespace, name=meta.name, uid=meta.uid, node=node_name)
