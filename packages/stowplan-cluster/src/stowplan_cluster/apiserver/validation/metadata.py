"""Validate ObjectMeta on create and update.

Upstream: k8s.io/apimachinery/pkg/api/validation/objectmeta.go.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from stowplan.kube.api.field_errors import go_quote
from stowplan.kube.api.labels import label_key_errors
from stowplan_cluster.apiserver.deletion import FOREGROUND, ORPHAN
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.validation import names
from stowplan_cluster.apiserver.validation.field_errors import IMMUTABLE, Errors, byte_length
from stowplan_cluster.apiserver.validation.selectors import check_label_key, check_labels

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.validation.names import NameRule

MAX_ANNOTATIONS = 256 * 1024

_IMMUTABLE_FIELDS = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
#: Zero values of the string fields among them; the others are null.
_EMPTY = {"name": "", "namespace": "", "uid": ""}


def check_metadata(
    errors: Errors, metadata: JsonObject, *, namespaced: bool, name_rule: NameRule, judge_prefix: bool = True
) -> None:
    """Validate metadata. `judge_prefix` validates generateName, too, which declaratively validated kinds do not."""
    prefix, name = metadata.get("generateName"), metadata.get("name")
    if prefix and judge_prefix:
        errors.check_texts("metadata.generateName", prefix, name_rule(names.mask_trailing_dash(prefix)))
    if not name:
        errors.required("metadata.name", "name or generateName is required")
    else:
        errors.check_texts("metadata.name", name, name_rule(name))
    _check_namespace(errors, metadata.get("namespace", ""), namespaced)
    errors.check_not_negative("metadata.generation", metadata.get("generation"))
    _check_maps_and_owners(errors, metadata)
    if finalizers := metadata.get("finalizers"):
        _check_finalizers(errors, finalizers)


def _check_namespace(errors: Errors, namespace: str, namespaced: bool) -> None:
    if not namespaced:
        if namespace:
            errors.forbidden("metadata.namespace", "not allowed on this type")
    elif not namespace:
        errors.required("metadata.namespace")
    else:
        errors.check_texts("metadata.namespace", namespace, names.dns_label(namespace))


def _check_maps_and_owners(errors: Errors, metadata: JsonObject) -> None:
    if labels := metadata.get("labels"):
        check_labels(errors, "metadata.labels", labels)
    if annotations := metadata.get("annotations"):
        check_annotations(errors, "metadata.annotations", annotations)
    if owners := metadata.get("ownerReferences"):
        _check_owners(errors, owners)


def check_annotations(errors: Errors, path: str, annotations: dict[str, str] | None) -> None:
    size = 0
    for key, value in (annotations or {}).items():
        size += byte_length(key) + byte_length(value)
        for complaint in label_key_errors(key.lower()):
            errors.invalid(path, key, complaint)
    if size > MAX_ANNOTATIONS:
        errors.too_long(path, MAX_ANNOTATIONS)


def _check_owners(errors: Errors, owners: list[JsonObject]) -> None:
    path, controller = "metadata.ownerReferences", ""
    for owner in owners:
        _check_owner(errors, path, owner)
        if not owner.get("controller"):
            continue
        this = f"{owner.get('kind', '')}/{owner.get('name', '')}"
        if controller:
            detail = (
                'Only one reference can have Controller set to true. Found "true" in references for '
                f"{controller} and {this}"
            )
            errors.invalid(path, owners, detail)
        controller = controller or this


def _check_owner(errors: Errors, path: str, owner: JsonObject) -> None:
    api_version = owner.get("apiVersion", "")
    if not api_version.rpartition("/")[2]:
        errors.invalid(f"{path}.apiVersion", api_version, "version must not be empty")
    for name in ("kind", "name", "uid"):
        if not owner.get(name):
            errors.invalid(f"{path}.{name}", "", "must not be empty")
    if api_version == "v1" and owner.get("kind") == "Event":
        errors.invalid(path, owner, "/v1, Kind=Event is disallowed from being an owner")


def _check_finalizers(errors: Errors, finalizers: list[str]) -> None:
    path = "metadata.finalizers"
    for finalizer in finalizers:
        errors.check_texts(path, finalizer, label_key_errors(finalizer))
    if ORPHAN in finalizers and FOREGROUND in finalizers:
        errors.invalid(path, finalizers, f"finalizer {ORPHAN} and {FOREGROUND} cannot be both set")


def check_known_finalizers(errors: Errors, metadata: JsonObject) -> None:
    for index, finalizer in enumerate(metadata.get("finalizers") or ()):
        check_known_finalizer(errors, f"metadata.finalizers[{index}]", finalizer)


def check_known_finalizer(errors: Errors, path: str, finalizer: str) -> None:
    """Check that a finalizer without a domain is one of Kubernetes' own."""
    if "/" not in finalizer and finalizer not in ("kubernetes", ORPHAN, FOREGROUND):
        detail = "name is neither a standard finalizer name nor is it fully qualified"
        errors.invalid(path, finalizer, detail)


