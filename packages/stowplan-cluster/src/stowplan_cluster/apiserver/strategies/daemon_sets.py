"""DaemonSets: the template generation.

Upstream: pkg/registry/apps/daemonset/strategy.go, pkg/apis/apps/v1/conversion.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan_cluster.apiserver.defaults.workloads import TEMPLATE_GENERATION
from stowplan_cluster.apiserver.objects import metadata_of
from stowplan_cluster.apiserver.validation.field_errors import same

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.objects import JsonObject


def prepare_update(daemon_set: JsonObject, old: JsonObject, subresource: str) -> None:
    if subresource:
        return
    count = (metadata_of(old).get("annotations") or {}).get(TEMPLATE_GENERATION, "1")
    changed = not same(daemon_set["spec"].get("template"), (old.get("spec") or {}).get("template"))
    annotations = metadata_of(daemon_set).get("annotations") or {}
    annotations[TEMPLATE_GENERATION] = str(int(count) + changed)
    metadata_of(daemon_set)["annotations"] = annotations
