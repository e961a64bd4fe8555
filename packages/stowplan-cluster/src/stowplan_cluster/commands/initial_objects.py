"""Load manifests and cluster dumps into a server.

Everything that `kubectl apply` accepts is accepted, in any order: namespaces and CustomResourceDefinitions are created
first, then objects that others refer to. Problems that would fail `kubectl apply` but do not matter here are fixed and
reported:

* missing namespaces are created,
* objects of unknown kinds are skipped.

Server-set fields of a dump are dropped, except uids: pods refer to their owners, and volumes to their claims, by uid.
The status of finished pods is restored, as the kubelet would run them again; pods that were being deleted are deleted
again, with the same grace period. References of a partial dump are fixed, too: missing owners are removed (otherwise
the garbage collector would delete the pods), and missing priority classes are created from the pods' priorities.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from stowplan.kube.api.api_errors import AlreadyExists, ApiError
from stowplan.kube.api.pod import FINISHED
from stowplan.scheduler.framework.explanations.formatting import count, listed
from stowplan_cluster.apiserver.deletion import DeleteOptions
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.registry import Options
from stowplan_cluster.apiserver.resources import Resource

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.api_server import ApiServer

#: Order of creation: kinds needed by admission first, pods last; then quotas, as what exists stays whatever they say.
_FIRST = {
    kind: rank
    for rank, kinds in enumerate(
        (("Namespace",), ("CustomResourceDefinition",), ("PriorityClass", "RuntimeClass", "StorageClass", "Workload"))
    )
    for kind in kinds
}
_LAST = {"Pod": len(_FIRST) + 1, "ResourceQuota": len(_FIRST) + 2, "LimitRange": len(_FIRST) + 2}
_OTHERS = len(_FIRST)
#: Fields that the server sets, or clears when an object is created.
_SET_BY_SERVERS = ("resourceVersion", "managedFields", "selfLink", "generation", "deletionTimestamp")
#: Maximum number of names in a note.
_MAX_NAMES = 5

_Placed = tuple[object, dict[str, Any]]


class InitialObjects:
    """Loads objects into a server. `problems` collects errors, `notes()` information for the user."""

    def __init__(self, server: ApiServer) -> None:
        self.problems: list[str] = []
        self._server = server
        self._kept: Counter[Resource] = Counter()
        self._unknown: Counter[tuple[str, str]] = Counter()
        self._made_namespaces: list[str] = []
        self._made_classes: list[str] = []
        self._without_owner = 0
        self._uids: set[str] = set()

    def add(self, manifests: Iterable[tuple[object, Mapping[str, Any]]]) -> None:
        """Create the objects that do not exist yet; each manifest comes with its source, for errors."""
        # Copy through JSON: the registry modifies its input, which belongs to the caller.
        objects: list[_Placed] = [(place, msgspec.json.decode(msgspec.json.encode(obj))) for place, obj in manifests]
        objects.sort(key=lambda placed: _rank(placed[1]))
        uids = {uid for _, obj in objects if (uid := obj["metadata"].get("uid"))}
        for place, obj in objects:
            with self._problem_at(place):
                self._add(obj, uids)

    def notes(self) -> list[str]:
        """Notes for the user: one per kind that is stored only or skipped, one per kind of fix."""
        notes = []
        if self._made_namespaces:
            made = listed(self._made_namespaces, _MAX_NAMES)
            notes.append(f"made {count(len(self._made_namespaces), 'namespace')} that no file defines: {made}")
        if self._made_classes:
            made = listed(self._made_classes, _MAX_NAMES)
            notes.append(f"made priority classes as pods have them, as no file defines them: {made}")
        if self._without_owner:
            objects = count(self._without_owner, "object")
            notes.append(f"{objects} lost owners that are not in the files: no controller collects or replaces them")
        for resource, number in sorted(self._kept.items(), key=lambda one: (one[0].kind, one[0].group)):
            notes.append(
                f"{_numbered(resource, number)} kept, no controller here reads {'it' if number == 1 else 'them'}"
            )
        for (api_version, kind), number in sorted(self._unknown.items()):
            objects = count(number, "object")
            notes.append(f"{objects} of kind {kind} ({api_version}) left out: no CustomResourceDefinition defines it")
        return notes

    # -- one object ---------------------------------------------------------------------------------------------------

    def _add(self, obj: JsonObject, uids: set[str]) -> None:
        resource = self._resource_of(obj)
        if resource is None:
            self._unknown[obj["apiVersion"], obj["kind"]] += 1
            return
        namespace = (obj["metadata"].get("namespace") or "default") if resource.namespaced else ""
        if namespace:
            self._make_namespace(namespace)
        dumped = _is_dumped(obj)
        status = obj.get("status")
        deleted = "deletionTimestamp" in obj["metadata"]
        grace_period = obj["metadata"].get("deletionGracePeriodSeconds")
        if dumped:
            self._undump(resource, obj, uids)
        # A dump may come from a server that knows more fields than this one.
        options = Options(
            field_manager="kubectl-client-side-apply",
            field_validation="Ignore" if dumped else "Strict",
            keep_uid=dumped,
        )
        try:
            stored = self._server.registry.create(resource, namespace, obj, options=options)
        except AlreadyExists:
            return
        self._uids.add(stored.uid)
        if resource.stored_only or resource.custom:
            self._kept[resource] += 1
        if not dumped or resource.storage != "pods":
            return
        if isinstance(status, dict) and status.get("phase") in FINISHED:
            ended = {**stored.to_dict(), "status": status}
            self._server.registry.update(resource, namespace, stored.name, ended, subresource="status")
        if deleted:
            again = DeleteOptions(grace_period_seconds=grace_period)
            self._server.registry.delete(resource, namespace, stored.name, options=again)

    def _resource_of(self, obj: JsonObject) -> Resource | None:
        """The resource; None for an unknown custom kind; raise ValueError for a misspelled built-in one."""
        api_version, kind = obj["apiVersion"], obj["kind"]
        catalogue = self._server.catalogue
        if unserved := catalogue.unserved(api_version, kind):
            raise ValueError(unserved)
        return catalogue.of_kind(api_version, kind)

    def _make_namespace(self, name: str) -> None:
        if self._server.store.get("namespaces", "", name) is not None:
            return
        self._server.create_all([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}])
        self._made_namespaces.append(name)

    # -- dumps --------------------------------------------------------------------------------------------------------

    def _undump(self, resource: Resource, obj: JsonObject, uids: set[str]) -> None:
        metadata = obj["metadata"]
        for name in _SET_BY_SERVERS:
            metadata.pop(name, None)
        if metadata.get("uid") in self._uids:
            # A copied object under another name: uids must be unique.
            metadata.pop("uid")
        owners = metadata.get("ownerReferences") or []
        known = [owner for owner in owners if owner.get("uid") in uids]
        if len(known) < len(owners):
            self._without_owner += 1
            metadata["ownerReferences"] = known
        if resource.storage == "pods":
            self._undump_pod(obj.get("spec") or {})

    def _undump_pod(self, spec: JsonObject) -> None:
        # Ephemeral containers can only be added to running pods.
        spec.pop("ephemeralContainers", None)
        name, priority = spec.get("priorityClassName"), spec.get("priority")
        classes = self._server.catalogue.of_kind("scheduling.k8s.io/v1", "PriorityClass")
        if not name or priority is None or classes is None or self._server.registry.has(classes, "", name):
            return
        made = {"apiVersion": classes.api_version, "kind": classes.kind, "metadata": {"name": name}, "value": priority}
        if spec.get("preemptionPolicy"):
            made["preemptionPolicy"] = spec["preemptionPolicy"]
        self._server.create_all([made])
        self._made_classes.append(name)

    @contextmanager
    def _problem_at(self, place: object) -> Iterator[None]:
        try:
            yield
        except (ApiError, ValueError) as error:
            self.problems.append(f"{place}: {error}")


def _rank(obj: Mapping[str, Any]) -> int:
    kind = obj["kind"]
    return _LAST.get(kind, _FIRST.get(kind, _OTHERS))


def _is_dumped(obj: Mapping[str, Any]) -> bool:
    metadata = obj["metadata"]
    return bool(metadata.get("uid") or metadata.get("resourceVersion"))


def _numbered(resource: Resource, number: int) -> str:
    """Format a count: `1 NetworkPolicy`, `12 NetworkPolicies`."""
    if number == 1:
        return f"1 {resource.kind}"
    same = 0
    for one, other in zip(resource.kind.lower(), resource.plural, strict=False):
        if one != other:
            break
        same += 1
    return f"{number:,} {resource.kind[:same]}{resource.plural[same:]}"
