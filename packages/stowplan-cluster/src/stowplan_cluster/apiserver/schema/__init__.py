"""Types of API objects, conformance checks and OpenAPI."""

from __future__ import annotations

from stowplan_cluster.apiserver.resources import Resource
from stowplan_cluster.apiserver.schema.conform import conform, drop_newer
from stowplan_cluster.apiserver.schema.parse import built_in
from stowplan_cluster.apiserver.schema.type_model import Struct

__all__ = ["conform", "drop_newer", "schema_of", "struct_named"]


def schema_of(resource: Resource) -> Struct:
    """The type of a built-in kind's objects."""
    return built_in().kinds[resource.api_version, resource.kind]


def struct_named(name: str) -> Struct:
    """By OpenAPI name: `io.k8s.api.core.v1.PodSpec`."""
    return built_in().structs[name]
