"""Which of a profile's plugins pods of a shape are any business of, point by point.

Most pods have neither claims nor gates nor devices, and a plugin that is about those says so once for all pods of a
shape (`Plugin.ignores`). It is then left out where it would only say again that it has nothing to say. A run of
PreFilter, Filter and Score over all nodes asks it nevertheless, as what it skips is counted there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from stowplan.framework.status import PROPAGATED

if TYPE_CHECKING:
    from collections.abc import Callable

    from stowplan.cluster.pod_info import PodShape
    from stowplan.framework.interface import (
        Plugin,
        PreBindPlugin,
        PreEnqueuePlugin,
        PreFilterPlugin,
        PreScorePlugin,
        ReservePlugin,
        SignPlugin,
    )

P = TypeVar("P", bound="Plugin")


class Concerned(NamedTuple):
    signers: tuple[SignPlugin, ...]
    #: The same as bits of a number.
    signing: int
    pre_enqueue: tuple[PreEnqueuePlugin, ...]
    #: Of those whose answer may change with pods of other nodes.
    moving_pre_filters: tuple[PreFilterPlugin, ...]
    moving_pre_scores: tuple[PreScorePlugin, ...]
    reserve: tuple[ReservePlugin, ...]
    pre_bind: tuple[PreBindPlugin, ...]

    def by(self, shape: PodShape) -> Concerned:
        """Those of them that pods of the shape are any business of."""

        def left(plugins: tuple[P, ...]) -> tuple[P, ...]:
            return tuple(plugin for plugin in plugins if not _says(plugin.ignores, shape))

        signing = [not _says(plugin.signs_nothing, shape) for plugin in self.signers]
        return Concerned(
            tuple(plugin for plugin, signs in zip(self.signers, signing, strict=True) if signs),
            sum(1 << i for i, signs in enumerate(signing) if signs),
            left(self.pre_enqueue),
            left(self.moving_pre_filters),
            left(self.moving_pre_scores),
            left(self.reserve),
            left(self.pre_bind),
        )


def _says(question: Callable[[Any], bool], shape: PodShape) -> bool:
    try:
        return question(shape)
    except PROPAGATED:
        raise
    except BaseException:
        # What it makes of such a pod shows when it is asked.
        return False
