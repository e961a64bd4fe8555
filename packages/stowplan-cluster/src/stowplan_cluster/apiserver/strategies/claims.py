"""PersistentVolumes and claims: phase transition times, and dataSource against dataSourceRef.

Upstream: pkg/registry/core/persistentvolume, pkg/registry/core/persistentvolumeclaim.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.kube.api.timestamps import timestamp

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.objects import JsonObject


def prepare_new_volume(volume: JsonObject, now: float) -> None:
    volume["status"] = {"phase": "Pending", "lastPhaseTransitionTime": timestamp(now)}


def prepare_new_claim(claim: JsonObject, now: float) -> None:
    _match_data_sources(claim["spec"])


def prepare_claim_update(claim: JsonObject, old: JsonObject, subresource: str) -> None:
    if not subresource:
        _match_data_sources(claim["spec"])


def _match_data_sources(spec: JsonObject) -> None:
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None and reference is None:
        spec["dataSourceRef"] = dict(source)
    elif reference is not None and source is None and not reference.get("namespace"):
        spec["dataSource"] = {name: reference[name] for name in ("apiGroup", "kind", "name") if name in reference}
