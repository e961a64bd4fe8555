"""What scores by measured load rest on: what was measured of a node."""

from functools import cached_property

import numpy as np

from stowplan.plugins import Explanation, Inspection, Mask, Nodes
from stowplan_scheduler_plugins.load import Choice, Floats, Measurements, average_of, deviation_of
from stowplan_scheduler_plugins.load_sources import CPU, MEMORY

NOT_MEASURED = "was not measured"


class LoadExplanation(Explanation):
    """Average and deviation of each resource that was measured."""

    def __init__(self, inspection: Inspection, measurements: Measurements) -> None:
        super().__init__(inspection)
        self._measurements = measurements

    @cached_property
    def _measured(self) -> list[tuple[str, tuple[Floats, Mask], tuple[Floats, Mask]]]:
        resources = (("cpu", CPU), ("memory", MEMORY))
        return [(name, self.column(average_of(type_)), self.column(deviation_of(type_))) for name, type_ in resources]

    def column(self, choose: Choice) -> tuple[Floats, Mask]:
        return self._measurements.column(Nodes(self.inspection.cluster), choose)

    def of_score(self, row: int) -> str:
        found = [
            f"{percent(average[row])}" + (f" ± {percent(deviation[row])}" if varies[row] else "") + f" {name}"
            for name, (average, known), (deviation, varies) in self._measured
            if known[row]
        ]
        return f"at {', '.join(found)}" if found else NOT_MEASURED


class CpuExplanation(Explanation):
    """The CPU load of a node, and what it would be with the pod."""

    def __init__(self, inspection: Inspection, load: tuple[Floats, Floats, Mask], target: str = "") -> None:
        """`load`: now, and with the pod, per row in percent; and where it was measured."""
        super().__init__(inspection)
        self._load, self._target = load, target

    def of_score(self, row: int) -> str:
        now, then, known = self._load
        if not known[row]:
            return NOT_MEASURED
        return f"at {percent(now[row])}{self._target}, {percent(then[row])} with the pod"


def percent(value: np.float64 | float) -> str:
    return f"{value:.0f} %"
