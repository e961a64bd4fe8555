"""Per-node state of the simulated kubelet: health, pods, free resources and addresses.

All state is derived from the store's changes, so a new process continues where the last one stopped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.kube.api.decode import decode_json
from stowplan.kube.api.pod import FINISHED, Pod
from stowplan.kube.structs import PlainStruct
from stowplan_cluster.apiserver.conditions import is_true
from stowplan_cluster.controllers.kubelet import kubelet_node
from stowplan_cluster.controllers.kubelet.addresses import AddressPool, is_network
from stowplan_cluster.controllers.kubelet.kubelet_admission import Room, allocatable_of, requests_of
from stowplan_cluster.controllers.kubelet.kubelet_annotations import is_stopped
from stowplan_cluster.controllers.pods_by_node import NODES, NodeKey, PodsByNode, key_of, node_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from stowplan_cluster.apiserver.store import Event, Stored

NODE_NETWORK = "10.0.0.0/12"
POD_NETWORK = "10.128.0.0/9"


class Host(PlainStruct, frozen=True):
    """The state of one node."""

    ready: bool
    stopped: bool
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
            return [NodeKey(name)]
        host = self._hosts[name] = _host_of(event.stored)
        if host.address:
            self._taken.add(host.address)
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
        self._taken.discard(self._addresses.pop(pod.uid, ""))
        self.room(node_of(pod)).remove(pod.uid)


def _host_of(stored: Stored) -> Host:
    node = stored.to_dict()
    status = node.get("status") or {}
    network = (node.get("spec") or {}).get("podCIDR", "")
    return Host(
        ready=is_true(node.get("status") or {}, "Ready"),
        stopped=is_stopped(node),
        address=kubelet_node.address_of(node),
        pod_network=network if is_network(network) else "",
        allocatable=allocatable_of(status.get("allocatable") or status.get("capacity") or {}),
        labels=stored.labels,
    )
