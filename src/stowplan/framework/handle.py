"""The handle that plugins get to the scheduler.

One handle a profile, given to every plugin when it is built. What a live scheduler has and an offline one lacks (a
queue, waiting pods, extenders) is injected; without it the handle answers as a scheduler would in which nothing waits.

Upstream: staging/src/k8s.io/kube-scheduler/framework (Handle).
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from stowplan.cluster.view import Nodes
from stowplan.framework.nominated_pods import statuses_with_nominated_pods
from stowplan.framework.waiting_pods import PodsInPreBind, WaitingPods

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from stowplan.api.meta import ApiStruct
    from stowplan.api.port import Api
    from stowplan.api.types import Pod, PodGroup
    from stowplan.cluster.node_info import NodeInfo
    from stowplan.cluster.nominator import Nominator
    from stowplan.cluster.pod_info import PodInfo
    from stowplan.cluster.state import ClusterState
    from stowplan.cluster.transaction import Participant
    from stowplan.config import FeatureGates
    from stowplan.framework.cycle_state import CycleState
    from stowplan.framework.extender import Extender
    from stowplan.framework.metrics import FrameworkMetrics
    from stowplan.framework.requests import Request
    from stowplan.framework.runtime import Framework
    from stowplan.framework.status import Status


class Random(Protocol):
    """The part of `random.Random` that decisions draw on; injected, so that a decision can be repeated."""

    def randrange(self, stop: int, /) -> int: ...


class EventRecorder(Protocol):
    """Tells users what happened to their objects, as Events in the API; never waits, never fails."""

    def event(
        self, regarding: ApiStruct, *, type_: str, reason: str, action: str, note: str, related: ApiStruct | None = None
    ) -> None: ...


class Preemptions(Protocol):
    """The eviction plans that are being carried out."""

    def under_way(self, pod: PodInfo) -> bool:
        """Whether a plan for the pod is still being carried out, so that the pod need not be tried."""

    def group_under_way(self, group: PodGroup) -> bool:
        """Whether a plan for the pod group is still being carried out, so that its pods need not be tried."""


def _no_time() -> float:
    return 0.0


class Activation(Protocol):
    """Moves pending pods to the active queue."""

    def activate(self, pods: Sequence[PodInfo], /) -> None: ...

    def activate_group(self, group: str, /) -> None: ...


class Handle:
    """The cluster, the profile, what waits, and the injected sources of chance."""

    def __init__(
        self,
        *,
        cluster: ClusterState,
        profile_name: str,
        features: FeatureGates,
        random: Random | None = None,
        activation: Activation | None = None,
        waiting_pods: WaitingPods | None = None,
        pods_in_pre_bind: PodsInPreBind | None = None,
        extenders: Sequence[Extender] = (),
        api: Api | None = None,
        event_recorder: EventRecorder | None = None,
        preemptions: Preemptions | None = None,
        wall_clock: Callable[[], float] | None = None,
        carry_out: Callable[[Request], None] | None = None,
        metrics: FrameworkMetrics | None = None,
        in_force: bool = True,
    ) -> None:
        """`in_force`: whether the profile decides from the beginning; if not, from `take_over` on."""
        #: Nodes, pods and lookup objects; plugins read, the scheduler writes.
        self.cluster = cluster
        self.profile_name = profile_name
        self.features = features
        #: None: ties go to the first.
        self.random = random
        #: Pods that wait on Permit, of all profiles: iterate, `get(uid)`, `reject(uid)`. Offline nobody waits, and the
        #: clock of the default stands still.
        self.waiting_pods = WaitingPods(now=lambda: 0.0) if waiting_pods is None else waiting_pods
        #: Pods whose PreBind runs, of all profiles: `get(uid)` and `cancel(reason)`.
        self.pods_in_pre_bind = PodsInPreBind() if pods_in_pre_bind is None else pods_in_pre_bind
        #: The API server, for what is asynchronous (pre-bind, bind, post-bind); None offline.
        self.api = api
        #: None offline.
        self.event_recorder = event_recorder
        #: None offline, where no eviction plan is carried out.
        self.preemptions = preemptions
        #: Seconds since the epoch, as of the step that is being taken; it stands still where no time passes.
        self.wall_clock: Callable[[], float] = wall_clock or _no_time
        #: None offline: nothing is counted or timed.
        self.metrics = metrics
        self._activation = activation
        self._carry_out = carry_out
        self._extenders = tuple(extenders)
        #: What takes part in transactions once the profile decides; None: it does.
        self._participants: dict[str, Participant] | None = None if in_force else {}
        self._framework: Framework | None = None

    @property
    def framework(self) -> Framework:
        """The profile's framework, to run other plugins with; there once all plugins are built."""
        assert self._framework is not None, "the framework is not built yet"
        return self._framework

    def set_framework(self, framework: Framework) -> None:
        self._framework = framework

    @property
    def nominator(self) -> Nominator:
        """Which pods are nominated to which node."""
        return self.cluster.nominator

    def node(self, name: str) -> NodeInfo | None:
        """The node of that name, None if there is none; valid until the call that asked returns."""
        row = self.cluster.table.row_of.get(name)
        return None if row is None else Nodes(self.cluster).info(row)

    def nodes(self) -> list[NodeInfo]:
        """All nodes as they are, also while preemption tries out evictions; valid until the call that asked returns."""
        view = Nodes(self.cluster)
        return [view.info(i) for i in view.positions()]

    def register_participant(self, name: str, participant: Participant) -> None:
        """Let transactions on the cluster restore what a plugin keeps, and dumps contain it."""
        if self._participants is None:
            self.cluster.transactions.register(f"{self.profile_name}/{name}", participant)
        else:
            self._participants[name] = participant

    def take_over(self) -> None:
        """The profile decides from now on: what its plugins registered takes part in transactions."""
        participants, self._participants = self._participants or {}, None
        for name, participant in participants.items():
            self.register_participant(name, participant)

    def pod_info(self, pod: Pod) -> PodInfo:
        return self.cluster.pod_info(pod)

    def activate(self, pods: Iterable[PodInfo]) -> None:
        """Have pending pods tried soon, if nothing but time keeps them; nothing happens where there is no queue."""
        wanted = list(pods)
        if self._activation is not None and wanted:
            self._activation.activate(wanted)

    def activate_group(self, group: str) -> None:
        """Have the pods of a pod group tried soon that wait; it costs nothing for those that are just being tried."""
        if self._activation is not None:
            self._activation.activate_group(group)

    def carry_out(self, request: Request) -> None:
        """Have a request carried out that nobody waits for, as Unreserve cannot; dropped where there is no API server.

        Only within a call of the framework, and not for questions.
        """
        if self._carry_out is not None:
            self._carry_out(request)

    def extenders(self) -> tuple[Extender, ...]:
        """The configured extenders, in call order; offline there are none."""
        return self._extenders

    @contextmanager
    def without_extenders(self) -> Iterator[None]:
        before, self._extenders = self._extenders, ()
        try:
            yield
        finally:
            self._extenders = before

    def sign_pod(self, pod: PodInfo) -> Any:
        """A hashable value, equal for pods that the profile cannot tell apart; None for a pod like no other."""
        return self.framework.signature(pod)

    def run_filter_plugins_with_nominated_pods(
        self, state: CycleState, pod: PodInfo, nodes: Nodes
    ) -> Mapping[str, Status] | Status:
        """The profile's filters over some nodes, with room left for nominated pods: refused nodes by name, and why.

        `state` is one that PreFilter has been through. A Status is an error that ends the attempt.
        """
        return statuses_with_nominated_pods(self.framework, state, pod, nodes)
