"""Bind a pod to its node.

Upstream: pkg/scheduler/framework/plugins/defaultbinder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.framework.interface import BindPlugin
from stowplan.framework.requests import Bind, Done
from stowplan.framework.status import error
from stowplan.in_tree.default_binder.declaration import DECLARATION
from stowplan.klog import get_logger

if TYPE_CHECKING:
    from stowplan.cluster.pod_info import PodInfo
    from stowplan.framework.cycle_state import CycleState
    from stowplan.framework.requests import Steps

#: Named after the folder, by which --vmodule selects the plugin.
_log = get_logger(__name__.rpartition(".")[0])


class DefaultBinder(BindPlugin):
    name = "DefaultBinder"
    declaration = DECLARATION

    def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Steps:
        verbose = _log.v(3)
        if verbose.enabled:
            named = _log.named(f"Bind.{self.name}")
            verbose.info("Attempting to bind pod to node", **named, pod=pod, node=node_name)
        meta = pod.pod.metadata
        # The UID lets the API server refuse it for another pod of the same name.
        outcome = yield Bind(namespace=pod.namespace, name=meta.name, uid=meta.uid, node=node_name)
        return None if isinstance(outcome, Done) else error(outcome.error)
