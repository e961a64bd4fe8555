"""What must hold while a cluster changes randomly, and once it has settled."""

from collections import Counter, defaultdict
from typing import Any

import stowplan
from stowplan.kube.api.decode import decode_json
from stowplan.kube.api.quantity import parse_quantity
from stowplan.kube.api.types import Node, Pod
from stowplan.scheduler.cluster.objects import STORED
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.queue.queued_pod import Place
from support.scheduling.dump import dump
from support.soak.changes import CONFIG, FOREIGN, HOST, ZONE, delaying_plugin

KEYS = (ZONE, HOST, "disk")
FINISHED = ("Succeeded", "Failed")


class Watcher:
    """Observes each write to the store, and each pod that the scheduler assumes; `wrong` collects violations.

    It does not raise: it is called within the code under test, where an exception would be another fault.
    """

    def __init__(self, api, scheduler, faulty):
        self.scheduler = scheduler
        self.faulty = faulty
        self.wrong = []
        #: UID -> the pod's node.
        self.node_of = {}
        #: UIDs of all pods that the scheduler ever assumed.
        self.by_us = set()
        #: UIDs of the pods that the scheduler bound.
        self.bound = set()
        #: UID -> the least CPU that a pod ever requested; node -> the most that it ever had.
        self.least, self.most_cpu = {}, {}
        #: Node -> the existing pods that the scheduler bound to it.
        self.bound_by_us = defaultdict(set)
        self.largest = Counter()
        api.store.on_change(self._written)
        self._assume = scheduler.state.assume
        scheduler.state.assume = self._assumed

    def _check(self, holds, what):
        if not holds:
            self.wrong.append(what)

    # -- writes

    def _written(self, event):
        stored = event.stored
        if stored.resource == "nodes":
            allocatable = stored.to_dict()["status"]["allocatable"]["cpu"]
            self.most_cpu[stored.name] = max(parse_quantity(allocatable), self.most_cpu.get(stored.name, 0))
        elif stored.resource == "pods":
            self._pod_written(event.type, stored, stored.to_dict())

    def _pod_written(self, type_, stored, pod):
        uid, node = stored.uid, pod["spec"].get("nodeName", "")
        cpu = parse_quantity(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"])
        self.least[uid] = min(cpu, self.least.get(uid, cpu))
        was = self.node_of.get(uid, "")
        self._check(not was or node == was, f"{stored.key} was on {was}, is on {node or 'none'}")
        if node and not was:
            self._check(node in self.most_cpu, f"{stored.key} is on {node}, which never was")
            self.node_of[uid] = node
            if self.faulty.binding == uid:
                self._bound_by_us(stored, node)
        if type_ == "DELETED" or pod["status"].get("phase") in FINISHED:
            self.bound_by_us[node].discard(uid)

    def _bound_by_us(self, stored, node):
        """Even if its informers lag, the scheduler knows which pods it has bound itself."""
        self._check(stored.uid in self.by_us, f"{stored.key} is bound without having been assumed")
        self.bound.add(stored.uid)
        self.bound_by_us[node].add(stored.uid)
        # After a failed request it may assume that there is room.
        used = sum(self.least[uid] for uid in self.bound_by_us[node] - self.faulty.in_doubt)
        self._check(used <= self.most_cpu[node], f"{stored.key}: {node} is overcommitted by our own bindings")

    # -- decisions

    def _assumed(self, info, node_name):
        """By the scheduler's own state the node must have room, and the pod must not be on another node."""
        self._assume(info, node_name)
        self.by_us.add(info.uid)
        table = self.scheduler.state.table
        row = table.row_of.get(node_name)
        if row is None:
            self.wrong.append(f"{info.key} goes to {node_name}, which is not there")
            return
        self._check(table.pod_count[row] <= table.allowed_pods[row], f"{info.key}: {node_name} has too many pods")
        for name, amount in info.shape.used.items():
            i = table.resources[name]
            room = table.allocatable[i, row] - table.requested[i, row]
            self._check(not amount or room >= 0, f"{info.key}: {node_name} has not enough {name}")
        self._check(not info.pod.spec.scheduling_gates, f"{info.key} is gated")

    def measure(self):
        """Record the maximum size of everything that grows."""
        scheduler = self.scheduler
        sizes = {
            "stories": len(scheduler.stories),
            "tasks": len(scheduler._effects.tasks),
            "unassigned": len(scheduler.state.pending),
            "statuses": len(scheduler.engine.statuses._known),
            "preemptions": len(scheduler.engine.evictions),
            "events in flight": sum(scheduler.queue.in_flight_events().values()),
            "assumed": len(scheduler.state._assumed),
        }
        for name, size in sizes.items():
            self.largest[name] = max(size, self.largest[name])


def structs(api):
    """Everything in the store that a scheduler reads, decoded, without finished pods."""
    found = []
    kinds: tuple[type[Any], ...] = (Node, Pod, *STORED)
    for kind in kinds:
        resource = api.server.catalogue.of_kind("v1", kind.__name__) or next(
            (r for r in api.server.catalogue if r.kind == kind.__name__), None
        )
        if resource is not None:
            found += [decode_json(stored.data, kind) for stored in api.store.list(resource.storage)]
    return [obj for obj in found if not (isinstance(obj, Pod) and obj.status.phase in FINISHED)]


def equals_a_rebuild(api, state):
    """The scheduler's columns, counters and indexes equal those of a scheduler that has just been started."""
    fresh = ClusterState()
    for obj in structs(api):
        if isinstance(obj, Node):
            fresh.add_node(obj)
        elif not isinstance(obj, Pod):
            fresh.put_object(obj)
        elif obj.spec.node_name:
            fresh.add_pod(obj)
        elif obj.status.nominated_node_name and obj.spec.scheduler_name != FOREIGN:
            fresh.nominator.add(fresh.pod_info(obj), obj.status.nominated_node_name)
    for term in dict(state.matches.items()):
        fresh.matches.slot(term, fresh.pods)
    got, want = dump(state, KEYS), dump(fresh, KEYS)
    for part in want:
        assert got[part] == want[part], part
    nominated = {info.key: name for name in state.nominator.nodes() for info in state.nominator.on(name)}
    wanted = {info.key: name for name in fresh.nominator.nodes() for info in fresh.nominator.on(name)}
    assert nominated == wanted


def nothing_is_under_way(scheduler):
    assert not scheduler.queue.in_flight()
    assert not scheduler.queue.in_flight_events()
    assert not scheduler.state._assumed
    assert not len(scheduler.waiting_pods)
    assert not scheduler.engine.context.pods_in_pre_bind._pods
    assert not scheduler._effects.tasks
    assert not scheduler.engine.statuses._known
    assert not scheduler.busy
    assert not [info.uid for info in scheduler.engine.evictions._preemptions.values() if info.running]
    assert scheduler.queue.counts()["active"] == scheduler.queue.counts()["backoff"] == 0


def every_pod_is_bound_or_rightly_pending(api, scheduler):
    """Checks our pods; a newly started scheduler must find no node for the pending ones."""
    cluster = stowplan.Cluster(structs(api), CONFIG, plugins=[delaying_plugin(None)])
    pending = {}
    for pod in (stored.to_dict() for stored in api.store.list("pods", "")):
        ours = pod["spec"]["schedulerName"] != FOREIGN and pod["status"].get("phase") not in FINISHED
        if ours and not pod["spec"].get("nodeName"):
            pending[f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"] = pod
    assert set(scheduler.state.pending) == set(pending)
    for key, pod in pending.items():
        queued = scheduler.queue.get(key)
        assert queued is not None, f"{key} is lost"
        assert queued.pod.pod.metadata.resource_version == pod["metadata"]["resourceVersion"], f"{key} is out of date"
        assert queued.place is Place.UNSCHEDULABLE, f"{key} is in {queued.place}"
        if pod["spec"].get("schedulingGates"):
            assert queued.gating_plugin == "SchedulingGates"
            continue
        verdict = cluster.explain(key)
        story = "\n".join(scheduler.stories.of(key).lines())
        assert not verdict.node_name, f"{key} would go to {verdict.node_name}\n{story}"
        selected = verdict.preemption and verdict.preemption.selected
        assert not selected, f"{key} could make room on {selected.node_name}\n{story}"
    return len(pending)


def every_outcome_is_reported(api, watcher):
    """Where no request fails, every outcome is in the API: conditions of pending pods, Events of the others."""
    for pod in (stored.to_dict() for stored in api.store.list("pods", "")):
        metadata = pod["metadata"]
        name, uid, node = metadata["name"], metadata["uid"], pod["spec"].get("nodeName", "")
        told = [e for e in _events(api, uid) if e["reason"] == "Scheduled"]
        if uid in watcher.bound:
            note = f"Successfully assigned {metadata['namespace']}/{name} to {node}"
            assert [e["note"] for e in told] == [note]
            continue
        assert not told, f"{name} has an Event about {node}"
        if not node and pod["spec"]["schedulerName"] != FOREIGN:
            (condition,) = [c for c in pod["status"]["conditions"] if c["type"] == "PodScheduled"]
            gated = bool(pod["spec"].get("schedulingGates"))
            reason = "SchedulingGated" if gated else "Unschedulable"
            assert (condition["status"], condition["reason"]) == ("False", reason)
            # Parity: a series has the note of its first event, and counts later ones whatever their note.
            assert gated or [e for e in _events(api, uid) if e["note"] == condition["message"] or e.get("series")]


def _events(api, uid):
    events = (stored.to_dict() for stored in api.store.list("events", ""))
    return [event for event in events if event.get("regarding", {}).get("uid") == uid]
