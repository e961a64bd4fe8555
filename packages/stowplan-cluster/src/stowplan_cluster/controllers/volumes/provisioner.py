"""A simulated external provisioner for every StorageClass: creates and deletes volumes.

Like a CSI driver's provisioner, once the binder has set the provisioner annotation on a claim: it creates a volume of
the requested size, reserved for that claim, and accessible only from the topology of the selected node, or with
Immediate from one of its choice (`stowplan.kube.api.topologies`): then it waits for a node that the class allows.

Released volumes with reclaim policy Delete are deleted, including those created by others.

Left out: data sources, storage quotas, failures other than a node that is missing or not allowed.

Upstream: sigs.k8s.io/sig-storage-lib-external-provisioner, kubernetes-csi/external-provisioner.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from stowplan.kube.api.api_errors import AlreadyExists
from stowplan.kube.api.decode import convert, decode_json
from stowplan.kube.api.topologies import immediate_topology, is_allowed, topology_of
from stowplan.kube.api.types import CSINode, StorageClass
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.registry import Registry
from stowplan_cluster.apiserver.store import Event, Stored
from stowplan_cluster.controllers.client import ControllerClient
from stowplan_cluster.controllers.events import NORMAL, WARNING
from stowplan_cluster.controllers.pods_by_node import NODES
from stowplan_cluster.controllers.volumes.volume_binder import CLAIMS, STORAGE_PROVISIONER, VOLUMES, VolumeKey
from stowplan_cluster.controllers.volumes.volume_matching import (
    CLASSES,
    NO_PROVISIONER,
    PROVISIONED_BY,
    SELECTED_NODE,
    ClaimKey,
    annotations_of,
    reference_to,
    waits_for_consumer,
)

FINALIZER = "external-provisioner.volume.kubernetes.io/finalizer"
_CSI_NODES = "csinodes.storage.k8s.io"


class ProvisioningError(Exception):
    """The reason why no volume is provisioned for a claim."""


class Provisioner:
    def __init__(self, registry: Registry) -> None:
        self.name = "external-provisioner"
        self.watches = (CLAIMS, VOLUMES, NODES)
        self._client = ControllerClient(registry, "external-provisioner")
        #: Claims that wait for a node that their class allows.
        self._waiting: dict[ClaimKey, None] = {}

    def keys_of(self, event: Event) -> Sequence[Hashable]:
        stored = event.stored
        if stored.resource == NODES:
            waiting, self._waiting = self._waiting, {}
            return list(waiting)
        if event.type == "DELETED":
            return ()
        return [VolumeKey(stored.name)] if stored.resource == VOLUMES else [ClaimKey(stored.namespace, stored.name)]

    def reconcile(self, key: Any) -> float | None:
        if isinstance(key, VolumeKey):
            volume = self._client.store.get(VOLUMES, "", key.name)
            if volume is not None:
                self._reclaim(volume)
            return None
        claim = self._client.store.get(CLAIMS, key.namespace, key.name)
        if claim is not None:
            self._provision(claim)
        return None

    # Creating volumes

    def _provision(self, stored: Stored) -> None:
        claim = stored.to_dict()
        if claim["spec"].get("volumeName") or "deletionTimestamp" in claim["metadata"]:
            return
        class_ = self._class_to_serve(claim)
        if class_ is None or self._client.store.get(VOLUMES, "", _name_for(stored)) is not None:
            return
        try:
            volume = self._volume(stored, claim, class_)
        except ProvisioningError as error:
            name = class_["metadata"]["name"]
            message = f'failed to provision volume with StorageClass "{name}": {error}'
            self._client.events.record(claim, WARNING, "ProvisioningFailed", message)
            self._choose_another_node(stored, claim)
            return
        message = f'External provisioner is provisioning volume for claim "{stored.namespace}/{stored.name}"'
        self._client.events.record(claim, NORMAL, "Provisioning", message)
        try:
            self._client.create(VOLUMES, volume)
        except AlreadyExists:
            return
        message = f"Successfully provisioned volume {volume['metadata']['name']}"
        self._client.events.record(claim, NORMAL, "ProvisioningSucceeded", message)

    def _class_to_serve(self, claim: JsonObject) -> JsonObject | None:
        """The claim's class, if a volume should be provisioned now; else None."""
        annotations = annotations_of(claim)
        stored = self._client.store.get(CLASSES, "", claim["spec"].get("storageClassName") or "")
        if stored is None:
            return None
        class_ = stored.to_dict()
        provisioner = class_["provisioner"]
        if provisioner == NO_PROVISIONER or annotations.get(STORAGE_PROVISIONER) != provisioner:
            return None
        return None if waits_for_consumer(class_) and SELECTED_NODE not in annotations else class_

    def _volume(self, stored: Stored, claim: JsonObject, class_: JsonObject) -> JsonObject:
        spec, driver, name = claim["spec"], class_["provisioner"], _name_for(stored)
        policy = class_.get("reclaimPolicy", "Delete")
        volume: JsonObject = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name, "annotations": {PROVISIONED_BY: driver}},
            "spec": {
                "accessModes": spec["accessModes"],
                "capacity": {"storage": spec["resources"]["requests"]["storage"]},
                "claimRef": reference_to(stored),
                # Names of in-tree-style provisioners have a slash, which a driver's name cannot have.
                "csi": {"driver": driver.replace("/", "."), "volumeHandle": name},
                "persistentVolumeReclaimPolicy": policy,
                "storageClassName": class_["metadata"]["name"],
                "volumeMode": spec.get("volumeMode", "Filesystem"),
            },
        }
        if "volumeAttributesClassName" in spec:
            volume["spec"]["volumeAttributesClassName"] = spec["volumeAttributesClassName"]
        if class_.get("mountOptions"):
            volume["spec"]["mountOptions"] = class_["mountOptions"]
        if policy == "Delete":
            volume["metadata"]["finalizers"] = [FINALIZER]
        topology = self._topology(stored, annotations_of(claim).get(SELECTED_NODE), class_)
        if topology:
            terms = [{"matchExpressions": [_expression(*one) for one in topology.items()]}]
            volume["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
        return volume

    def _topology(self, claim: Stored, node_name: str | None, class_: JsonObject) -> dict[str, str]:
        """The topology from which the volume is accessible; {} for everywhere."""
        store, storage_class = self._client.store, convert(class_, StorageClass)
        if node_name is None:
            nodes = ((node.name, node.labels) for node in store.list(NODES))
            topology = immediate_topology(claim.name, nodes, self._csi_node_of, storage_class)
            if topology is None:
                self._waiting[ClaimKey(claim.namespace, claim.name)] = None
                raise ProvisioningError("there is no node in the topologies that it allows")
            return topology
        node = store.get(NODES, "", node_name)
        if node is None:
            raise ProvisioningError(f'error getting selected node "{node_name}": node "{node_name}" not found')
        if not is_allowed(node.labels, storage_class):
            raise ProvisioningError(f'selected node "{node_name}" is not in the allowed topologies')
        return topology_of(node_name, node.labels, self._csi_node_of, storage_class)

    def _csi_node_of(self, node_name: str) -> CSINode | None:
        stored = self._client.store.get(_CSI_NODES, "", node_name)
        return None if stored is None else decode_json(stored.data, CSINode)

    def _choose_another_node(self, stored: Stored, claim: JsonObject) -> None:
        """Clear the selected node, so that the scheduler selects another."""
        annotations = annotations_of(claim)
        if annotations.pop(SELECTED_NODE, None) is not None:
            self._client.update(stored, claim)

    # Deleting volumes

    def _reclaim(self, stored: Stored) -> None:
        volume = stored.to_dict()
        policy = volume["spec"].get("persistentVolumeReclaimPolicy")
        if (volume.get("status") or {}).get("phase") != "Released" or policy != "Delete":
            return
        metadata = volume["metadata"]
        if "deletionTimestamp" not in metadata:
            self._client.delete(VOLUMES, "", stored.name, uid=stored.uid)
            return
        if FINALIZER in (metadata.get("finalizers") or ()):
            metadata["finalizers"] = [name for name in metadata["finalizers"] if name != FINALIZER]
            self._client.update(stored, volume)


def _name_for(claim: Stored) -> str:
    return f"pvc-{claim.uid}"


def _expression(key: str, value: str) -> JsonObject:
    return {"key": key, "operator": "In", "values": [value]}
