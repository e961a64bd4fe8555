"""Which of a profile's plugins pods of a shape are any business of, point by point.

Most pods have neither claims nor devices, and a plugin that is about those promises once for all pods of a shape that
it has nothing to say of them (`skips`, `reserves_nothing`, `signs_nothing`). It is then left out where it would only
say so again. A run of PreFilter and Filter over all nodes asks it nevertheless, as what it skips is noted there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stowplan.framework.interface import ReservePlugin
from stowplan.framework.status import promised

if TYPE_CHECKING:
    from stowplan.cluster.pod_info import PodShape
    from stowplan.framework.interface import Plugin, PreBindPlugin, PreFilterPlugin, SignPlugin


class Concerned(NamedTuple):
    signers: tuple[SignPlugin, ...]
    #: The same as bits of a number.
    signing: int
    #: Of those whose answer may change with pods of other nodes.
    moving_pre_filters: tuple[PreFilterPlugin, ...]
    reserve: tuple[ReservePlugin, ...]
    pre_bind: tuple[PreBindPlugin, ...]

    @classmethod
    def all_of(
        cls,
        signers: tuple[SignPlugin, ...],
        moving_pre_filters: tuple[PreFilterPlugin, ...],
        reserve: tuple[ReservePlugin, ...],
        pre_bind: tuple[PreBindPlugin, ...],
    ) -> Concerned:
        return cls(signers, (1 << len(signers)) - 1, moving_pre_filters, reserve, pre_bind)

    def by(self, shape: PodShape) -> Concerned:
        """Those of them that pods of the shape are any business of."""
        signing = [not promised(lambda plugin=plugin: plugin.signs_nothing(shape)) for plugin in self.signers]  # type: ignore[misc]
        return Concerned(
            tuple(plugin for plugin, signs in zip(self.signers, signing, strict=True) if signs),
            sum(1 << i for i, signs in enumerate(signing) if signs),
            tuple(p for p in self.moving_pre_filters if not promised(lambda p=p: p.skips(shape))),  # type: ignore[misc]
            tuple(p for p in self.reserve if not _reserves_nothing(p, shape)),
            tuple(p for p in self.pre_bind if not _reserves_nothing(p, shape)),
        )


def _reserves_nothing(plugin: Plugin, shape: PodShape) -> bool:
    return isinstance(plugin, ReservePlugin) and promised(lambda: plugin.reserves_nothing(shape))
