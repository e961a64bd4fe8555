"""The moves that a policy's strategies ask for, each tried with the real scheduler.

Strategies select pods as the descheduler does, one after the other; what earlier ones moved, later ones see. Whether a
pod leaves is not theirs to say: the scheduler must find another node for it. So `nodeFit`, which guesses that, decides
nothing here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from stowplan.ask.offline import Cluster, ClusterError
from stowplan.ask.rebalance.goals import Goal, Progress, Result
from stowplan.ask.rebalance.moves import Moves, Outcome
from stowplan.ask.rebalance.policy.arguments import Arguments, DefaultEvictor
from stowplan.ask.rebalance.policy.evictor import Evict, Evictor
from stowplan.ask.rebalance.policy.pods_in_full import PodsInFull
from stowplan.ask.rebalance.policy.policy_file import BALANCE, DESCHEDULE, Policy, Profile, Strategy
from stowplan.ask.rebalance.policy.snapshot import PolicyPod, Snapshot
from stowplan.kube.api.policy import SYSTEM_PRIORITIES
from stowplan.kube.api.selector_text import parse_label_selector
from stowplan.kube.api.types import PriorityClass

#: Use of nodes, and of pods by their keys, per resource: cpu in millicores, the rest in units.
Measured = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True)
class ByPolicy(Goal):
    """What a DeschedulerPolicy asks for.

    Examples:
        >>> policy = read_policy({"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy"})
        >>> rebalance(cluster, ByPolicy(policy)).moves
        ()
    """

    policy: Policy
    pods: PodsInFull = field(default_factory=PodsInFull)
    #: What nodes, and pods by their keys, use; None: that is not known.
    node_use: Measured | None = None
    pod_use: Measured | None = None

    @property
    def text(self) -> str:
        return f"policy {self.policy.name}"

    def pursue(self, moves: Moves, progress: Progress) -> Result:
        self._check(moves.cluster)
        counts, steps = self.policy.counts(), list(self._steps())
        selector = parse_label_selector(self.policy.node_selector)
        for number, (profile, strategy, arguments) in enumerate(steps):
            snapshot = Snapshot.of_cluster(moves.cluster, self.pods, self.node_use, self.pod_use)
            nodes = [node for node in snapshot.nodes if selector.matches(node.metadata.labels)]
            # As in the descheduler: with one node there is nowhere to go.
            if len(nodes) > 1:
                evictor = Evictor(profile.evictor, snapshot, _tried(moves), counts, judges_fit=False)
                strategy.run(snapshot, nodes, evictor, arguments)
            progress(number + 1, len(steps))
        return Result(met=True)

    def _steps(self) -> Iterator[tuple[Profile, Strategy, Arguments]]:
        """All that select whose pods leave, before those that balance."""
        for point in (DESCHEDULE, BALANCE):
            for profile in self.policy.profiles:
                for strategy, arguments in profile.strategies[point]:
                    yield profile, strategy, arguments

    def _check(self, cluster: Cluster) -> None:
        for profile in self.policy.profiles:
            _check_class(cluster, profile.evictor, self.policy.name)
        if self.policy.metrics and self.node_use is None:
            raise ClusterError(f"{self.policy.name}: metricsUtilization needs measured use, and there is none")


def _check_class(cluster: Cluster, evictor: DefaultEvictor, name: str) -> None:
    wanted = evictor.priority_threshold.name
    if wanted and wanted not in SYSTEM_PRIORITIES and cluster.state.objects.get(PriorityClass, wanted) is None:
        raise ClusterError(f'{name}: priorityThreshold: there is no PriorityClass "{wanted}"')


def _tried(moves: Moves) -> Evict:
    def evict(pod: PolicyPod, reason: str, avoiding: frozenset[str]) -> bool:
        if pod.has_finished:
            return moves.remove(pod.pod, reason) is Outcome.MOVED
        info = moves.cluster.state.placed(pod.pod.metadata.uid or pod.key)
        if info is None or info.pod is not pod.pod:
            return False

        def worthwhile(to: str) -> str:
            return f"the scheduler would put it on {to}, which is to be relieved, too" if to in avoiding else ""

        return moves.move(info, reason, worthwhile) is Outcome.MOVED

    return evict
