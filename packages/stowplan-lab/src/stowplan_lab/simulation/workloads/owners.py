"""Creators of pods: single arrivals, and models of controllers.

    Pod                                      each arrival is a pod
    Deployment, ReplicaSet, StatefulSet      each arrival keeps a number of replicas, and replaces lost ones

DaemonSets are in `daemons`, Jobs in `jobs`, CronJobs in `cron_jobs`, rollouts of Deployments in `deployments`,
StatefulSets in `stateful`. With `models.controllers: false` nothing is replaced.

Upstream: pkg/controller (replicaset, statefulset, daemon).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from random import Random
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from stowplan.kube.api.meta import ApiStruct, OwnerReference, timestamp
from stowplan.kube.api.types import Pod
from stowplan.kube.structs import PlainStruct
from stowplan_cluster.reconcile.pods import Pod as ReportedPod
from stowplan_cluster.reconcile.replica_sets import next_change
from stowplan_cluster.reconcile.views import (
    CronJob,
    DaemonSetSpec,
    DeploymentSpec,
    Job,
    ReplicaSetSpec,
    StatefulSetSpec,
    UpdateStrategy,
)
from stowplan_lab.simulation.definition.amounts import Distribution
from stowplan_lab.simulation.definition.scenario_fields import FailuresSpec
from stowplan_lab.simulation.results.ledger import Entry, Origin, Owner
from stowplan_lab.simulation.simulation_context import SimulationContext

#: kubectl's annotation of a restarted template.
_RESTARTED = "kubectl.kubernetes.io/restartedAt"
#: The hash of a Deployment's first ReplicaSet, which is the only one of a Deployment that is never rolled out.
FIRST = "0"
HASH, REVISION = "pod-template-hash", "controller-revision-hash"
#: Why pods are deleted.
SCALED_DOWN, UPDATED = "scaled down", "updated"


class Template(PlainStruct, frozen=True, kw_only=True):
    """What a workload's manifest specifies."""

    workload: str
    kind: str
    #: As an API server would store it.
    pod: Pod
    #: Of a Deployment, ReplicaSet, StatefulSet or DaemonSet.
    spec: DeploymentSpec | ReplicaSetSpec | StatefulSetSpec | DaemonSetSpec | None = None
    #: minReadySeconds.
    min_ready: float = 0.0
    #: Whether its pods are updated to another template at some time.
    rolls: bool = False
    #: For a Job, and that which a CronJob creates.
    job: Job | None = None
    cron_job: CronJob | None = None
    lifetime: Distribution | None = None
    failures: FailuresSpec | None = None
    #: The spec of each arrival's PodGroup.
    pod_group: Mapping[str, Any] | None = None
    #: Of the workload and of its pods.
    annotations: Mapping[str, str] = MappingProxyType({})
    #: Creates the object that default spreading reads, by name; None: there is none of this kind.
    companion: Callable[[str], ApiStruct] | None = None

    @property
    def replicas(self) -> int:
        replicas: int = getattr(self.spec, "replicas", 1)
        return replicas

    @property
    def update(self) -> UpdateStrategy | None:
        """How its pods are updated to another template; None: never."""
        if not self.rolls or self.spec is None or isinstance(self.spec, ReplicaSetSpec):
            return None
        return self.spec.strategy if isinstance(self.spec, DeploymentSpec) else self.spec.update_strategy

    def origin(self, owner: Owner, chance: Random, on_change: Callable[[Entry], object] | None) -> Origin:
        """Of the next pod."""
        lifetime = None if self.lifetime is None else self.lifetime.draw(chance)
        return Origin(workload=self.workload, lifetime=lifetime, owner=owner, on_change=on_change)

    def owner_named(self, name: str) -> OwnerReference:
        """The reference in the pods."""
        kind = self.kind
        if kind == "Deployment":
            kind, name = "ReplicaSet", f"{name}-{FIRST}"
        return OwnerReference(api_version="apps/v1", kind=kind, name=name, uid=name, controller=True)

    def put_companion(self, context: SimulationContext, name: str) -> None:
        if self.companion is not None:
            self.put(context, self.companion(name))

    def put(self, context: SimulationContext, obj: ApiStruct) -> None:
        """Create an object of the workload's."""
        context.put(obj, f"workload {self.workload}: ")


def named_pod(template: Pod, workload: str, name: str, *, owner: OwnerReference | None = None, again: int = 0) -> Pod:
    """One of many equal pods: they share everything but their names. Only names may collide between workloads.

    `again`: the number of earlier pods of that name.
    """
    metadata = template.metadata
    owners = metadata.owner_references if owner is None else (owner,)
    uid = f"{workload}/{metadata.namespace}/{name}{f'/{again}' if again else ''}"
    return replace(template, metadata=replace(metadata, name=name, uid=uid, owner_references=owners))


