"""Avoid peaks of power: prefer the node whose power rises least with the pod.

A node's power is an exponential function of its CPU load, with parameters by node in the arguments. The raw score is
the rise in units of 1e-15; nodes without model or measured load, or that the pod would overload, have 0.

Upstream: pkg/trimaran/peaks in scheduler-plugins.
"""

from collections.abc import Iterator, Sequence
from typing import ClassVar

import msgspec
import numpy as np

from stowplan.plugins import (
    CycleState,
    Explanation,
    Inspection,
    Ints,
    Mask,
    Nodes,
    PodInfo,
    Reads,
)
from stowplan.plugins.arguments import FLOAT64, STRING, Args, Map, Struct, documented, kind, not_omitted, struct
from stowplan_scheduler_plugins.load import Floats, LoadPlugin, Metric, capacity_of_cpu, cpu_load_with, provider_errors
from stowplan_scheduler_plugins.load_sources import CPU, LoadWatcher
from stowplan_scheduler_plugins.scores import highest_to_lowest


class PowerModel(msgspec.Struct, frozen=True):
    k0: float = 0.0
    k1: float = 0.0
    k2: float = 0.0


_POWER_MODEL = struct("PowerModel", k0=not_omitted(FLOAT64), k1=not_omitted(FLOAT64), k2=not_omitted(FLOAT64))


class PeaksArgs(Args, frozen=True):
    # Parity: these two fields are capitalized.
    schema: ClassVar[Struct] = kind(
        "PeaksArgs",
        WatcherAddress=documented(not_omitted(STRING), "URL of a load watcher."),
        NodePowerModel=documented(not_omitted(Map(_POWER_MODEL)), "By node: power is k0 + k1 * e^(k2 * load in %)."),
    )

    watcher_address: str = msgspec.field(default="", name="WatcherAddress")
    node_power_model: dict[str, PowerModel] = msgspec.field(default_factory=dict, name="NodePowerModel")

    @property
    def source(self) -> LoadWatcher:
        return LoadWatcher(self.watcher_address)

    def validate_at_build(self) -> Iterator[str]:
        yield from provider_errors(self.watcher_address, "")


class Peaks(LoadPlugin):
    name = "Peaks"
    args_type = PeaksArgs
    reads = Reads.NODES
    normalizes_by_bounds = True

    def score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Ints:
        percent, load, measured = self._load(pod, nodes)
        k1, k2 = self._models(nodes)
        fits = measured & (load <= 100)
        rise = k1 * (np.exp(k2 * np.where(fits, load, 0.0)) - np.exp(k2 * np.where(fits, percent, 0.0)))
        return np.where(fits, rise * 1e15, 0.0).astype(np.int64)

    def _load(self, pod: PodInfo, nodes: Nodes) -> tuple[Floats, Floats, Mask]:
        """CPU in percent: as measured, and with the pod; and where it was measured."""
        percent, measured = self._measurements.column(nodes, first_cpu)
        requested = float(pod.shape.requests.get("cpu", 0))
        return percent, cpu_load_with(percent, capacity_of_cpu(nodes), requested), measured

    def explanation(self, inspection: Inspection) -> Explanation:
        from stowplan_scheduler_plugins.load_explanation import CpuExplanation

        return CpuExplanation(inspection, self._load(inspection.pod, Nodes(inspection.cluster)))

    def _models(self, nodes: Nodes) -> tuple[Floats, Floats]:
        models, table = self.args.node_power_model, nodes.table

        def columns() -> Floats:
            found = [models.get(name, PowerModel()) for name in table.names]
            return np.array([[model.k1 for model in found], [model.k2 for model in found]])

        k1, k2 = nodes.take(table.memo((self.name, self.handle.profile_name), columns))
        return k1, k2

    def normalize(self, state: CycleState, pod: PodInfo, scores: Ints, feasible: Mask) -> Ints:
        return highest_to_lowest(scores, feasible)


def first_cpu(metrics: Sequence[Metric]) -> tuple[float, bool]:
    found = [metric.value for metric in metrics if metric.type == CPU and metric.operator in ("AVG", "Latest")]
    return (found[0], True) if found else (0.0, False)
