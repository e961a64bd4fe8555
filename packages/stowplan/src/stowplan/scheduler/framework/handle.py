"""The handle through which plugins access the scheduler.

There is one handle per profile, passed to every plugin's constructor. What only a running scheduler has is injected;
without it, the handle behaves as if nothing is waiting.

Upstream: staging/src/k8s.io/kube-scheduler/framework (Handle).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from stowplan.kube.api.meta import ApiStruct
from stowplan.kube.api.port import Api
from stowplan.kube.api.types import Pod
from stowplan.kube.config import FeatureGates
from stowplan.kube.metrics.scheduler import SchedulerMetrics
from stowplan.kube.structs import PlainStruct, field
from stowplan.scheduler.cluster.nominator import Nominator
from stowplan.scheduler.cluster.pod_groups import AnyGroup
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.cluster.transaction import Participant
from stowplan.scheduler.cluster.view import NodeInfo, Nodes
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.extender import Extender
from stowplan.scheduler.framework.requests import Request
from stowplan.scheduler.framework.status import Status
from stowplan.scheduler.framework.waiting_pods import PodsInPreBind, WaitingPods


class Random(Protocol):
    """The part of `random.Random` that decisions use; injected, so that decisions are reproducible."""

    def randrange(self, stop: int, /) -> int: ...

    def random(self) -> float: ...


class EventRecorder(Protocol):
    """Records Events about objects. Never blocks and never fails."""

    def event(
        self, regarding: ApiStruct, *, type_: str, reason: str, action: str, note: str, related: ApiStruct | None = None
    ) -> None: ...


class Preemptions(Protocol):
    """The eviction plans that are being carried out."""

    def under_way(self, pod: PodInfo) -> bool:
        """Whether a plan for the pod is still being carried out, so that the pod should not be tried yet."""

    def group_under_way(self, group: AnyGroup) -> bool:
        """Whether a plan for the pod group is still being carried out, so that its pods should not be tried yet."""


def _no_time() -> float:
    return 0.0


class Activation(Protocol):
    """Moves pending pods to the active queue."""

    def activate(self, pods: Sequence[PodInfo], /) -> None: ...

    def activate_group(self, group: str, /) -> None: ...


class ProfileFramework(Protocol):
    """What plugins may ask of the framework of their profile."""

    @property
    def plugins(self) -> Mapping[str, object]:
        """The profile's plugins, by name."""

    def signature(self, pod: PodInfo) -> Any: ...

    def statuses_with_nominated_pods(
        self, state: CycleState, pod: PodInfo, nodes: Nodes
    ) -> Mapping[str, Status] | Status: ...


class RunningScheduler(PlainStruct, frozen=True, kw_only=True, eq=False):
    """What only a running scheduler has, shared by its profiles. By default nothing waits, and time stands still."""

    waiting_pods: WaitingPods = field(default_factory=lambda: WaitingPods(now=_no_time))
    pods_in_pre_bind: PodsInPreBind = field(default_factory=PodsInPreBind)
    activation: Activation | None = None
    preemptions: Preemptions | None = None
    wall_clock: Callable[[], float] = _no_time
    carry_out: Callable[[Request], object] | None = None
    api: Api | None = None


