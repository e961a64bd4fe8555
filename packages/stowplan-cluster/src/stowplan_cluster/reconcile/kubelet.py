"""Kubelets: when the containers of a pod start, exit, restart and stop, and when a node's lease is renewed.

All containers of a pod start, exit and restart together. How long that takes, and how they exit, is given.

Upstream: pkg/kubelet.
"""

from __future__ import annotations

import zlib
from enum import Enum
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


class AfterExit(Enum):
    """What follows when containers have exited."""

    ENDS = "the pod ends"
    RESTARTS = "they start again at once"
    BACKS_OFF = "they start again after a back-off"


def after_exit(restart_policy: str, *, exit_code: int, restarts: int) -> AfterExit:
    if restart_policy == NEVER or (restart_policy == ON_FAILURE and not exit_code):
        return AfterExit.ENDS
    return AfterExit.BACKS_OFF if back_off_seconds(restarts) else AfterExit.RESTARTS


def back_off_seconds(restarts: int) -> int:
    """Back-off before the next start; the first restart is immediate."""
    if not restarts:
        return 0
    return int(min(BACK_OFF_SECONDS * 2 ** min(restarts - 1, 16), BACK_OFF_LIMIT_SECONDS))


def after_outage(restart_policy: str) -> AfterExit:
    """What follows when the node comes back on which the containers were lost. Kubelets forget back-offs."""
    return after_exit(restart_policy, exit_code=EXIT_CODE_KILLED, restarts=0)


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
