"""LegacyNodeResourcesMostAllocated's declaration and arguments."""

from typing import ClassVar

from stowplan.kube.config.declaration import PluginDeclaration
from stowplan.kube.config.schema import Struct, kind
from stowplan.scheduler.in_tree.common.args import RESOURCES, LegacyAllocationArgs


class LegacyNodeResourcesMostAllocatedArgs(LegacyAllocationArgs, frozen=True):
    schema: ClassVar[Struct] = kind("LegacyNodeResourcesMostAllocatedArgs", resources=RESOURCES)


DECLARATION = PluginDeclaration(
    name="LegacyNodeResourcesMostAllocated",
    points=frozenset({"score"}),
    args_type=LegacyNodeResourcesMostAllocatedArgs,
    in_kube_scheduler=False,
)
