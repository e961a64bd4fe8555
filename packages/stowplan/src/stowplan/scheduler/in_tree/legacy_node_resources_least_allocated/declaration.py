"""LegacyNodeResourcesLeastAllocated's declaration and arguments."""

from typing import ClassVar

from stowplan.kube.config.declaration import PluginDeclaration
from stowplan.kube.config.schema import Struct, kind
from stowplan.scheduler.in_tree.common.args import RESOURCES, LegacyAllocationArgs


class LegacyNodeResourcesLeastAllocatedArgs(LegacyAllocationArgs, frozen=True):
    schema: ClassVar[Struct] = kind("LegacyNodeResourcesLeastAllocatedArgs", resources=RESOURCES)


DECLARATION = PluginDeclaration(
    name="LegacyNodeResourcesLeastAllocated",
    points=frozenset({"score"}),
    args_type=LegacyNodeResourcesLeastAllocatedArgs,
    in_kube_scheduler=False,
)
