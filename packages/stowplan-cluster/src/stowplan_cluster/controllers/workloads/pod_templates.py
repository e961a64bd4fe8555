"""Create pods from a template, and compute the template hash.

The hash uses upstream's alphabet (without vowels) but another algorithm; a cluster never mixes both. In comparisons of
templates absent, null and empty are equal.

Upstream: pkg/controller/controller_utils.go, pkg/controller/deployment/util.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from stowplan.kube.api.api_errors import ApiError
from stowplan.kube.api.merge_patches import copy_of
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.controllers.client import NORMAL, WARNING, ControllerClient
from stowplan_cluster.controllers.workloads.ownership import owner_reference
from stowplan_cluster.reconcile.pods import PODS, Pod
from stowplan_cluster.reconcile.views import Workload

POD_TEMPLATE_HASH = "pod-template-hash"

ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
MAX_NAME = 253

_encode_sorted = msgspec.json.Encoder(order="sorted").encode
#: Maps, which an API server omits when empty; an empty struct may be significant (`emptyDir: {}`).
_MAPS = ("labels", "annotations", "nodeSelector", "limits", "requests", "matchLabels", "overhead", "data")


def new_pod(owner: Workload, template: JsonObject, *, name: str = "") -> JsonObject:
    """A pod to create; a deep copy that the caller may change. Without a name, one is generated."""
    given, about = template.get("metadata") or {}, owner.metadata
    named = {"name": name} if name else {"generateName": generate_name_of(about.name)}
    metadata: JsonObject = {"namespace": about.namespace, **named}
    metadata |= {field: copy_of(given[field]) for field in ("labels", "annotations", "finalizers") if given.get(field)}
    metadata["ownerReferences"] = [owner_reference(owner)]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": copy_of(template.get("spec") or {})}


def generate_name_of(owner: str) -> str:
    """The generateName of an owner's pods."""
    return f"{owner}-" if len(owner) < MAX_NAME else owner


def hash_of(value: Any, collisions: int = 0) -> str:
    """A short hash of a JSON value; `collisions` changes it."""
    text = _encode_sorted(_canonical(value)) + (str(collisions).encode() if collisions else b"")
    number = int.from_bytes(hashlib.blake2s(text, digest_size=4).digest(), "big")
    return "".join(ALPHABET[ord(digit) % len(ALPHABET)] for digit in str(number))


def same_template(one: JsonObject, other: JsonObject) -> bool:
    """Whether two pod templates are equal, ignoring the hash label."""
    return one == other or _without_hash(_canonical(one)) == _without_hash(_canonical(other))


def same_json(one: Any, other: Any) -> bool:
    return one == other or bool(_canonical(one) == _canonical(other))


def _without_hash(template: JsonObject) -> JsonObject:
    metadata = dict(template.get("metadata") or {})
    labels = {key: value for key, value in (metadata.pop("labels", None) or {}).items() if key != POD_TEMPLATE_HASH}
    if labels:
        metadata["labels"] = labels
    return {**template, "metadata": metadata}


def _canonical(value: Any) -> Any:
    if isinstance(value, dict):
        items = ((key, _canonical(item)) for key, item in value.items())
        return {key: item for key, item in items if not _says_nothing(key, item)}
    if isinstance(value, list):
        return [_canonical(item) for item in value]
    return value


def _says_nothing(key: str, value: Any) -> bool:
    return value is None or value == [] or (value == {} and key in _MAPS)


# Create and delete pods for a workload, and record the events.
#
# Upstream: pkg/controller/controller_utils.go (RealPodControl).


def subject_of(owner: Workload) -> JsonObject:
    """The fields of a workload that an event needs."""
    metadata = owner.metadata
    return {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "metadata": {
            "name": metadata.name,
            "namespace": metadata.namespace,
            "uid": metadata.uid,
            "resourceVersion": metadata.resource_version,
        },
    }


class PodControl:
    def __init__(self, client: ControllerClient) -> None:
        self._client = client

    def create(self, owner: Workload, pod: JsonObject) -> None:
        try:
            created = self._client.create(PODS, pod)
        except ApiError as error:
            self._client.events.record(subject_of(owner), WARNING, "FailedCreate", f"Error creating: {error}")
            raise
        self._client.events.record(subject_of(owner), NORMAL, "SuccessfulCreate", f"Created pod: {created.name}")

    def delete(self, owner: Workload, pod: Pod) -> None:
        try:
            found = self._client.delete(PODS, pod.metadata.namespace, pod.name, uid=pod.uid)
        except ApiError as error:
            self._client.events.record(subject_of(owner), WARNING, "FailedDelete", f"Error deleting: {error}")
            raise
        if found:
            self._client.events.record(subject_of(owner), NORMAL, "SuccessfulDelete", f"Deleted pod: {pod.name}")
