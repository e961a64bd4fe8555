"""The same workloads in a simulation and on the embedded cluster, compared at each moment at which something happens.

    agree({"web": deployment}, [Scale(3), RollOut({"template": template(200)})])

A change with `seconds` is undone after that time, by `undo`; the scenario's event says so as well.

Pods start `STARTUP` seconds after their creation; the workloads change every `BETWEEN` seconds. A test
of another kind of change passes its own, with `event` (the scenario's) and `apply` (to the embedded cluster).

Compared is what `seen` returns. Other names differ: the API server makes them up.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple, Protocol

from stowplan.kube.api.decode import to_dict
from stowplan.kube.api.merge_patches import merge_patched
from stowplan.kube.api.meta import parse_timestamp, timestamp
from stowplan.kube.api.types import Pod
from stowplan_lab.simulation.simulate import Simulation
from support.live.controller_cluster import START, LiveCluster, target_of, workload
from support.scenarios.manifests import container, group, scenario

#: Seconds from a pod's creation until it runs, and between changes of a workload. Small sums of these and of the tests'
#: other times (13 until a pod is available, 15 between an autoscaler's looks, 19 until a pod is gone) never fall on a
#: change, as what is due at one instant has no order.
STARTUP, BETWEEN = 101, 44
#: Seconds without changes at the end.
QUIET = 2000
#: The kinds with rollouts.
ROLLED = ("Deployment", "StatefulSet", "DaemonSet")
#: The kinds whose pods have stable names.
NAMED = ("StatefulSet",)


class Change(Protocol):
    def event(self) -> dict[str, Any]:
        """As an event of a scenario."""

    def apply(self, cluster: LiveCluster) -> None:
        """Change the embedded cluster."""


class Scale(NamedTuple):
    replicas: int
    kind: str = "Deployment"
    name: str = "web"

    def event(self):
        return {"scale": {"workload": self.name, "replicas": self.replicas}}

    def apply(self, cluster):
        cluster.scale(self.kind, self.name, self.replicas)


class RollOut(NamedTuple):
    #: A patch of the workload's spec.
    spec: dict[str, Any]
    kind: str = "Deployment"
    name: str = "web"

    def event(self):
        return {"rollout": {"workload": self.name, "patch": {"spec": self.spec}}}

    def apply(self, cluster):
        cluster.change(self.kind, self.name, lambda obj: obj.update(merge_patched(obj, {"spec": self.spec})))


def template(cpu, name="web"):
    """Revisions of a template are told apart by the size of their pods."""
    return {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container(f"{cpu}m")]}}


class Seen(NamedTuple):
    owner: str
    cpu: str
    #: Seconds from the start.
    created: float
    running: bool
    #: Only for kinds whose pods have stable names.
    name: str
    #: For pods that belong to a node.
    node: str
    #: The ordinal, or the completion index.
    ordinal: str


def seen(pod, *, created, running):
    metadata = pod["metadata"]
    labels, owners = metadata.get("labels") or {}, metadata.get("ownerReferences") or ({"kind": "", "name": ""},)
    kind = owners[0]["kind"]
    ordinal = labels.get("apps.kubernetes.io/pod-index") or labels.get("batch.kubernetes.io/job-completion-index", "")
    return Seen(
        # A ReplicaSet's name is made up as well.
        owner=kind if kind == "ReplicaSet" else f"{kind} {owners[0]['name']}",
        cpu=pod["spec"]["containers"][0]["resources"]["requests"]["cpu"],
        created=created,
        running=running,
        name=metadata["name"] if kind in NAMED else "",
        node=target_of(pod),
        ordinal=ordinal,
    )


class Simulated:
    """A simulation of these workloads (name -> manifest), stopped at any time."""

    def __init__(self, workloads, changes=(), *, nodes=1, termination=0, models=None, autoscalers=()):
        events = [{"at": place * BETWEEN, **change.event()} for place, change in enumerate(changes, start=1)]
        end = len(events) * BETWEEN + QUIET
        # Without a rollout, a Deployment is modelled as a ReplicaSet, and pods have no revision.
        rolled = [name for name, manifest in workloads.items() if manifest["kind"] in ROLLED]
        self.simulation = Simulation(
            scenario(
                *({"name": name, "manifest": manifest} for name, manifest in workloads.items()),
                groups=[group("node", count=nodes, cpu=100, labels={})],
                events=[*events, *({"at": end, "rollout": {"workload": name}} for name in rolled)],
                duration=end,
                start=timestamp(START),
                autoscalers=list(autoscalers),
                models={"startup": STARTUP, "termination": termination, "controllerDelay": 0, **(models or {})},
            )
        )
        self.simulation.prepare()

    def go_to(self, at):
        """Do everything that happens until this many seconds from the start."""
        context = self.simulation.context
        context.time.advance(max(0.0, context.start + at - context.now))

    def pods(self):
        context = self.simulation.context
        found = (pod for pod in context.store.list(Pod) if not pod.metadata.deletion_timestamp)
        entries = ((pod, context.ledger.of(pod.metadata.uid)) for pod in found)
        return Counter(
            seen(to_dict(pod), created=entry.arrived - context.start, running=entry.starts <= context.now)
            for pod, entry in entries
        )


class Embedded:
    """The workloads on the embedded cluster, whose pods start as those of the simulation do."""

    def __init__(self, workloads, *, nodes=1, termination=0, autoscalers=()):
        self.cluster = LiveCluster()
        self._termination = termination
        #: (when, change)
        self._undone = []
        for number in range(1, nodes + 1):
            self.cluster.add_node(f"node-{number}")
        for name, manifest in workloads.items():
            made = {**workload(manifest["kind"], name), "spec": manifest["spec"]}
            made["metadata"] |= manifest.get("metadata", {})
            self.cluster.create(made)
        for manifest in autoscalers:
            self.cluster.create(manifest)
        self._settle()

    def _settle(self):
        """Until there is nothing to do at this time."""
        while True:
            self.cluster.settle()
            unassigned = [pod for pod in self.cluster.pods() if not pod["spec"].get("nodeName")]
            for pod in unassigned:
                self.cluster.bind(pod["metadata"]["name"], target_of(pod) or "node-1")
            ended = [pod for pod in self._terminating() if ends(pod, self._termination) <= self.passed]
            for pod in ended:
                self.cluster.delete("Pod", pod["metadata"]["name"], grace_period_seconds=0)
            if not ended and not unassigned:
                return

    def _terminating(self):
        return [pod for pod in self.cluster.pods(terminating=True) if "deletionTimestamp" in pod["metadata"]]

    @property
    def passed(self):
        return self.cluster.now - START

    def apply(self, change):
        change.apply(self.cluster)
        if getattr(change, "seconds", None):
            self._undone.append((self.passed + change.seconds, change))
        self._settle()

    def moments(self, until):
        """Go on to each time at which something happens, until then."""
        while True:
            starts = [created(pod) + STARTUP for pod in self.cluster.pods() if is_pending(pod)]
            starts += [ends(pod, self._termination) for pod in self._terminating()]
            starts += [when for when, _ in self._undone]
            due = self.cluster.loop.next_due()
            at = min([until, *starts, *([] if due is None else [due - START])])
            self.cluster.now = max(self.cluster.now, START + at)
            for when, change in self._undone:
                if when <= self.passed:
                    change.undo(self.cluster)
            self._undone = [(when, change) for when, change in self._undone if when > self.passed]
            for pod in self.cluster.pods():
                if is_pending(pod) and created(pod) + STARTUP <= self.passed:
                    self.cluster.set_pod(pod["metadata"]["name"])
            self._settle()
            if at >= until:
                return
            yield at

    def pods(self):
        return Counter(seen(pod, created=created(pod), running=not is_pending(pod)) for pod in self.cluster.pods())


def created(pod):
    return parse_timestamp(pod["metadata"]["creationTimestamp"]) - START


def ends(pod, termination):
    """When a pod that is being deleted is gone; the API server has added its grace period."""
    metadata = pod["metadata"]
    marked = parse_timestamp(metadata["deletionTimestamp"]) - metadata["deletionGracePeriodSeconds"]
    return marked + termination - START


def is_pending(pod):
    return pod["status"]["phase"] == "Pending"


def compare(simulated, embedded, at, when):
    simulated.go_to(at + 0.5)
    assert embedded.pods() == simulated.pods(), when


def agree(workloads, changes=(), *, nodes=1, termination=0, models=None, autoscalers=(), compare=compare):
    """Assert that both have the same pods at each moment; `termination`: seconds until a deleted pod is gone."""
    simulated = Simulated(
        workloads, changes, nodes=nodes, termination=termination, models=models, autoscalers=autoscalers
    )
    embedded = Embedded(workloads, nodes=nodes, termination=termination, autoscalers=autoscalers)
    compare(simulated, embedded, 0, "at the start")
    for place, change in enumerate([*changes, None], start=1):
        until = place * BETWEEN if change else (place - 1) * BETWEEN + QUIET - 100
        for at in embedded.moments(until):
            compare(simulated, embedded, at, f"{at} seconds from the start")
        if change:
            embedded.apply(change)
        compare(simulated, embedded, until, f"after change {place}, {until} seconds from the start")
