"""NodeResourcesBalancedAllocation's declaration and arguments."""

from collections.abc import Iterator
from typing import ClassVar

from msgspec.structs import replace

from stowplan.kube.api.field_errors import child
from stowplan.kube.config.config_errors import duplicate, invalid
from stowplan.kube.config.declaration import Args, EnabledByDefault, PluginDeclaration
from stowplan.kube.config.features import FeatureGates
from stowplan.kube.config.schema import Slice, Struct, documented, kind
from stowplan.scheduler.in_tree.common.args import RESOURCE_SPEC, ResourceSpec, completed_resources


class NodeResourcesBalancedAllocationArgs(Args, frozen=True):
    schema: ClassVar[Struct] = kind(
        "NodeResourcesBalancedAllocationArgs",
        resources=documented(
            Slice(RESOURCE_SPEC), "Resources that should be used alike on a node, each once and with weight 1."
        ),
    )

    resources: tuple[ResourceSpec, ...] = ()

    def completed(self, features: FeatureGates) -> "NodeResourcesBalancedAllocationArgs":
        return replace(self, resources=completed_resources(self.resources))

    def validate(self, path: str, features: FeatureGates) -> Iterator[str]:
        seen = set()
        for i, resource in enumerate(self.resources):
            resource_path = f"{child(path, 'resources')}[{i}]"
            if resource.name in seen:
                yield duplicate(child(resource_path, "name"), resource.name)
            seen.add(resource.name)
            if resource.weight != 1:
                yield invalid(child(resource_path, "weight"), resource.weight, "must be 1")


DECLARATION = PluginDeclaration(
    name="NodeResourcesBalancedAllocation",
    points=frozenset({"preScore", "score"}),
    default=EnabledByDefault(order=170, weight=1),
    args_type=NodeResourcesBalancedAllocationArgs,
)
