"""Put pods together that use the same system calls, so that none can use many that it does not need.

A pod's system calls are those that its seccomp profiles allow. The cost of a node is the number of calls that its
running pods have and the pod lacks, and, for each of these pods, of those that it lacks once the pod is there. Sets of
calls are bit masks.

Parity: a node's pods are told apart by their names alone, whatever their namespaces.

Upstream: pkg/sysched in scheduler-plugins; kubernetes-sigs/security-profiles-operator.
"""

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, ClassVar

import msgspec
import numpy as np

from stowplan.plugins import (
    MAX_SCORE,
    CycleState,
    Handle,
    Ints,
    Mask,
    Nodes,
    PodInfo,
    ScorePlugin,
    SignPlugin,
    custom_resource,
)
from stowplan.plugins.arguments import STRING, Args, FeatureGates, Struct, documented, kind
from stowplan.plugins.objects import SecurityContext
from stowplan_scheduler_plugins.scores import bounds

Profile = custom_resource("seccompprofiles.v1beta1.security-profiles-operator.x-k8s.io")
ANNOTATION = "seccomp.security.alpha.kubernetes.io"
_COUNTED = ("SCMP_ACT_ALLOW", "SCMP_ACT_LOG")
#: The cost of all nodes for a pod without any known system call.
UNKNOWN = np.iinfo(np.int64).max


class SySchedArgs(Args, frozen=True):
    schema: ClassVar[Struct] = kind(
        "SySchedArgs",
        defaultProfileNamespace=documented(STRING, "Namespace of the profile of pods that have none."),
        defaultProfileName=documented(STRING, "Its name."),
    )

    default_profile_namespace: str = ""
    default_profile_name: str = ""

    def completed(self, features: FeatureGates) -> "SySchedArgs":
        return msgspec.structs.replace(
            self,
            default_profile_namespace=self.default_profile_namespace or "default",
            default_profile_name=self.default_profile_name or "all-syscalls",
        )


class SySched(ScorePlugin, SignPlugin):
    name = "SySched"
    short_name = "syscalls"
    args_type = SySchedArgs
    needs_kinds = (Profile,)

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        #: Name of a system call -> its bit.
        self._bits: dict[str, int] = {}
        #: Profile -> version of all profiles, its calls.
        self._known: dict[str, tuple[int, int]] = {}

    def sign_pod(self, pod: PodInfo) -> Mapping[str, Any]:
        return {"profile": _annotated(pod.annotations)}

    def score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Ints:
        own = self._calls_of(pod)
        if not own:
            return np.full(len(nodes), UNKNOWN)
        return np.array([self._cost(own, nodes, i) for i in range(len(nodes))], np.int64)

    def _cost(self, own: int, nodes: Nodes, i: int) -> int:
        running: dict[str, int] = {}
        for other in nodes.pods(i):
            if other.pod.status.phase == "Running" and other.name not in running:
                running[other.name] = self._calls_of(other)
        there = 0
        for calls in running.values():
            there |= calls
        together = there | own
        return (there & ~own).bit_count() + sum((together & ~calls).bit_count() for calls in running.values())

    def normalize(self, state: CycleState, pod: PodInfo, scores: Ints, feasible: Mask) -> Ints:
        _, highest = bounds(scores, feasible)
        if highest in (0, UNKNOWN):
            # Parity: 100 times the largest integer overflows, and leaves nothing to subtract.
            return np.full_like(scores, MAX_SCORE)
        found: Ints = MAX_SCORE - MAX_SCORE * np.minimum(scores, highest) // highest
        return found

    # --- system calls as bits

    def _calls_of(self, pod: PodInfo) -> int:
        found = 0
        for path in _profiles(pod):
            found |= self._allowed_by(*_namespace_and_name(path))
        return found or self._allowed_by(self.args.default_profile_namespace, self.args.default_profile_name)

    def _allowed_by(self, namespace: str, name: str) -> int:
        if not namespace or not name:
            return 0
        objects, key = self.handle.cluster.objects, f"{namespace}/{name}"
        version = objects.version(Profile)
        known = self._known.get(key)
        if known is None or known[0] != version:
            profile, found = objects.get(Profile, key), 0
            for entry in () if profile is None else (profile.content.get("spec") or {}).get("syscalls") or ():
                if entry.get("action") in _COUNTED:
                    for call in entry.get("names") or ():
                        found |= 1 << self._bits.setdefault(call, len(self._bits))
            known = self._known[key] = (version, found)
        return known[1]


def _profiles(pod: PodInfo) -> Iterator[str]:
    """Paths of the pod's profiles: its own, those of its containers, and an annotated one."""
    spec = pod.pod.spec
    for context in (spec.security_context, *(container.security_context for container in spec.containers)):
        yield from _localhost(context)
    yield _annotated(pod.annotations)


def _localhost(context: SecurityContext | None) -> Iterator[str]:
    profile = None if context is None else context.seccomp_profile
    if profile is not None and profile.type == "Localhost":
        yield profile.localhost_profile


def _annotated(annotations: Mapping[str, str]) -> str:
    # The reference takes any one of several.
    return next((path for key, path in sorted(annotations.items()) if ANNOTATION in key), "")


def _namespace_and_name(path: str) -> tuple[str, str]:
    """Of a path such as operator/NAMESPACE/NAME.json."""
    parts = path.split("/")
    if len(parts) < 2:
        return "", ""
    last = parts[-1]
    return parts[-2], last.removesuffix(PurePosixPath(last).suffix)
