"""A verdict beside the cluster that it is about, for everything that wants to know more than the verdict says.

A pod that is placed was judged as if it were not: whoever looks closer must see the same cluster, so an inspection
takes the pod off its node for as long as it lasts. All questions are asked of public columns and by evaluating again;
nothing here knows how a plugin keeps its state.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from stowplan.engine.evaluation.evaluation import Evaluation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from stowplan.cluster.pod_info import PodInfo, PodShape
    from stowplan.explain.verdict import Verdict
    from stowplan.framework.diagnosis import Diagnosis
    from stowplan.framework.runtime import Framework

    Mask = npt.NDArray[np.bool_]
    Rows = npt.NDArray[np.intp]

_SHORT_KEYS = {
    "topology.kubernetes.io/zone": "zone",
    "topology.kubernetes.io/region": "region",
    "kubernetes.io/hostname": "hostname",
}


class Inspection:
    """What an explanation may ask."""

    def __init__(self, framework: Framework, verdict: Verdict) -> None:
        self.framework = framework
        self.verdict = verdict
        self.pod = verdict.pod
        self.diagnosis = verdict.diagnosis
        self.cluster = framework.handle.cluster
        self.table = self.cluster.table

    @property
    def names(self) -> list[str]:
        return self.verdict.names

    @cached_property
    def valid(self) -> Mask:
        return self.table.valid[: self.table.n].copy()

    def of(self, pod: PodInfo) -> Inspection:
        """The same cluster with another version of the pod."""
        other = Inspection(self.framework, self.verdict)
        other.pod, other.diagnosis = pod, self.filtered(pod)
        return other

    @cached_property
    def masks(self) -> dict[str, Mask]:
        """Plugin -> rows that it refuses, also where another plugin did so first."""
        diagnosis = self.diagnosis
        return {} if diagnosis is None else {name: found.mask & self.valid for name, found in diagnosis.filtered}

    def named(self, rows: Rows | Sequence[int]) -> list[str]:
        return [self.names[row] for row in (rows.tolist() if isinstance(rows, np.ndarray) else rows)]

    def filtered(self, pod: PodInfo) -> Diagnosis | None:
        """What filters say of another pod on every node; None when they fail."""
        evaluation = Evaluation(self.framework)
        outcome = evaluation.filter(pod)
        if outcome.error is not None:
            return None
        return outcome.diagnosis or evaluation.diagnosis(outcome.refused)

    def pods_like(self, matches: Callable[[PodShape], bool]) -> list[PodInfo]:
        """Placed pods, on nodes that are there, whose shape answers; asked once a shape."""
        answers: dict[int, bool] = {}
        found = []
        for info in self.cluster.placed_pods():
            key = id(info.shape)
            if key not in answers:
                answers[key] = matches(info.shape)
            if answers[key] and info.row >= 0:
                found.append(info)
        return found

    def domain(self, key: str, row: int) -> str:
        """`zone=a`, or "" on a node without the label; keys that everybody knows go by their last part."""
        column = self.table.label(key)
        code = int(column.codes[row])
        return f"{_SHORT_KEYS.get(key, key)}={column.values[code]}" if code else ""


@contextmanager
def inspecting(framework: Framework, verdict: Verdict) -> Iterator[Inspection]:
    """The cluster as the verdict saw it."""
    state = framework.handle.cluster
    placed = state.placed(verdict.pod.uid) if verdict.current_node else None
    if placed is None:
        yield Inspection(framework, verdict)
        return
    with state.what_if() as world:
        world.evict(placed)
        yield Inspection(framework, verdict)
