"""The last-applied annotation, for migration from client-side to server-side apply.

The manager kubectl may take over the fields that its annotation shows it applied client-side, and keeps the annotation
up to date, so that users can go back. This applies to no other manager.

Upstream: k8s.io/apimachinery/pkg/util/managedfields/internal (lastappliedmanager.go, lastappliedupdater.go).
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from stowplan.kube.api.field_errors import go_json
from stowplan_cluster.apiserver.managed_fields.conformance import complaints_text
from stowplan_cluster.apiserver.managed_fields.field_sets import BadElementError, FieldSet, difference, union
from stowplan_cluster.apiserver.managed_fields.object_comparison import compare
from stowplan_cluster.apiserver.managed_fields.owned_fields import fields_of
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.schema.type_model import Struct

KUBECTL = "kubectl"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

#: Limit on the total size of an object's annotations.
_MAX_ANNOTATION_BYTES = 256 * 1024


def fields_applied_before(live: JsonObject, type: Struct, *, api_version: str) -> FieldSet:
    """The fields that the annotation says were applied and that still have the applied value."""
    text = _annotations(live).get(LAST_APPLIED)
    if not isinstance(text, str) or not text:
        return {}
    try:
        applied = msgspec.json.decode(text)
        if not isinstance(applied, dict) or applied.get("apiVersion") != api_version or complaints_text(applied, type):
            return {}
        changes = compare(applied, live, type)
        return difference(fields_of(applied, type), union(changes.changed, changes.removed))
    except (msgspec.DecodeError, BadElementError, RecursionError):
        return {}


def update_annotation(obj: JsonObject, applied: JsonObject) -> None:
    """Update the annotation to the applied configuration, if the object has one."""
    annotations = _annotations(obj)
    if not annotations.get(LAST_APPLIED):
        return
    annotations[LAST_APPLIED] = _annotation_text(applied)
    size = sum(len(name.encode()) + len(str(value).encode()) for name, value in annotations.items())
    if size > _MAX_ANNOTATION_BYTES:
        del annotations[LAST_APPLIED]


def _annotations(obj: JsonObject) -> dict[str, Any]:
    metadata = obj.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    return annotations if isinstance(annotations, dict) else {}


def _annotation_text(applied: JsonObject) -> str:
    """The configuration without the annotation itself, as Go writes unstructured JSON."""
    annotations = _annotations(applied)
    if LAST_APPLIED in annotations:
        kept = {name: value for name, value in annotations.items() if name != LAST_APPLIED}
        applied = {**applied, "metadata": {**applied["metadata"], "annotations": kept}}
    return go_json(json.loads(json.dumps(applied, sort_keys=True))) + "\n"