class Revisions:
    """The templates of a workload over time. The pods have a label with their revision."""

    def __init__(self, template: Template, label: str) -> None:
        """`label`: the revision label; "" for a workload that is never rolled out."""
        self._label = label
        self._pods: list[Pod] = []
        self.turn_to(template)

    def turn_to(self, template: Template) -> Template:
        """Set the current template. An earlier one becomes its revision again."""
        self.template = template
        if template.pod not in self._pods:
            self._pods.append(template.pod)
        self.current = self._pods.index(template.pod)
        return template

    def roll_out(self, template: Template | None, now: float) -> Template:
        """Set the current template; None: the same again, as after `kubectl rollout restart`."""
        if template is not None:
            return self.turn_to(template)
        pod = self.template.pod
        annotations = {**pod.metadata.annotations, _RESTARTED: timestamp(now)}
        pod = replace(pod, metadata=replace(pod.metadata, annotations=annotations))
        return self.turn_to(replace(self.template, pod=pod))

    def pod(self, revision: int) -> Pod:
        """The pod template of the revision."""
        pod = self._pods[revision]
        if not self.template.rolls:
            return pod
        labels = {**pod.metadata.labels, self._label: str(revision)}
        return replace(pod, metadata=replace(pod.metadata, labels=labels))

    def of(self, entry: Entry | None) -> int:
        """A pod's revision; one that the API server rejected counts as current."""
        if entry is None or not self.template.rolls:
            return self.current
        return int(entry.pod.metadata.labels.get(self._label, self.current))


class Replicated:
    """Keeps a number of pods of one workload."""

    def __init__(
        self,
        context: SimulationContext,
        template: Template,
        name: str,
        chance: Random,
        owner: OwnerReference | None = None,
    ) -> None:
        """`owner`: the reference of its existing pods, if there are any."""
        self._context = context
        self._template = template
        self._name = name
        self._chance = chance
        self._owner = owner or template.owner_named(name)
        self.replicas = template.replicas
        self._set_up()

    def _set_up(self) -> None:
        """Initialize what the kind keeps besides."""

    def begin(self) -> None:
        self._template.put_companion(self._context, self._owner.name)
        self._reconcile()

    def scale(self, replicas: int) -> None:
        self.replicas = replicas
        self._reconcile()

    def _reconcile(self) -> None:
        raise NotImplementedError


class WorkloadController(Replicated):
    """One Deployment or ReplicaSet: it creates pods until there are enough."""

    def _set_up(self) -> None:
        self._made = 0
        #: Name -> UID.
        self._active: dict[str, str] = {}
        #: See `Origin`.
        self._on_change: Callable[[Entry], object] | None = None

    def _is_available(self, name: str) -> bool:
        return self._context.is_available(self._active.get(name, ""), self._template.min_ready)

    def _reconcile(self) -> None:
        self._keep(self.replicas, self._active, self._make)

    def _keep(self, replicas: int, names: Collection[str], make: Callable[[], object], why: str = SCALED_DOWN) -> None:
        """Create or delete pods of one set, whose pods have these names."""
        change = next_change(replicas, len(names), lambda: self._reported(names), lambda: self._reported(self._active))
        for _ in range(change.create):
            make()
        for pod in change.delete:
            self._remove(pod.name, why)

    def _reported(self, names: Iterable[str]) -> list[ReportedPod]:
        return [self._context.reported(name, self._active[name]) for name in names]

    def _remove(self, name: str, why: str = SCALED_DOWN) -> None:
        uid = self._active.pop(name)
        entry = self._context.ledger.of(uid)
        if entry is not None:
            entry.origin = entry.origin.without_owner()
            self._context.delete(entry, why)
        else:
            self._context.refused.drop((uid,))

    def _make(self) -> None:
        self._made += 1
        template = self._template
        name = f"{self._name}-{self._made}"
        self._arrive(named_pod(template.pod, template.workload, name, owner=self._owner))

    def _arrive(self, pod: Pod) -> None:
        self._context.arrive(pod, self.adopt(pod))

    def adopt(self, pod: Pod) -> Origin:
        """A pod that is to arrive is one of its own."""
        self._active[pod.metadata.name] = pod.metadata.uid
        return self._template.origin(self, self._chance, self._on_change)

    def lost(self, entry: Entry) -> None:
        self._active.pop(entry.pod.metadata.name, None)
        self._replace()

    def finished(self, entry: Entry) -> None:
        self._active.pop(entry.pod.metadata.name, None)
        self._replace()

    def _replace(self) -> None:
        models = self._context.models
        if models.controllers and len(self._active) < self.replicas:
            self._context.later(models.controller_delay, self._reconcile)
