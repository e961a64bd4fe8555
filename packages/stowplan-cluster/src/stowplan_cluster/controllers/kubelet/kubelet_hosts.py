"""Per-node state of the simulated kubelet: health, pods, free resources and addresses.

All state is derived from the store's changes, so a new process continues where the last one stopped.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from ipaddress import ip_network

from stowplan.kube.api.decode import decode_json
from stowplan.kube.api.durations import parse_duration
from stowplan.kube.api.pod import FINISHED, Pod
from stowplan.kube.structs import PlainStruct
from stowplan_cluster.apiserver.objects import JsonObject, is_true
from stowplan_cluster.apiserver.store import Event, Stored
from stowplan_cluster.controllers.kubelet import kubelet_node
from stowplan_cluster.controllers.kubelet.kubelet_admission import Room, allocatable_of, requests_of
from stowplan_cluster.controllers.pods_by_node import NODES, NodeKey, PodsByNode, key_of, node_of
from stowplan_cluster.reconcile.kubelet import KUBELET, OFF, STOPPED, Containers

# Annotations that control how simulated containers behave.
#
# They are parsed together: if one is invalid, the pod runs as if it had none.

START_AFTER = "stowplan.io/start-after"
RUN_FOR = "stowplan.io/run-for"
EXIT_CODE = "stowplan.io/exit-code"
STOP_AFTER = "stowplan.io/stop-after"

#: How long pods of Jobs run by default.
JOB_SECONDS = 1.0
_MAX_EXIT_CODE = 255
_DIGITS = re.compile("[0-9]{1,3}")


class InvalidAnnotation(ValueError):
    """The message names annotation, value and expected format."""


def containers_of(pod: JsonObject, default: Containers) -> Containers:
    """How the pod's containers behave: by its annotations, or else as all others."""
    annotations = pod["metadata"].get("annotations") or {}
    run_for = JOB_SECONDS if _is_of_job(pod) else default.run_for
    return Containers(
        start_after=_seconds(annotations, START_AFTER, default.start_after) or 0.0,
        run_for=_seconds(annotations, RUN_FOR, run_for),
        exit_code=_exit_code(annotations),
        stop_after=_seconds(annotations, STOP_AFTER, default.stop_after) or 0.0,
    )


def _is_of_job(pod: JsonObject) -> bool:
    references = pod["metadata"].get("ownerReferences") or ()
    return any(one.get("controller") and one.get("kind") == "Job" for one in references)


def _seconds(annotations: dict[str, str], name: str, default: float | None) -> float | None:
    text = annotations.get(name)
    if text is None:
        return default
    try:
        seconds = parse_duration(text).seconds
    except ValueError as error:
        raise InvalidAnnotation(f"annotation {name}: {error}; write it as 30s or 1m30s") from None
    if seconds < 0:
        raise InvalidAnnotation(f"annotation {name}: {text!r} is negative")
    return seconds


def _exit_code(annotations: dict[str, str]) -> int:
    text = annotations.get(EXIT_CODE, "0")
    if not _DIGITS.fullmatch(text) or int(text) > _MAX_EXIT_CODE:
        raise InvalidAnnotation(f"annotation {EXIT_CODE}: {text[:64]!r} is not a number from 0 to {_MAX_EXIT_CODE}")
    return int(text)


# Deterministic IP addresses for simulated nodes and pods; none is assigned twice.
#
# A pool iterates over its network and wraps around, so a released address is not reused at once. Pools may overlap:
# they share the set of taken addresses.


def is_network(text: str) -> bool:
    try:
        ip_network(text, strict=False)
    except ValueError:
        return False
    return True


class AddressPool:
    def __init__(self, network: str, taken: set[str]) -> None:
        self._network = ip_network(network, strict=False)
        #: Excludes the network address and the broadcast address.
        self._size = max(self._network.num_addresses - 2, 0)
        self._next = 0
        self._taken = taken

    def take(self) -> str | None:
        """Allocate a free address; None if there is none. The caller releases it by discarding it from the set."""
        for _ in range(self._size):
            address = str(self._network.network_address + 1 + self._next)
            self._next = (self._next + 1) % self._size
            if address not in self._taken:
                self._taken.add(address)
                return address
        return None


NODE_NETWORK = "10.0.0.0/12"
POD_NETWORK = "10.128.0.0/9"


