"""Keep the timestamps of managed fields if nothing else changed.

Upstream: k8s.io/apiserver/pkg/endpoints/handlers/fieldmanager/equality.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stowplan_cluster.apiserver.objects import metadata_of

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.objects import JsonObject


def keep_times(*, old: JsonObject, new: JsonObject) -> None:
    """Copy the old timestamps if nothing else differs, so that the write becomes a no-op."""
    before, after = metadata_of(old).get("managedFields"), metadata_of(new).get("managedFields")
    if before and after and before != after and _timeless(before) == _timeless(after) and _rest_equal(old, new):
        metadata_of(new)["managedFields"] = before


def _timeless(entries: list[JsonObject]) -> list[JsonObject]:
    return [{name: value for name, value in entry.items() if name != "time"} for entry in entries]


def _rest_equal(old: JsonObject, new: JsonObject) -> bool:
    return _without_managed_fields(old) == _without_managed_fields(new)


def _without_managed_fields(obj: JsonObject) -> dict[str, Any]:
    metadata = {name: value for name, value in metadata_of(obj).items() if name != "managedFields"}
    return {**obj, "metadata": metadata}
