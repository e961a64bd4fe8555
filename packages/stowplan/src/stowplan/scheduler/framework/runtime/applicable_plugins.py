"""The plugins of a profile that have to be called for pods of a given shape, per extension point.

Most pods have neither claims nor devices. A plugin for those can declare once for all pods of a shape that it does not
apply to them (`ignores`), and is then not called.
"""

from __future__ import annotations

from typing import NamedTuple

from stowplan.scheduler.cluster.pod_info import PodShape
from stowplan.scheduler.framework.boundary import declares
from stowplan.scheduler.framework.declarations import Plugin, SignPlugin
from stowplan.scheduler.framework.interface import PreBindPlugin, PreFilterPlugin, ReservePlugin


class ApplicablePlugins(NamedTuple):
    signers: tuple[SignPlugin, ...]
    #: The signing plugins as a bit mask.
    signing: int
    #: The PreFilter plugins that would only return Skip.
    skip_filter: frozenset[str]
    #: The PreFilter plugins whose result may change with pods on other nodes.
    cluster_dependent_pre_filters: tuple[PreFilterPlugin, ...]
    reserve: tuple[ReservePlugin, ...]
    pre_bind: tuple[PreBindPlugin, ...]

    @classmethod
    def all_of(
        cls,
        signers: tuple[SignPlugin, ...],
        cluster_dependent_pre_filters: tuple[PreFilterPlugin, ...],
        reserve: tuple[ReservePlugin, ...],
        pre_bind: tuple[PreBindPlugin, ...],
    ) -> ApplicablePlugins:
        signing = (1 << len(signers)) - 1
        return cls(signers, signing, frozenset(), cluster_dependent_pre_filters, reserve, pre_bind)

    def by(self, shape: PodShape, pre_filter: tuple[PreFilterPlugin, ...]) -> ApplicablePlugins:
        """The subset of these plugins that applies to pods of the shape; `pre_filter`: all PreFilter plugins."""
        signing = [not _ignores(plugin, shape) for plugin in self.signers]
        return ApplicablePlugins(
            tuple(plugin for plugin, signs in zip(self.signers, signing, strict=True) if signs),
            sum(1 << i for i, signs in enumerate(signing) if signs),
            frozenset(p.name for p in pre_filter if _ignores(p, shape)),
            tuple(p for p in self.cluster_dependent_pre_filters if not _ignores(p, shape)),
            tuple(p for p in self.reserve if not _ignores(p, shape)),
            tuple(p for p in self.pre_bind if not _ignores(p, shape)),
        )


def _ignores(plugin: Plugin, shape: PodShape) -> bool:
    return declares(plugin.ignores, shape, at=("Ignores", plugin))
