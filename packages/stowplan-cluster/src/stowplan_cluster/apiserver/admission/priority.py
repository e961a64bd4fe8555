"""Priority: set a pod's priority from its PriorityClass.

Upstream: plugin/pkg/admission/priority.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan_cluster.apiserver.admission.cluster import Plugin, refusal

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.objects import JsonObject
    from stowplan_cluster.apiserver.resources import Resource

_CLASSES = "priorityclasses.scheduling.k8s.io"
_POD_GROUPS = "podgroups.scheduling.k8s.io"
_MARK = b'"globalDefault":true'
_NO_CLASS: JsonObject = {"metadata": {"name": ""}, "value": 0, "preemptionPolicy": "PreemptLowerPriority"}


class Priority(Plugin):
    name = "Priority"
    handles = frozenset({"pods", _CLASSES, _POD_GROUPS})

    def create(self, resource: Resource, obj: JsonObject) -> None:
        if resource.storage == _CLASSES:
            self._check_default(resource, obj, new=True)
        elif resource.storage == _POD_GROUPS:
            self._admit_group(resource, obj)
        else:
            self._admit_pod(resource, obj)

    def update(self, resource: Resource, obj: JsonObject, old: JsonObject) -> None:
        if resource.storage == _CLASSES:
            self._check_default(resource, obj, new=False)
        elif resource.storage == "pods":
            spec, old_spec = obj["spec"], old.get("spec") or {}
            for name in ("priority", "preemptionPolicy"):
                if spec.get(name) is None and old_spec.get(name) is not None:
                    spec[name] = old_spec[name]

    def _admit_pod(self, resource: Resource, pod: JsonObject) -> None:
        spec = pod["spec"]
        found = self._class_of(resource, pod)
        priority, policy = found.get("value", 0), found.get("preemptionPolicy")
        given, given_policy = spec.get("priority"), spec.get("preemptionPolicy")
        computed = "priority admission controller computed {} from the given PriorityClass name"
        if given is not None and given != priority:
            why = f"the integer value of priority ({given}) must not be provided in pod spec; "
            raise refusal(resource, pod, why + computed.format(priority))
        if policy is not None and given_policy is not None and given_policy != policy:
            why = f"the string value of PreemptionPolicy ({given_policy}) must not be provided in pod spec; "
            raise refusal(resource, pod, why + computed.format(policy))
        _name_class(spec, found)
        spec["priority"] = priority
        if policy is not None:
            spec["preemptionPolicy"] = policy

    def _admit_group(self, resource: Resource, group: JsonObject) -> None:
        spec = group["spec"]
        found = self._class_of(resource, group)
        priority, given = found.get("value", 0), spec.get("priority")
        if given is not None and given != priority:
            why = (
                f"priority set in the pod group ({given}) must match the priority computed ({priority}) "
                "based on the priority class set in the spec"
            )
            raise refusal(resource, group, why)
        _name_class(spec, found)
        spec["priority"] = priority

    def _class_of(self, resource: Resource, obj: JsonObject) -> JsonObject:
        name = obj["spec"].get("priorityClassName")
        if not name:
            return self._default_class() or _NO_CLASS
        stored = self._lookup(_CLASSES, "", name)
        if stored is None:
            raise refusal(resource, obj, f"no PriorityClass with name {name} was found")
        return stored.to_dict()

    def _default_class(self) -> JsonObject | None:
        """The class marked as global default; if a race left several, the lowest."""
        # Runs for every pod: decode only classes that can be the default.
        classes = (stored.to_dict() for stored in self._list(_CLASSES) if _MARK in stored.data)
        marked = [found for found in classes if found.get("globalDefault")]
        return min(marked, key=lambda found: found.get("value", 0), default=None)

    def _check_default(self, resource: Resource, priority_class: JsonObject, *, new: bool) -> None:
        default = self._default_class() if priority_class.get("globalDefault") else None
        if default is None:
            return
        name = default["metadata"]["name"]
        if new or name != priority_class["metadata"].get("name"):
            why = f"PriorityClass {name} is already marked as default. Only one default can exist"
            raise refusal(resource, priority_class, why)


def _name_class(spec: JsonObject, found: JsonObject) -> None:
    if name := found["metadata"]["name"]:
        spec["priorityClassName"] = name
