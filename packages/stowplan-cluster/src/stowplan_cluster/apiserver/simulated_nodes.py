"""Generate simulated nodes from a template.

The template is a Node manifest. In all its strings `{n}` is replaced by the node's number and `{zone}` by the letter of
its zone, of which there are three. A name without `{n}` gets the number appended.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.objects import JsonObject

ZONES = "abc"
_DIGITS = 4

TEMPLATE: Mapping[str, Any] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {
        "name": "node-{n}",
        "labels": {
            "kubernetes.io/arch": "amd64",
            "kubernetes.io/os": "linux",
            "topology.kubernetes.io/region": "region-1",
            "topology.kubernetes.io/zone": "zone-{zone}",
        },
    },
    "status": {
        "capacity": {"cpu": "8", "memory": "32Gi", "ephemeral-storage": "200Gi", "pods": "110"},
    },
}
_HOSTNAME = "kubernetes.io/hostname"


class TemplateError(ValueError):
    """An invalid node template."""


def check_template(template: Mapping[str, Any]) -> None:
    if template.get("apiVersion") != "v1" or template.get("kind") != "Node":
        raise TemplateError(f"expected a Node of apiVersion v1, got {template.get('kind')!r}")
    metadata = template.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        raise TemplateError("metadata.name: missing")


def nodes_of(template: Mapping[str, Any], count: int) -> Iterator[JsonObject]:
    return (node_of(template, number) for number in range(count))


def node_of(template: Mapping[str, Any], number: int) -> JsonObject:
    node: JsonObject = _filled(template, f"{number:0{_DIGITS}}", ZONES[number % len(ZONES)])
    metadata = node["metadata"]
    if "{n}" not in template["metadata"]["name"]:
        metadata["name"] += f"-{number:0{_DIGITS}}"
    metadata["labels"] = {_HOSTNAME: metadata["name"], **(metadata.get("labels") or {})}
    return node


def _filled(value: Any, number: str, zone: str) -> Any:
    if isinstance(value, str):
        return value.replace("{n}", number).replace("{zone}", zone)
    if isinstance(value, dict):
        return {_filled(key, number, zone): _filled(item, number, zone) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, number, zone) for item in value]
    return value
