"""LegacyRequestedToCapacityRatio's declaration and arguments."""

from collections.abc import Iterator
from typing import ClassVar

from stowplan.kube.config.declaration import PluginDeclaration
from stowplan.kube.config.schema import Struct, kind
from stowplan.scheduler.in_tree.common.args import (
    RESOURCES,
    SHAPE,
    LegacyAllocationArgs,
    UtilizationShapePoint,
    shape_errors,
)


class LegacyRequestedToCapacityRatioArgs(LegacyAllocationArgs, frozen=True):
    schema: ClassVar[Struct] = kind("LegacyRequestedToCapacityRatioArgs", shape=SHAPE, resources=RESOURCES)

    shape: tuple[UtilizationShapePoint, ...] = ()

    def validate_at_build(self) -> Iterator[str]:
        yield from super().validate_at_build()
        yield from shape_errors("shape", self.shape)


DECLARATION = PluginDeclaration(
    name="LegacyRequestedToCapacityRatio",
    points=frozenset({"score"}),
    args_type=LegacyRequestedToCapacityRatioArgs,
    in_kube_scheduler=False,
)
