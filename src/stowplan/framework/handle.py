"""What a plugin may ask of the scheduler that runs it.

Upstream: staging/src/k8s.io/kube-scheduler/framework (Handle).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from stowplan.api.types import Pod
    from stowplan.cluster.pod_info import PodInfo
    from stowplan.cluster.state import ClusterState
    from stowplan.config import FeatureGates
    from stowplan.framework.cycle_state import CycleState
    from stowplan.framework.runtime import Framework


class Random(Protocol):
    """The part of `random.Random` that decisions draw on; injected, so that a decision can be repeated."""

    def randrange(self, stop: int, /) -> int: ...


class Handle:
    """The cluster, the profile and the injected sources of chance."""

    def __init__(
        self, *, cluster: ClusterState, profile_name: str, features: FeatureGates, random: Random | None = None
    ) -> None:
        #: Nodes, pods and lookup objects; plugins read, the scheduler writes.
        self.cluster = cluster
        self.profile_name = profile_name
        self.features = features
        #: None: ties go to the first.
        self.random = random
        self._framework: Framework | None = None

    @property
    def framework(self) -> Framework:
        """The profile's framework, to run other plugins with; there once all plugins are built."""
        assert self._framework is not None, "the framework is not built yet"
        return self._framework

    def pod_info(self, pod: Pod) -> PodInfo:
        return self.cluster.pod_info(pod)

    def set_framework(self, framework: Framework) -> None:
        self._framework = framework

    def new_state(self) -> CycleState:
        from stowplan.framework.cycle_state import CycleState

        return CycleState()
