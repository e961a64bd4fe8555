"""ControllerRevisions: the pod template history of StatefulSets and DaemonSets.

A revision holds the template as a strategic merge patch of its owner, which `kubectl rollout undo` sends. Rolling back
to an old template makes its revision the newest.

Left out: adopting revisions that have no owner.

Upstream: pkg/controller/history.
"""

# ruff: noqa: RUF012 - msgspec copies a `{}` default for each instance.

from collections.abc import Collection, Sequence
from typing import Any

from stowplan.kube.api.api_errors import AlreadyExists
from stowplan.kube.api.decode import decode_json
from stowplan.kube.api.meta import ApiStruct, Int64, ObjectMeta, controller_of
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.controllers.client import ControllerClient
from stowplan_cluster.controllers.workloads.ownership import owner_reference
from stowplan_cluster.controllers.workloads.pod_templates import hash_of, same_json
from stowplan_cluster.reconcile.views import Key, Workload

CONTROLLER_REVISIONS = "controllerrevisions.apps"
#: The revision label of pods and of a DaemonSet's revisions.
REVISION_HASH = "controller-revision-hash"
HASH = "controller.kubernetes.io/hash"

_MAX_PREFIX = 223


class Revision(ApiStruct, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    revision: Int64 = 0
    data: dict[str, Any] = {}

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def label(self) -> str:
        """The value of its pods' label."""
        labels = self.metadata.labels
        return self.name if HASH in labels else labels.get(REVISION_HASH, "")

    @property
    def template(self) -> JsonObject:
        template: JsonObject = self.data["spec"]["template"]
        return {name: value for name, value in template.items() if name != "$patch"}


class RevisionHistory:
    """The revisions of workloads of one kind; `hash_label` is the label with a revision's hash."""

    def __init__(self, client: ControllerClient, *, hash_label: str) -> None:
        self._client = client
        self._hash_label = hash_label

    def of(self, owner: Workload) -> list[Revision]:
        """The owner's revisions, oldest first."""
        dependents = self._client.store.dependents(owner.metadata.uid)
        found = [decode_json(one.data, Revision) for one in dependents if one.resource == CONTROLLER_REVISIONS]
        mine = [
            one for one in found if (reference := controller_of(one.metadata)) and reference.uid == owner.metadata.uid
        ]
        return sorted(mine, key=lambda one: (one.revision, one.metadata.creation_timestamp or "", one.name))

    def follow(self, owner: Workload, template: JsonObject) -> tuple[Sequence[Revision], Revision, int]:
        """The revisions, that of the template, which is found or created and made the newest, and the collisions."""
        known, collisions = self.of(owner), owner.status.get("collisionCount", 0)
        data = {"spec": {"template": {**template, "$patch": "replace"}}}
        number = known[-1].revision + 1 if known else 1
        equal = next((one for one in reversed(known) if same_json(one.data, data)), None)
        if equal is None:
            return known, *self._create(owner, data, number, collisions)
        return known, equal if equal is known[-1] else self._renumber(equal, number), collisions

    def truncate(self, known: Sequence[Revision], in_use: Collection[str], limit: int) -> None:
        """Delete the oldest unused revisions beyond the limit; `in_use`: the labels of pods."""
        unused = [one for one in known if one.label not in in_use]
        for one in unused[: max(0, len(unused) - limit)]:
            self._client.delete(CONTROLLER_REVISIONS, one.metadata.namespace, one.name, uid=one.metadata.uid)

    def _create(self, owner: Workload, data: JsonObject, number: int, collisions: int) -> tuple[Revision, int]:
        while True:
            obj = self._new(owner, data, number, collisions)
            try:
                stored = self._client.create(CONTROLLER_REVISIONS, obj)
            except AlreadyExists:
                collisions += 1
                continue
            return decode_json(stored.data, Revision), collisions

    def _new(self, owner: Workload, data: JsonObject, number: int, collisions: int) -> JsonObject:
        hashed = hash_of(data, collisions)
        template = data["spec"]["template"]
        labels = (template.get("metadata") or {}).get("labels") or {}
        metadata = {
            "name": f"{owner.metadata.name[:_MAX_PREFIX]}-{hashed}",
            "namespace": owner.metadata.namespace,
            "labels": {**labels, self._hash_label: hashed},
            "annotations": dict(owner.metadata.annotations),
            "ownerReferences": [owner_reference(owner)],
        }
        return {
            "apiVersion": "apps/v1",
            "kind": "ControllerRevision",
            "metadata": metadata,
            "data": data,
            "revision": number,
        }

    def _renumber(self, revision: Revision, number: int) -> Revision:
        metadata = revision.metadata
        stored = self._client.fetch(CONTROLLER_REVISIONS, Key(metadata.namespace, metadata.name, metadata.uid))
        obj = stored.to_dict()
        obj["revision"] = number
        return decode_json(self._client.update(stored, obj).data, Revision)