class Host(PlainStruct, frozen=True):
    """The state of one node."""

    ready: bool
    stopped: bool
    off: bool
    address: str
    pod_network: str
    allocatable: Mapping[str, int]
    labels: Mapping[str, str]

    @property
    def at_work(self) -> bool:
        """Whether the node can run pods."""
        return self.ready and not self.stopped and bool(self.address)


class Hosts:
    def __init__(self) -> None:
        self._hosts: dict[str, Host] = {}
        self._pods = PodsByNode()
        self._rooms: dict[str, Room] = {}
        #: Addresses in use; pods' addresses by uid.
        self._taken: set[str] = set()
        self._addresses: dict[str, str] = {}
        self._node_pool = AddressPool(NODE_NETWORK, self._taken)
        self._pod_pools: dict[str, AddressPool] = {}
        #: Nodes that were removed with pods on them.
        self._removed: set[str] = set()
        #: uids of pods whose containers were lost, on nodes that are back.
        self.lost: set[str] = set()

    def get(self, name: str) -> Host | None:
        return self._hosts.get(name)

    def room(self, name: str) -> Room:
        """The resources used by the node's accepted pods."""
        return self._rooms.setdefault(name, Room())

    def node_address(self, name: str) -> str:
        """The node's address, or a newly allocated one."""
        return self._hosts[name].address or self._node_pool.take() or ""

    def pod_address(self, uid: str, host: Host) -> str:
        """The pod's address, from the node's pod CIDR if it has a free one."""
        known = self._addresses.get(uid)
        if known is not None:
            return known
        for network in (host.pod_network, POD_NETWORK):
            if network:
                pool = self._pod_pools.setdefault(network, AddressPool(network, self._taken))
                address = pool.take()
                if address is not None:
                    self._addresses[uid] = address
                    return address
        raise RuntimeError(f"no address left in {POD_NETWORK}")

    def follow(self, event: Event) -> Sequence[Hashable]:
        """Apply a change; return the affected nodes and pods."""
        return self._follow_node(event) if event.stored.resource == NODES else self._follow_pod(event)

    def _follow_node(self, event: Event) -> Sequence[Hashable]:
        name = event.stored.name
        before = self._hosts.pop(name, None)
        if event.type == "DELETED":
            self._taken.discard(before.address if before is not None else "")
            if self._pods.on(name):
                self._removed.add(name)
            return [NodeKey(name)]
        host = self._hosts[name] = _host_of(event.stored)
        if host.address:
            self._taken.add(host.address)
        was_off = name in self._removed or (before is not None and before.off)
        self._removed.discard(name)
        if was_off and not host.off:
            self.lost.update(key.uid for key in self._pods.on(name))
        if before is not None and (before.at_work, before.stopped) == (host.at_work, host.stopped):
            return [NodeKey(name)]
        return [NodeKey(name), *self._pods.on(name)]

    def _follow_pod(self, event: Event) -> Sequence[Hashable]:
        pod = event.stored
        self._pods.follow(event)
        if not node_of(pod):
            return ()
        if event.type == "DELETED" or pod.field("status.phase") in FINISHED:
            self._let_go(pod)
        elif address := pod.field("status.podIP"):
            self._note_running(pod, address)
        return [key_of(pod)]

    def _note_running(self, pod: Stored, address: str) -> None:
        if pod.uid not in self._addresses and pod.field("spec.hostNetwork") != "true":
            self._taken.add(address)
            self._addresses[pod.uid] = address
        room = self.room(node_of(pod))
        if pod.uid not in room:
            room.add(pod.uid, requests_of(decode_json(pod.data, Pod)))

    def _let_go(self, pod: Stored) -> None:
        self.lost.discard(pod.uid)
        self._taken.discard(self._addresses.pop(pod.uid, ""))
        self.room(node_of(pod)).remove(pod.uid)


def _host_of(stored: Stored) -> Host:
    node = stored.to_dict()
    status = node.get("status") or {}
    network = (node.get("spec") or {}).get("podCIDR", "")
    kubelet = (node["metadata"].get("annotations") or {}).get(KUBELET)
    return Host(
        ready=is_true(node.get("status") or {}, "Ready"),
        stopped=kubelet in (STOPPED, OFF),
        off=kubelet == OFF,
        address=kubelet_node.address_of(node),
        pod_network=network if is_network(network) else "",
        allocatable=allocatable_of(status.get("allocatable") or status.get("capacity") or {}),
        labels=stored.labels,
    )
