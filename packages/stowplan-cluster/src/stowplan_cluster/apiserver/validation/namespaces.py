"""Validate Namespaces: finalizers, and the phase during deletion.

Upstream: pkg/apis/core/validation (ValidateNamespace and its updates).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.kube.api.labels import label_key_errors
from stowplan_cluster.apiserver.validation.fields import Errors, check_texts, invalid
from stowplan_cluster.apiserver.validation.metadata import check_known_finalizer

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.objects import JsonObject


def check_namespace(errors: Errors, namespace: JsonObject) -> None:
    for finalizer in (namespace.get("spec") or {}).get("finalizers") or ():
        _check_finalizer(errors, "spec.finalizers", finalizer)


def check_namespace_update(errors: Errors, namespace: JsonObject, old: JsonObject, subresource: str) -> None:
    if subresource == "finalize":
        for index, finalizer in enumerate((namespace.get("spec") or {}).get("finalizers") or ()):
            _check_finalizer(errors, f"spec.finalizers[{index}]", finalizer)
    elif subresource == "status":
        deleted = (namespace.get("metadata") or {}).get("deletionTimestamp")
        expected, state = ("Terminating", "not empty") if deleted else ("Active", "empty")
        phase = (namespace.get("status") or {}).get("phase", "")
        if phase != expected:
            detail = f"may only be '{expected}' if `deletionTimestamp` is {state}"
            errors.append(invalid("status.Phase", phase, detail))


def _check_finalizer(errors: Errors, path: str, finalizer: str) -> None:
    check_texts(errors, path, finalizer, label_key_errors(finalizer))
    check_known_finalizer(errors, path, finalizer)
