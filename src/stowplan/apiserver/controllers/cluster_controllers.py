"""The controllers that make a cluster of a store: nodes, pods on them, volumes, budgets, and what cleans up.

Each can be left out by its name (`loop.select_controllers`). The kubelet and the node lifecycle belong
together: without leases, the latter takes every node for dead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.apiserver.controllers.disruption import DisruptionController
from stowplan.apiserver.controllers.event_ttl import EventTTLController
from stowplan.apiserver.controllers.garbage_collector import GarbageCollector
from stowplan.apiserver.controllers.kubelet import Kubelet
from stowplan.apiserver.controllers.namespace import NamespaceController
from stowplan.apiserver.controllers.node_lifecycle import NodeLifecycleController
from stowplan.apiserver.controllers.pod_gc import PodGCController
from stowplan.apiserver.controllers.provisioner import Provisioner
from stowplan.apiserver.controllers.taint_eviction import TaintEvictionController
from stowplan.apiserver.controllers.volume_binder import VolumeBinder
from stowplan.apiserver.controllers.volume_protection import ClaimProtectionController, VolumeProtectionController

if TYPE_CHECKING:
    from stowplan.apiserver.controllers.loop import Controller
    from stowplan.apiserver.registry import Registry


def cluster_controllers(registry: Registry) -> list[Controller]:
    return [
        Kubelet(registry),
        NodeLifecycleController(registry),
        TaintEvictionController(registry),
        PodGCController(registry),
        DisruptionController(registry),
        VolumeBinder(registry),
        Provisioner(registry),
        ClaimProtectionController(registry),
        VolumeProtectionController(registry),
        NamespaceController(registry),
        GarbageCollector(registry),
        EventTTLController(registry),
    ]