def check_metadata_update(errors: Errors, metadata: JsonObject, old: JsonObject) -> None:
    _check_maps_and_owners(errors, metadata)
    if old.get("deletionTimestamp"):
        _check_no_new_finalizers(errors, metadata.get("finalizers") or [], old.get("finalizers") or [])
    if metadata.get("generation", 0) < old.get("generation", 0):
        errors.invalid("metadata.generation", metadata.get("generation", 0), "must not be decremented")
    for name in _IMMUTABLE_FIELDS:
        if metadata.get(name) != old.get(name):
            _check_immutable(errors, name, metadata.get(name), old.get(name))


def _check_immutable(errors: Errors, name: str, new: object, old: object) -> None:
    empty = _EMPTY.get(name)
    if (new or empty) != (old or empty):
        errors.invalid(f"metadata.{name}", new or empty, IMMUTABLE)


def _check_no_new_finalizers(errors: Errors, new: Sequence[str], old: Sequence[str]) -> None:
    if extra := sorted(set(new) - set(old)):
        listed = ", ".join(go_quote(name) for name in extra)
        detail = (
            f"no new finalizers can be added if the object is being deleted, found new finalizers []string{{{listed}}}"
        )
        errors.forbidden("metadata.finalizers", detail)


def check_template_metadata(errors: Errors, path: str, metadata: JsonObject) -> None:
    """Check a template's metadata: labels and annotations only."""
    check_annotations(errors, f"{path}.annotations", metadata.get("annotations"))
    check_labels(errors, f"{path}.labels", metadata.get("labels"))
    for name in metadata:
        if name not in ("annotations", "labels") and metadata[name]:
            errors.forbidden(f"{path}.{name}", "cannot be set")


# Validate metav1.Condition.
#
# Upstream: k8s.io/apimachinery/pkg/apis/meta/v1/validation (ValidateConditions).

_REASON = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
_REASON_RE = re.compile(_REASON)
_STATUSES = ("False", "True", "Unknown")


def check_conditions(errors: Errors, path: str, conditions: list[JsonObject]) -> None:
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        at, kind = f"{path}[{index}]", condition.get("type", "")
        if kind in seen:
            errors.duplicate(f"{at}.type", kind)
        seen.add(kind)
        check_label_key(errors, f"{at}.type", kind)
        if condition.get("status", "") not in _STATUSES:
            errors.not_supported(f"{at}.status", condition.get("status", ""), _STATUSES)
        if (generation := condition.get("observedGeneration", 0)) < 0:
            detail = "must be greater than or equal to zero"
            errors.invalid(f"{at}.observedGeneration", generation, detail)
        if not condition.get("lastTransitionTime"):
            errors.required(f"{at}.lastTransitionTime")
        _check_reason(errors, f"{at}.reason", condition.get("reason", ""))
        errors.check_length(f"{at}.message", condition.get("message", ""), 32 * 1024)


def _check_reason(errors: Errors, path: str, reason: str) -> None:
    if not reason:
        errors.required(path)
        return
    if not _REASON_RE.fullmatch(reason):
        what = (
            "a condition reason must start with alphabetic character, optionally followed by a string of "
            "alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'"
        )
        examples = "'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', "
        errors.invalid(path, reason, f"{what} (e.g. {examples}regex used for validation is '{_REASON}')")
    errors.check_length(path, reason, 1024)
