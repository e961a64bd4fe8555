"""One simulated kubelet for all nodes: runs, completes and removes bound pods, without containers.

A pod bound to a ready node is checked against the node's free resources (`kubelet_admission.py`), then its status is
set as a kubelet would (`kubelet_status.py`). Pods of Jobs succeed after a second, all others run until they are
deleted; a pod that is being deleted stops at once. Annotations change this:

on a pod
  stowplan.io/start-after: 5s     how long its containers take to start
  stowplan.io/run-for: 30s        they exit after this time
  stowplan.io/exit-code: "1"      with this code; restartPolicy applies
  stowplan.io/stop-after: 10s     how long they take to stop, at most the grace period
on a node
  stowplan.io/kubelet: stopped    the kubelet is down: no lease, nothing starts or ends
  stowplan.io/kubelet: off        so is the machine: containers are lost, and start again when it is back

A node that is removed and created again was off in between.

On a node that is not Ready no pods start, and pod conditions are left unchanged. A node without a Ready condition
becomes Ready. Each lease is renewed every ten seconds, spread over the period, so that thousands of nodes cause an even
load.

Pod statuses skip admission, validation and managed fields, as this server builds them itself; starting a pod costs one
write.

Left out: events (Pulled, Created, Started, …), probes, logs, in-place resizing, image pulls that fail, the periodic
update of a node's status.

Upstream: pkg/kubelet.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import inf
from typing import Any

from stowplan.kube.api.api_errors import NotFound
from stowplan.kube.api.decode import decode_json
from stowplan.kube.api.meta import micro_timestamp, parse_timestamp, timestamp
from stowplan.kube.api.pod import FINISHED, Pod
from stowplan_cluster.apiserver.deletion import DeleteOptions
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.registry import Registry
from stowplan_cluster.apiserver.store import Event, Stored
from stowplan_cluster.controllers.client import NORMAL, WARNING, EventRecorder
from stowplan_cluster.controllers.kubelet import kubelet_node, kubelet_status
from stowplan_cluster.controllers.kubelet.kubelet_admission import Refusal, affinity_refusal, requests_of
from stowplan_cluster.controllers.kubelet.kubelet_hosts import (
    Host,
    Hosts,
    InvalidAnnotation,
    containers_of,
)
from stowplan_cluster.controllers.pods_by_node import NODES, NodeKey, node_of
from stowplan_cluster.reconcile import kubelet
from stowplan_cluster.reconcile.pods import PODS

DEADLINE_EXCEEDED = "DeadlineExceeded"
_DEADLINE_MESSAGE = "Pod was active on the node longer than the specified deadline"


class Kubelet:
    """Keys are nodes and bound pods."""

    def __init__(self, registry: Registry, containers: kubelet.Containers = kubelet.AT_ONCE) -> None:
        """`containers`: how those of pods without annotations behave."""
        self.name = "kubelet"
        self.watches = (NODES, PODS)
        self._registry = registry
        self._store = registry.store
        self._events = EventRecorder(registry, "kubelet")
        self._hosts = Hosts()
        self._default = containers
        #: When the containers of a pod entered their current state; the status has it in whole seconds only.
        self._since: dict[str, float] = {}
        #: When pods were deleted.
        self._deleted: dict[str, float] = {}
        #: Of pods whose containers were restarted.
        self._back_offs: dict[str, kubelet.BackOff] = {}
        #: When each node's lease is due for renewal.
        self._renewals: dict[str, float] = {}

    def keys_of(self, event: Event) -> Sequence[Hashable]:
        return self._hosts.follow(event)

    def reconcile(self, key: Any) -> float | None:
        if isinstance(key, NodeKey):
            return self._sync_node(key.name)
        stored = self._store.get(PODS, key.namespace, key.name)
        if stored is None or stored.uid != key.uid:
            for known in (self._since, self._deleted, self._back_offs):
                known.pop(key.uid, None)
            return None
        host = self._hosts.get(node_of(stored))
        if host is None or host.stopped:
            return None
        return self._sync_pod(stored, host)

    # Nodes

    def _sync_node(self, name: str) -> float | None:
        stored, host = self._store.get(NODES, "", name), self._hosts.get(name)
        if stored is None or host is None or host.stopped:
            self._renewals.pop(name, None)
            return None
        now = self._registry.clock()
        obj = stored.to_dict()
        address, kubernetes = self._hosts.node_address(name), self._registry.catalogue.kubernetes
        if kubelet_node.complete(obj, address=address, kubernetes=kubernetes, now=now):
            self._registry.replace(self._registry.of_storage(NODES), obj)
        due = self._renewals.get(name)
        if due is None or due <= now:
            self._renew_lease(obj, now)
            due = self._renewals[name] = now + kubelet.renewal_interval(name, first=due is None)
        return due - now

    def _renew_lease(self, node: JsonObject, now: float) -> None:
        leases = self._registry.of_storage(kubelet_node.LEASES)
        stored = self._store.get(kubelet_node.LEASES, kubelet_node.LEASE_NAMESPACE, node["metadata"]["name"])
        if stored is None:
            self._registry.create(leases, kubelet_node.LEASE_NAMESPACE, kubelet_node.new_lease(node, now=now))
            return
        lease = stored.to_dict()
        lease["spec"]["renewTime"] = micro_timestamp(now)
        self._registry.replace(leases, lease)

    # Pods

    def _sync_pod(self, stored: Stored, host: Host) -> float | None:
        pod = stored.to_dict()
        pod.setdefault("status", {})
        containers = self._containers(pod)
        if "deletionTimestamp" in pod["metadata"]:
            return self._stop(pod, containers)
        if pod["status"].get("phase") in FINISHED or not host.at_work:
            return None
        if not kubelet_status.is_sound(pod):
            self._hosts.lost.discard(stored.uid)
            self._accept(stored, pod, host, containers)
            return None
        if stored.uid in self._hosts.lost:
            self._hosts.lost.discard(stored.uid)
            self._go_on_after_outage(pod, containers)
            return None
        deadline = self._seconds_to_deadline(pod)
        if deadline is not None and deadline <= 0:
            self._exceed_deadline(pod)
            return None
        after = self._progress(stored, pod, host, containers)
        return min((seconds for seconds in (deadline, after) if seconds is not None), default=None)

    def _accept(self, stored: Stored, pod: JsonObject, host: Host, containers: kubelet.Containers) -> None:
        now = self._now
        name = node_of(stored)
        typed = decode_json(stored.data, Pod)
        room, requests = self._hosts.room(name), requests_of(typed)
        room.remove(stored.uid)
        refusal = room.refusal(requests, host.allocatable) or affinity_refusal(typed, host.labels, name)
        if refusal is not None:
            self._reject(pod, refusal)
            return
        room.add(stored.uid, requests)
        kubelet_status.accept(pod, host_ip=host.address, now=now)
        if containers.start_after:
            self._write(pod)
        else:
            self._run(pod, host)

    def _reject(self, pod: JsonObject, refusal: Refusal) -> None:
        kubelet_status.reject(pod, reason=refusal.reason, message=refusal.message, now=self._now)
        self._write(pod)
        self._events.record(pod, WARNING, refusal.reason, refusal.message)

    def _progress(self, stored: Stored, pod: JsonObject, host: Host, containers: kubelet.Containers) -> float | None:
        """Do what is due for an accepted pod; return the seconds until its next step."""
        state = kubelet_status.state_of(pod)
        if "running" in state:
            left = self._left(pod, containers.run_for, state["running"].get("startedAt"))
            if left is None or left > 0:
                self._refresh(stored, pod)
                return left
            self._exit(pod, containers)
        elif state.get("waiting", {}).get("reason") == kubelet_status.BACK_OFF:
            last = pod["status"]["containerStatuses"][0]["lastState"].get("terminated") or {}
            ended = self._entered(pod, last.get("finishedAt"))
            left = ended + self._back_off(pod).after_run(ended) - self._registry.clock()
            if left > 0:
                return left
            self._restart(pod, containers, ended)
            self._write(pod)
        elif "waiting" in state:
            room = self._hosts.room(node_of(stored))
            if stored.uid not in room:
                # Accepted before this process started.
                room.add(stored.uid, requests_of(decode_json(stored.data, Pod)))
            left = self._left(pod, containers.start_after, pod["status"]["startTime"])
            if left is not None and left > 0:
                return left
            self._run(pod, host)
        return None

    def _run(self, pod: JsonObject, host: Host) -> None:
        if pod["spec"].get("hostNetwork"):
            address = host.address
        else:
            address = self._hosts.pod_address(pod["metadata"]["uid"], host)
        kubelet_status.run(pod, pod_ip=address, now=self._now)
        self._write(pod)

    def _refresh(self, stored: Stored, pod: JsonObject) -> None:
        kubelet_status.refresh(pod, now=self._now)
        if pod["status"] != stored.to_dict()["status"]:
            self._registry.replace(self._registry.of_storage(PODS), pod)

    def _exit(self, pod: JsonObject, containers: kubelet.Containers) -> None:
        code = containers.exit_code
        if kubelet.ends_after_exit(_restart_policy(pod), exit_code=code):
            kubelet_status.end(pod, exit_code=code, now=self._now)
        elif seconds := self._back_off(pod).after_run(self._registry.clock()):
            kubelet_status.back_off(pod, exit_code=code, seconds=seconds, now=self._now)
        else:
            self._restart(pod, containers, self._registry.clock())
        self._write(pod)

    def _restart(self, pod: JsonObject, containers: kubelet.Containers, ended: float) -> None:
        kubelet_status.restart(pod, exit_code=containers.exit_code, now=self._now)
        self._back_offs[pod["metadata"]["uid"]] = self._back_off(pod).restarted(ended, self._registry.clock())

    def _back_off(self, pod: JsonObject) -> kubelet.BackOff:
        return self._back_offs.get(pod["metadata"]["uid"], kubelet.NO_BACK_OFF)

    def _go_on_after_outage(self, pod: JsonObject, containers: kubelet.Containers) -> None:
        """The containers were lost with the node, which is back."""
        self._back_offs.pop(pod["metadata"]["uid"], None)
        if kubelet.ends_after_outage(_restart_policy(pod)):
            kubelet_status.end(pod, exit_code=kubelet.EXIT_CODE_KILLED, now=self._now)
        else:
            kubelet_status.lose(pod, now=self._now)
        self._write(pod)

    def _seconds_to_deadline(self, pod: JsonObject) -> float | None:
        seconds = pod["spec"].get("activeDeadlineSeconds")
        if seconds is None:
            return None
        return parse_timestamp(pod["status"]["startTime"]) + float(seconds) - self._registry.clock()

    def _exceed_deadline(self, pod: JsonObject) -> None:
        kubelet_status.end(
            pod,
            exit_code=kubelet.EXIT_CODE_KILLED,
            now=self._now,
            reason=DEADLINE_EXCEEDED,
            message=_DEADLINE_MESSAGE,
        )
        self._write(pod)
        self._events.record(pod, NORMAL, DEADLINE_EXCEEDED, _DEADLINE_MESSAGE)

    def _stop(self, pod: JsonObject, containers: kubelet.Containers) -> float | None:
        metadata, status = pod["metadata"], pod["status"]
        grace = metadata.get("deletionGracePeriodSeconds") or 0
        # Timestamps have whole seconds.
        begin = parse_timestamp(metadata["deletionTimestamp"]) - grace
        begin = self._deleted.setdefault(metadata["uid"], min(begin + 1.0, self._registry.clock()))
        left = begin + kubelet.seconds_to_stop(containers, grace) - self._registry.clock()
        run = self._seconds_of_run(pod, containers)
        if min(left, run) > 0 and metadata["uid"] not in self._hosts.lost:
            return min(left, run)
        if status.get("phase") not in FINISHED and kubelet_status.is_sound(pod):
            code = kubelet.exit_code_of_stopping(containers, _restart_policy(pod), grace)
            kubelet_status.end(pod, exit_code=containers.exit_code if run < left else code, now=self._now)
            self._write(pod)
        if grace:
            options = DeleteOptions(grace_period_seconds=0, uid=metadata["uid"])
            try:
                self._registry.delete(
                    self._registry.of_storage(PODS), metadata["namespace"], metadata["name"], options=options
                )
            except NotFound:
                return None
        return None

    def _seconds_of_run(self, pod: JsonObject, containers: kubelet.Containers) -> float:
        """Until running containers exit by themselves."""
        if pod["status"].get("phase") in FINISHED or not kubelet_status.is_sound(pod):
            return inf
        running = kubelet_status.state_of(pod).get("running")
        left = None if running is None else self._left(pod, containers.run_for, running.get("startedAt"))
        return inf if left is None else left

    # Time and exit codes

    @property
    def _now(self) -> str:
        return timestamp(self._registry.clock())

    def _write(self, pod: JsonObject) -> None:
        """Write a status in which the containers changed state."""
        self._since[pod["metadata"]["uid"]] = self._registry.clock()
        self._registry.replace(self._registry.of_storage(PODS), pod)

    def _left(self, pod: JsonObject, seconds: float | None, since: str | None) -> float | None:
        """The rest of a duration that started when the containers entered their state."""
        if seconds is None:
            return None
        return self._entered(pod, since) + seconds - self._registry.clock()

    def _entered(self, pod: JsonObject, since: str | None) -> float:
        """When the containers entered their state."""
        known = self._since.get(pod["metadata"]["uid"])
        return known or (parse_timestamp(since) if since else self._registry.clock())

    def _containers(self, pod: JsonObject) -> kubelet.Containers:
        try:
            return containers_of(pod, self._default)
        except InvalidAnnotation as error:
            self._events.record(pod, WARNING, "InvalidAnnotation", str(error))
            return self._default


def _restart_policy(pod: JsonObject) -> str:
    return str(pod["spec"].get("restartPolicy", kubelet.ALWAYS))
