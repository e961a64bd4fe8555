"""Cluster controllers: nodes, kubelet, volumes, budgets, quotas and cleanup.

Each can be disabled by name (`loop.select_controllers`). The node lifecycle controller needs the kubelet: without its
leases, every node counts as unhealthy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan_cluster.controllers.cleanup.event_ttl import EventTTLController
from stowplan_cluster.controllers.cleanup.garbage_collector import GarbageCollector
from stowplan_cluster.controllers.cleanup.namespace import NamespaceController
from stowplan_cluster.controllers.cleanup.pod_gc import PodGCController
from stowplan_cluster.controllers.devices.device_driver import FakeDeviceDriver
from stowplan_cluster.controllers.devices.device_readiness import FakeDeviceReadiness
from stowplan_cluster.controllers.devices.device_taint_eviction import DeviceTaintEvictionController
from stowplan_cluster.controllers.devices.resource_claims import ResourceClaimController
from stowplan_cluster.controllers.disruption.disruption import DisruptionController
from stowplan_cluster.controllers.kubelet.kubelet import Kubelet
from stowplan_cluster.controllers.nodes.node_lifecycle import NodeLifecycleController
from stowplan_cluster.controllers.nodes.taint_eviction import TaintEvictionController
from stowplan_cluster.controllers.resource_quota import ResourceQuotaController
from stowplan_cluster.controllers.volumes.ephemeral_volumes import EphemeralVolumeController
from stowplan_cluster.controllers.volumes.provisioner import Provisioner
from stowplan_cluster.controllers.volumes.volume_binder import VolumeBinder
from stowplan_cluster.controllers.volumes.volume_protection import ClaimProtectionController, VolumeProtectionController

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.registry import Registry
    from stowplan_cluster.controllers.loop import Controller


def cluster_controllers(registry: Registry) -> list[Controller]:
    return [
        Kubelet(registry),
        NodeLifecycleController(registry),
        TaintEvictionController(registry),
        DeviceTaintEvictionController(registry),
        PodGCController(registry),
        DisruptionController(registry),
        ResourceQuotaController(registry),
        EphemeralVolumeController(registry),
        FakeDeviceDriver(registry),
        FakeDeviceReadiness(registry),
        ResourceClaimController(registry),
        VolumeBinder(registry),
        Provisioner(registry),
        ClaimProtectionController(registry),
        VolumeProtectionController(registry),
        NamespaceController(registry),
        GarbageCollector(registry),
        EventTTLController(registry),
    ]
