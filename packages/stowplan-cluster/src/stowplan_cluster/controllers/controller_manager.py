"""Select controllers and the admission plugins they need.

Some admission plugins need a controller: it undoes their work, as a finalizer of a claim or a taint of a new node, or
shows it, as the status of a quota. They are enabled if and only if that controller runs.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from stowplan_cluster.apiserver.registry import Registry
from stowplan_cluster.controllers.cleanup.event_ttl import EventTTLController
from stowplan_cluster.controllers.cleanup.garbage_collector import GarbageCollector
from stowplan_cluster.controllers.cleanup.namespace import NamespaceController
from stowplan_cluster.controllers.cleanup.pod_gc import PodGCController
from stowplan_cluster.controllers.devices.device_driver import FakeDeviceDriver, FakeDeviceReadiness
from stowplan_cluster.controllers.devices.device_taint_eviction import DeviceTaintEvictionController
from stowplan_cluster.controllers.devices.resource_claims import ResourceClaimController
from stowplan_cluster.controllers.disruption import DisruptionController
from stowplan_cluster.controllers.kubelet.kubelet import Kubelet
from stowplan_cluster.controllers.loop import Controller, Loop, select_controllers
from stowplan_cluster.controllers.nodes.node_lifecycle import NodeLifecycleController, TaintEvictionController
from stowplan_cluster.controllers.resource_quota import ResourceQuotaController
from stowplan_cluster.controllers.volumes.volume_controllers import EphemeralVolumeController, Provisioner, VolumeBinder
from stowplan_cluster.controllers.volumes.volume_protection import ClaimProtectionController, VolumeProtectionController
from stowplan_cluster.controllers.workloads.cron_job import CronJobController
from stowplan_cluster.controllers.workloads.daemon_set import DaemonSetController
from stowplan_cluster.controllers.workloads.deployment import DeploymentController
from stowplan_cluster.controllers.workloads.horizontal_pod_autoscaler import HorizontalPodAutoscalerController
from stowplan_cluster.controllers.workloads.job import JobController, TTLAfterFinishedController
from stowplan_cluster.controllers.workloads.replica_set import ReplicaSetController, ReplicationControllerController
from stowplan_cluster.controllers.workloads.stateful_set import StatefulSetController
from stowplan_cluster.reconcile.kubelet import AT_ONCE, Containers

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.api_server import ApiServer


def workload_controllers(registry: Registry) -> list[Controller]:
    return [
        DeploymentController(registry),
        ReplicaSetController(registry),
        ReplicationControllerController(registry),
        StatefulSetController(registry),
        DaemonSetController(registry),
        JobController(registry),
        CronJobController(registry),
        TTLAfterFinishedController(registry),
        HorizontalPodAutoscalerController(registry),
    ]


def cluster_controllers(registry: Registry, containers: Containers = AT_ONCE) -> list[Controller]:
    """Nodes, kubelet, volumes, budgets, quotas and cleanup. `containers`: how those of all pods behave.

    The node lifecycle controller needs the kubelet: without its leases, every node counts as unhealthy.
    """
    return [
        Kubelet(registry, containers),
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


#: Admission plugin -> its controller.
_CONTROLLER_OF = {
    "StorageObjectInUseProtection": "persistentvolumeclaim-protection-controller",
    "ResourceQuota": "resourcequota-controller",
    "TaintNodesByCondition": "node-lifecycle-controller",
}


def set_up_controllers(
    server: ApiServer,
    *,
    controllers: Sequence[str] = ("*",),
    disabled_admission: Collection[str] = (),
    containers: Containers = AT_ONCE,
    others: Sequence[Controller] = (),
) -> Loop:
    """Configure admission and return the loop of the selected controllers; raise ValueError for unknown names.

    `others`: controllers that only some clusters have.
    """
    known = [*workload_controllers(server.registry), *cluster_controllers(server.registry, containers), *others]
    chosen = select_controllers(known, controllers)
    names = {controller.name for controller in chosen}
    disabled = frozenset(disabled_admission)
    plugins = {plugin for plugin, controller in _CONTROLLER_OF.items() if controller in names}
    server.set_admission(enabled=frozenset(plugins) - disabled, disabled=disabled | (_CONTROLLER_OF.keys() - plugins))
    return Loop(server.registry, chosen, server.clock)
