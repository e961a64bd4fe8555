"""Remove the protection finalizer of terminating claims and volumes once unused.

Admission adds the finalizer. A claim is in use while a scheduled pod has it as a volume, even if the pod has finished;
a volume is in use while it is bound.

Upstream: pkg/controller/volume/pvcprotection, pkg/controller/volume/pvprotection.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from stowplan.kube.api.decode import decode_json
from stowplan.kube.api.pod import Pod
from stowplan.kube.claims.claim_terms import ClaimKey
from stowplan.kube.claims.ephemeral_claims import claim_name
from stowplan.kube.claims.volume_binder import VolumeKey
from stowplan_cluster.apiserver.admission.plugins import CLAIM_FINALIZER, VOLUME_FINALIZER
from stowplan_cluster.apiserver.registry import Registry
from stowplan_cluster.apiserver.store import Event, Stored
from stowplan_cluster.controllers.client import ControllerClient
from stowplan_cluster.controllers.pods_by_node import node_of
from stowplan_cluster.reconcile.pods import PODS

CLAIMS, VOLUMES = "persistentvolumeclaims", "persistentvolumes"


class ClaimProtectionController:
    def __init__(self, registry: Registry) -> None:
        self.name = "persistentvolumeclaim-protection-controller"
        self.watches = (CLAIMS, PODS)
        self._client = ControllerClient(registry, "persistentvolumeclaim-protection-controller")
        #: Claim -> uids of scheduled pods that use it.
        self._users: dict[ClaimKey, set[str]] = {}

    def keys_of(self, event: Event) -> Sequence[Hashable]:
        stored = event.stored
        if stored.resource == CLAIMS:
            return [ClaimKey(stored.namespace, stored.name)]
        placed = bool(node_of(stored))
        if not placed or (event.type == "MODIFIED" and event.previous is not None and node_of(event.previous)):
            # A pod's volumes are immutable.
            return ()
        pod = decode_json(stored.data, Pod)
        names = sorted({name for volume in pod.spec.volumes if (name := claim_name(pod, volume))})
        claims = [ClaimKey(stored.namespace, name) for name in names]
        for claim in claims:
            self._count(claim, stored.uid, uses=event.type != "DELETED")
        return claims if event.type == "DELETED" else ()

    def _count(self, claim: ClaimKey, pod: str, *, uses: bool) -> None:
        users = self._users.setdefault(claim, set())
        if uses:
            users.add(pod)
            return
        users.discard(pod)
        if not users:
            del self._users[claim]

    def reconcile(self, key: Any) -> float | None:
        stored = self._client.store.get(CLAIMS, key.namespace, key.name)
        if stored is not None and key not in self._users:
            _let_go(self._client, stored, CLAIM_FINALIZER)
        return None


class VolumeProtectionController:
    def __init__(self, registry: Registry) -> None:
        self.name = "persistentvolume-protection-controller"
        self.watches = (VOLUMES,)
        self._client = ControllerClient(registry, "persistentvolume-protection-controller")

    def keys_of(self, event: Event) -> Sequence[Hashable]:
        return [VolumeKey(event.stored.name)] if event.type != "DELETED" else ()

    def reconcile(self, key: Any) -> float | None:
        stored = self._client.store.get(VOLUMES, "", key.name)
        if stored is not None and (stored.to_dict().get("status") or {}).get("phase") != "Bound":
            _let_go(self._client, stored, VOLUME_FINALIZER)
        return None


def _let_go(client: ControllerClient, stored: Stored, finalizer: str) -> None:
    if "deletionTimestamp" in stored.to_dict()["metadata"]:
        client.remove_finalizer(stored, finalizer)
