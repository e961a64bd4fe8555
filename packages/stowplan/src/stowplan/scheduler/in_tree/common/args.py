"""Argument types shared by several plugins: weighted resources, score shapes.

Upstream: pkg/scheduler/apis/config/types_pluginargs.go, validation/validation_pluginargs.go.
"""

from collections.abc import Iterator, Sequence

import msgspec
from msgspec.structs import replace

from stowplan.kube.api.field_errors import child
from stowplan.kube.api.labels import label_key_errors
from stowplan.kube.config.config_errors import invalid, required
from stowplan.kube.config.declaration import Args
from stowplan.kube.config.features import FeatureGates
from stowplan.kube.config.schema import INT32, INT64, STRING, Slice, documented, not_omitted, struct

#: The maximum score of a utilization shape point; plugins scale it to their own maximum.
MAX_CUSTOM_PRIORITY_SCORE = 10


class ResourceSpec(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    weight: int = 0


class UtilizationShapePoint(msgspec.Struct, frozen=True, rename="camel"):
    utilization: int = 0  #: percent
    score: int = 0  #: 0..10


RESOURCE_SPEC = struct(
    "ResourceSpec",
    name=documented(not_omitted(STRING), "A resource: cpu, memory, or an extended one."),
    weight=documented(INT64, "Its weight among the resources; 0 means 1.", least=0, most=100, default="1"),
)
SHAPE_POINT = struct(
    "UtilizationShapePoint",
    utilization=documented(
        not_omitted(INT32), "Percent of the resource in use; in ascending order.", least=0, most=100
    ),
    score=documented(not_omitted(INT32), "The score there; between two points, on the line.", least=0, most=10),
)

RESOURCES = documented(Slice(RESOURCE_SPEC), "Resources that count.")
SHAPE = documented(Slice(SHAPE_POINT), "The score of a node by how full it would be, as points of a line.")

_MAX_RESOURCE_WEIGHT = 100

#: Default resources of the resource plugins.
DEFAULT_RESOURCES = (ResourceSpec("cpu", 1), ResourceSpec("memory", 1))


def completed_resources(resources: Sequence[ResourceSpec]) -> tuple[ResourceSpec, ...]:
    return tuple(replace(resource, weight=resource.weight or 1) for resource in resources or DEFAULT_RESOURCES)


def resources_errors(path: str, resources: Sequence[ResourceSpec]) -> Iterator[str]:
    for i, resource in enumerate(resources):
        if not 0 < resource.weight <= _MAX_RESOURCE_WEIGHT:
            reason = f"resource weight of {resource.name} not in valid range (0, {_MAX_RESOURCE_WEIGHT}]"
            yield invalid(child(f"{path}[{i}]", "weight"), resource.weight, reason)


def label_name_errors(path: str, name: str) -> Iterator[str]:
    for reason in label_key_errors(name):
        yield invalid(path, name, reason)


def shape_errors(path: str, shape: Sequence[UtilizationShapePoint]) -> Iterator[str]:
    if not shape:
        yield required(path, "at least one point must be specified")
    yield from _first_disorder(path, shape)
    for i, point in enumerate(shape):
        if not 0 <= point.utilization <= 100:
            yield invalid(child(f"{path}[{i}]", "utilization"), point.utilization, "not in valid range [0, 100]")
        if not 0 <= point.score <= MAX_CUSTOM_PRIORITY_SCORE:
            valid = f"not in valid range [0, {MAX_CUSTOM_PRIORITY_SCORE}]"
            yield invalid(child(f"{path}[{i}]", "score"), point.score, valid)


def _first_disorder(path: str, shape: Sequence[UtilizationShapePoint]) -> Iterator[str]:
    for i in range(1, len(shape)):
        if shape[i - 1].utilization >= shape[i].utilization:
            reason = "values must be sorted in increasing order"
            yield invalid(child(f"{path}[{i}]", "utilization"), shape[i].utilization, reason)
            return


class LegacyAllocationArgs(Args, frozen=True):
    """Arguments of the plugins that score by the allocation of nodes as Kubernetes 1.18 to 1.20 did."""

    resources: tuple[ResourceSpec, ...] = ()

    def completed(self, features: FeatureGates) -> "LegacyAllocationArgs":
        return replace(self, resources=completed_resources(self.resources))

    def validate_at_build(self) -> Iterator[str]:
        return resources_errors("resources", self.resources)
