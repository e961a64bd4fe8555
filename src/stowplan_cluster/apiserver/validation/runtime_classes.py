"""Validate RuntimeClasses.

Upstream: pkg/apis/node/validation.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from stowplan_cluster.apiserver.validation import names
from stowplan_cluster.apiserver.validation.fields import IMMUTABLE, Errors, check_texts, duplicate, invalid, required
from stowplan_cluster.apiserver.validation.placement import check_tolerations
from stowplan_cluster.apiserver.validation.resources import check_container_resource_name, check_requirements
from stowplan_cluster.apiserver.validation.selectors import check_labels

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.objects import JsonObject

#: What tells tolerations apart.
_KEY = ("key", "operator", "value", "effect")


def check_runtime_class(errors: Errors, obj: JsonObject) -> None:
    handler = obj.get("handler", "")
    if handler:
        check_texts(errors, "handler", handler, names.dns_label(handler))
    else:
        errors.append(required("handler"))
    if (overhead := obj.get("overhead")) is not None:
        check_requirements(
            errors,
            "overhead",
            {"limits": overhead.get("podFixed") or {}},
            name_rule=check_container_resource_name,
            claims=frozenset(),
        )
    if (scheduling := obj.get("scheduling")) is not None:
        check_labels(errors, "scheduling.nodeSelector", scheduling.get("nodeSelector"))
        _check_tolerations(errors, "scheduling.tolerations", scheduling.get("tolerations") or [])


def check_runtime_class_update(errors: Errors, obj: JsonObject, old: JsonObject, subresource: str) -> None:
    if obj.get("handler") != old.get("handler"):
        errors.append(invalid("handler", obj.get("handler"), IMMUTABLE))


def _check_tolerations(errors: Errors, path: str, tolerations: list[JsonObject]) -> None:
    check_tolerations(errors, path, tolerations)
    seen = set()
    for index, toleration in enumerate(tolerations):
        key = json.dumps([toleration.get(name, "") for name in _KEY])
        if key in seen:
            errors.append(duplicate(f"{path}[{index}]", _as_in_go(toleration)))
        seen.add(key)


def _as_in_go(toleration: JsonObject) -> JsonObject:
    """Parity: the reference prints the names of its own struct."""
    texts = {name.capitalize(): toleration.get(name, "") for name in _KEY}
    return {**texts, "TolerationSeconds": toleration.get("tolerationSeconds")}
