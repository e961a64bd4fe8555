"""A run: equal pods that are tried one after the other, such as those of a rollout or a Job.

Where each of them goes follows from where its predecessors went (`batch_placement.py`), so only the first ones are
evaluated. Nothing but the decision is taken from it: each pod is popped, assumed, reserved and bound as any other.

The invariant: the placement has counted the pods of the run up to the last one, and a pod of the run is decided by it
only if nothing else has happened to the cluster since the decision for the last one than that this pod was counted on
the chosen node. That is read off the numbers that reuse depends on (`columns.py`): the change log has exactly one more
entry, all others are the same, and the last pod is where it was decided to go. So whatever else happens ends the run,
and nobody has to say so: another pod's placement or removal, a node, a nomination, a lookup object, a failed Reserve, a
transaction, or its end (numbers are never used again).
"""

from __future__ import annotations

from stowplan.scheduler.cluster.arrays import Mask
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.engine.evaluation.batch_placement import BatchPlacement
from stowplan.scheduler.engine.evaluation.evaluation import Evaluation

#: A placement costs as much as some decisions without it. So it is only made after this many pods, and whatever ends a
#: run early costs little more than without runs.
WORTHWHILE = 16


class RunOfPods:
    """The pods that were decided last, as long as they are equal and nothing happens in between."""

    def __init__(self, cluster: ClusterState) -> None:
        self._cluster = cluster
        #: The evaluation of the last pod, if it can serve another one, and whether it serves this one, too.
        self._evaluation: Evaluation | None = None
        self._again = False
        #: The last pod, its row, and the numbers as of its decision; None: nothing can go on from it.
        self._pod: PodInfo | None = None
        self._row = -1
        self._position = -1
        self._others = (-1, -1, -1)
        #: How many pods the run has had before this one.
        self._length = 0
        #: What decides for the pod that has begun; None: the run does not, or not yet.
        self.placement: BatchPlacement | None = None

    def begin(self, evaluation: Evaluation, pod: PodInfo) -> None:
        """Begin the decision for a pod: it continues the run, or starts another one."""
        self._again = evaluation is self._evaluation
        last, placement = self._pod, self.placement
        # Nothing goes on if an exception passes through.
        self._pod = self.placement = None
        if not self._again:
            self._evaluation = evaluation if evaluation.reusable else None
        follows = self._again and last is not None and self._follows(last, pod)
        self._length = self._length + 1 if follows else 0
        if follows and placement is not None and placement.place(self._row):
            self.placement = _with_choice(placement)

    def _follows(self, last: PodInfo, pod: PodInfo) -> bool:
        """Whether nothing happened since the last decision but that its pod was placed, and this pod is equal to it."""
        cluster = self._cluster
        if cluster.changes.position != self._position + 1 or pod.shape is not last.shape:
            return False
        placed = cluster.placed(last.uid)
        return (
            placed is not None
            and placed.shape is last.shape
            and cluster.table.row_of.get(placed.node_name) == self._row
            and self._other_numbers() == self._others
        )

    def _other_numbers(self) -> tuple[int, int, int]:
        cluster = self._cluster
        return cluster.table.generation, cluster.objects.total_version, cluster.nominator.version

    def look_ahead(self, evaluation: Evaluation, pod: PodInfo, feasible: Mask) -> BatchPlacement | None:
        """A placement for this pod and the next ones, if that is possible, and the run is long enough to expect more.

        Must directly follow the filtering for this pod.
        """
        if self._length >= WORTHWHILE:
            self._length = 0
            self.placement = _with_choice(evaluation.batch_placement(pod, feasible, (pod.shape,), placed=True))
        return self.placement

    def end(self, pod: PodInfo, node_name: str) -> None:
        """The pod was decided, by the run or not; "": it has no node."""
        if node_name and self._again:
            self._pod, self._row = pod, self._cluster.table.row_of[node_name]
            self._position, self._others = self._cluster.changes.position, self._other_numbers()


def _with_choice(placement: BatchPlacement | None) -> BatchPlacement | None:
    # A single feasible node is not scored, which metrics tell.
    return placement if placement is not None and placement.feasible_count > 1 else None
