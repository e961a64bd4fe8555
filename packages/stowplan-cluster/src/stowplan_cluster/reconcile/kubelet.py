"""Kubelets: when the containers of a pod start, exit, restart and stop, and when a node's lease is renewed.

All containers of a pod start, exit and restart together. How long that takes, and how they exit, is given.

Upstream: pkg/kubelet.
"""

from __future__ import annotations

import zlib
from math import floor

from stowplan.kube.structs import PlainStruct

LEASE_PERIOD_SECONDS = 10.0
BACK_OFF_SECONDS = 10
BACK_OFF_LIMIT_SECONDS = 300

#: The annotation of a node whose kubelet does not work; or the machine neither, so that containers are lost.
KUBELET = "stowplan.io/kubelet"
STOPPED, OFF = "stopped", "off"

#: Exit codes after SIGTERM and SIGKILL.
EXIT_CODE_TERMINATED = 143
EXIT_CODE_KILLED = 137

ALWAYS, ON_FAILURE, NEVER = "Always", "OnFailure", "Never"


class Containers(PlainStruct, frozen=True):
    """How the containers of a pod behave; times are in seconds."""

    start_after: float = 0.0
    #: None: until they are stopped.
    run_for: float | None = None
    exit_code: int = 0
    stop_after: float = 0.0


AT_ONCE = Containers()


class BackOff(PlainStruct, frozen=True):
    """What a kubelet remembers of the restarts of a pod's containers; the first one is immediate.

    Upstream: k8s.io/client-go/util/flowcontrol/backoff.go.
    """

    #: Before the next restart.
    seconds: int = 0
    #: When they were restarted last.
    since: float = 0.0

    def after_run(self, ended: float) -> int:
        """The seconds from the end of a run until the next one: none after one that was long enough."""
        return 0 if ended - self.since > 2 * BACK_OFF_LIMIT_SECONDS else self.seconds

    def restarted(self, ended: float, now: float) -> BackOff:
        before = self.after_run(ended)
        return BackOff(min(2 * before, BACK_OFF_LIMIT_SECONDS) if before else BACK_OFF_SECONDS, now)


NO_BACK_OFF = BackOff()


def ends_after_exit(restart_policy: str, *, exit_code: int) -> bool:
    """Whether the pod ends when its containers have exited; otherwise they start again."""
    return restart_policy == NEVER or (restart_policy == ON_FAILURE and not exit_code)


def ends_after_outage(restart_policy: str) -> bool:
    """The same when the node comes back on which the containers were lost. Kubelets forget back-offs."""
    return ends_after_exit(restart_policy, exit_code=EXIT_CODE_KILLED)


def seconds_to_stop(containers: Containers, grace: float) -> float:
    """How long the containers run on after their pod is deleted with this grace period."""
    return min(containers.stop_after, grace)


def exit_code_of_stopping(containers: Containers, restart_policy: str, grace: float) -> int:
    """0 or 143 when they stopped in time, 137 when they were killed."""
    if containers.stop_after > grace:
        return EXIT_CODE_KILLED
    return 0 if restart_policy == ALWAYS else EXIT_CODE_TERMINATED


def renewal_interval(node: str, *, first: bool) -> float:
    """Seconds between renewals of a lease. The first are fewer: a hash of the name spreads nodes over the period."""
    return LEASE_PERIOD_SECONDS * (zlib.crc32(node.encode()) / 2**32 if first else 1.0)


def last_renewal(node: str, since: float, now: float) -> float:
    """When the kubelet that has worked since then renewed the node's lease for the last time."""
    second = since + renewal_interval(node, first=True)
    if now < second:
        return since
    return second + floor((now - second) / LEASE_PERIOD_SECONDS) * LEASE_PERIOD_SECONDS
