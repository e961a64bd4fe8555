"""Validate references to objects of any kind.

Upstream: pkg/apis/networking/validation, pkg/apis/autoscaling/validation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan_cluster.apiserver.validation import names
from stowplan_cluster.apiserver.validation.fields import Errors, check_texts, required

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.objects import JsonObject


def check_kind_and_name(errors: Errors, path: str, reference: JsonObject) -> None:
    for field in ("kind", "name"):
        value = reference.get(field, "")
        if not value:
            errors.append(required(f"{path}.{field}"))
        else:
            check_texts(errors, f"{path}.{field}", value, names.path_segment(value))