class Handle:
    """Access to the cluster, the profile, waiting pods, and the injected sources of randomness and time."""

    def __init__(
        self,
        *,
        cluster: ClusterState,
        profile_name: str,
        features: FeatureGates,
        random: Random | None = None,
        scheduler: RunningScheduler | None = None,
        extenders: Sequence[Extender] = (),
        event_recorder: EventRecorder | None = None,
        metrics: SchedulerMetrics | None = None,
        in_force: bool = True,
    ) -> None:
        """`in_force`: whether the profile is active from the start; otherwise it is after `take_over`."""
        scheduler = scheduler or RunningScheduler()
        #: Nodes, pods and lookup objects. Read-only for plugins; only the scheduler writes.
        self.cluster = cluster
        self.profile_name = profile_name
        self.features = features
        #: None: ties go to the first node.
        self.random = random
        #: Pods of all profiles that wait on Permit: iterate, `get(uid)`, `reject(uid)`. Offline there are none.
        self.waiting_pods = scheduler.waiting_pods
        #: Pods of all profiles whose PreBind is running: `get(uid)` and `cancel(reason)`.
        self.pods_in_pre_bind = scheduler.pods_in_pre_bind
        #: The API server, for asynchronous points (PreBind, Bind, PostBind); None offline.
        self.api = scheduler.api
        #: None offline.
        self.event_recorder = event_recorder
        #: None offline, where eviction plans are not carried out.
        self.preemptions = scheduler.preemptions
        #: Seconds since the epoch at the start of the current step; constant where time does not pass.
        self.wall_clock = scheduler.wall_clock
        #: None offline, where nothing is counted.
        self.metrics = metrics
        self._activation = scheduler.activation
        self._carry_out = scheduler.carry_out
        self._extenders = tuple(extenders)
        #: What will take part in transactions once the profile is active; None if it already does.
        self._participants: dict[str, Participant] | None = None if in_force else {}
        self._framework: ProfileFramework | None = None

    @property
    def framework(self) -> ProfileFramework:
        """The profile's framework, to run other plugins. Available once all plugins are built."""
        assert self._framework is not None, "the framework is not built yet"
        return self._framework

    def set_framework(self, framework: ProfileFramework) -> None:
        self._framework = framework

    @property
    def nominator(self) -> Nominator:
        """The nominator: which pods are nominated to which node."""
        return self.cluster.nominator

    def node(self, name: str) -> NodeInfo | None:
        """The node of this name, or None. Valid only until the current plugin call returns."""
        row = self.cluster.table.row_of.get(name)
        return None if row is None else Nodes(self.cluster).info(row)

    def nodes(self) -> list[NodeInfo]:
        """All nodes, including the hypothetical state while preemption simulates evictions.

        Valid only until the current plugin call returns.
        """
        view = Nodes(self.cluster)
        return [view.info(i) for i in view.positions()]

    def shared(self, name: str, make: Callable[[ClusterState], Any]) -> Any:
        """What the plugins of all profiles keep about this cluster under a name; made at its first use."""
        kept = self.cluster.kept_by_plugins
        if name not in kept:
            kept[name] = make(self.cluster)
        return kept[name]

    def register_participant(self, name: str, participant: Participant) -> None:
        """Include a plugin's state in cluster transactions (restored on undo) and in dumps."""
        if self._participants is None:
            self.cluster.transactions.register(f"{self.profile_name}/{name}", participant)
        else:
            self._participants[name] = participant

    def take_over(self) -> None:
        """Make the profile active: the registered state of its plugins takes part in transactions from now on."""
        participants, self._participants = self._participants or {}, None
        for name, participant in participants.items():
            self.register_participant(name, participant)

    def pod_info(self, pod: Pod) -> PodInfo:
        return self.cluster.pod_info(pod)

    def activate(self, pods: Iterable[PodInfo]) -> None:
        """Move pending pods to the active queue, whatever they wait for; no-op without a queue."""
        wanted = list(pods)
        if self._activation is not None and wanted:
            self._activation.activate(wanted)

    def activate_group(self, group: str) -> None:
        """Activate the waiting pods of a pod group. No-op for those that are being tried."""
        if self._activation is not None:
            self._activation.activate_group(group)

    def carry_out(self, request: Request) -> None:
        """Send a request without waiting for its outcome, as in Unreserve. Dropped without an API server.

        Only valid within a call from the framework; ignored while a question is answered.
        """
        if self._carry_out is not None:
            self._carry_out(request)

    def extenders(self) -> tuple[Extender, ...]:
        """The configured extenders, in call order; none offline."""
        return self._extenders

    @contextmanager
    def without_extenders(self) -> Iterator[None]:
        before, self._extenders = self._extenders, ()
        try:
            yield
        finally:
            self._extenders = before

    def sign_pod(self, pod: PodInfo) -> Any:
        """A hashable signature, equal for pods that the profile cannot tell apart; None if results cannot be shared."""
        return self.framework.signature(pod)

    def run_filter_plugins_with_nominated_pods(
        self, state: CycleState, pod: PodInfo, nodes: Nodes
    ) -> Mapping[str, Status] | Status:
        """Run the profile's filters over some nodes, with nominated pods added: rejected node names and their statuses.

        PreFilter must have run with `state`. A returned Status is an error that ends the attempt.
        """
        return self.framework.statuses_with_nominated_pods(state, pod, nodes)
