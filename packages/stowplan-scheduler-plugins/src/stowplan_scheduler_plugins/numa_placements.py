"""Which NUMA cell each container of a node has its resources from, and what an eviction would give back to the cells.

Agents publish it with what they measure, without names: containers are numbered in the order of their hashes, and each
cell lists its numbers, except the cell with the most containers, which has all that are left. So it can only be read
with the same set of containers, which is that of the pods in the agent's fingerprint.

Upstream: k8stopologyawareschedwg/numaplacement; pkg/noderesourcetopology/{cache/store.go,preemption} in
scheduler-plugins.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from stowplan.plugins import CustomObject, PodInfo
from stowplan.plugins.objects import Container, parse_quantity, qos_class
from stowplan_scheduler_plugins.node_topologies import (
    SINGLE,
    Amounts,
    attribute,
    cell_number,
    exclusive_requests,
    requests_devices,
)
from stowplan_scheduler_plugins.pod_fingerprints import xxh64

METADATA, VECTOR = "topology.node.k8s.io/numaplacement-metadata", "topology.node.k8s.io/numaplacement-vector"
_PREFIX, _SEPARATOR, _ENCODING = "npv0v001::", "::", "leb89"
#: The digits of numbers: the first 64 end one, the others are followed by more.
_DIGITS = {chr(code): i for i, code in enumerate(one for one in range(0x21, 0x7F) if chr(one) not in '"&<>\\')}
_LAST, _MORE = 64, 25
_NUMBER = re.compile(r"[+-]?[0-9]+")

#: Hash of a container -> its cell.
Placements = Mapping[int, int]


class EvictionError(ValueError):
    """What an eviction would free is not known."""


def container_hash(pod: PodInfo, container: Container) -> int:
    return xxh64("\0".join((pod.namespace, pod.name, container.name)).encode())


def placements_of(topology: CustomObject, pods: Iterable[PodInfo], resources: set[str]) -> Placements:
    """Of the containers with resources of their own; empty if it is not published, or not about these pods."""
    try:
        return _decoded(topology, pods, resources)
    except ValueError:
        return {}


def _decoded(topology: CustomObject, pods: Iterable[PodInfo], resources: set[str]) -> Placements:
    metadata = attribute(topology.content, METADATA)
    if metadata is None or attribute(topology.content, "topologyManagerPolicy") != SINGLE:
        return {}
    fields = _fields(metadata)
    containers = [container_hash(pod, one) for pod in pods for one, _ in exclusive_requests(pod, resources)]
    ordered = sorted(set(containers))
    cells, busiest = fields.get("nn", -1), fields.get("bn", -1)
    if not len(containers) == len(ordered) == fields.get("cc") or not 0 <= busiest < cells:
        raise ValueError("about other containers")
    found: dict[int, int] = {}
    for cell, vector in _vectors(topology):
        if cell == busiest or not 0 <= cell < cells:
            raise ValueError("a vector of a cell that has none")
        for offset in _offsets(vector):
            if not 0 <= offset < len(ordered) or ordered[offset] in found:
                raise ValueError("a vector with wrong containers")
            found[ordered[offset]] = cell
    return dict.fromkeys(ordered, busiest) | found


def _fields(metadata: str) -> dict[str, int]:
    if not metadata.startswith(_PREFIX):
        raise ValueError("another version")
    found: dict[str, int] = {}
    encoding = ""
    for pair in metadata.removeprefix(_PREFIX).split(_SEPARATOR):
        name, _, value = pair.partition("=")
        if name == "ve" and value:
            encoding = value
        elif name in ("cc", "nn", "bn") and _NUMBER.fullmatch(value):
            found[name] = int(value)
        else:
            raise ValueError(f"{pair}: not a field")
    if encoding != _ENCODING:
        raise ValueError("another encoding")
    return found


def _vectors(topology: CustomObject) -> Iterator[tuple[int, str]]:
    for zone in topology.content.get("zones") or ():
        vector = attribute(zone, VECTOR)
        if vector is not None:
            yield int(zone.get("name", "").removeprefix("node-")), vector


def _offsets(vector: str) -> Iterator[int]:
    """Each number is the distance from the one before."""
    offset, number = 0, None
    for character in vector:
        digit = _DIGITS.get(character, -1)
        if digit >= _LAST:
            number = (number or 0) * _MORE + digit - _LAST
        else:
            offset += digit if number is None else _LAST + number * _LAST + digit
            number = None
            yield offset
    if number is not None:
        # Parity: a number that is cut off counts as -1, as does a character that is no digit.
        yield offset - 1


def freed(pods: Iterable[PodInfo], placements: Placements, resources: set[str]) -> dict[int, Amounts]:
    """By cell, the resources of their own that these pods would give back."""
    found: dict[int, Amounts] = {}
    for pod in pods:
        if qos_class(pod) != "Guaranteed" and not requests_devices(pod):
            continue
        for container, requests in exclusive_requests(pod, resources):
            cell = placements.get(container_hash(pod, container))
            if cell is not None:
                amounts = found.setdefault(cell, {})
                for name, amount in requests.items():
                    amounts[name] = amounts.get(name, 0) + amount
    if not found:
        raise EvictionError("no resources to add, cannot process eviction simulation")
    return found


def check_freed(topology: CustomObject, available: Mapping[int, Amounts], more: Mapping[int, Amounts]) -> None:
    """No cell may get back more than it has."""
    for zone in topology.content.get("zones") or ():
        cell = cell_number(zone.get("name", ""))
        if cell is None or cell not in available:
            continue
        has: dict[str, Any] = {}
        for one in reversed(zone.get("resources") or ()):
            has[one.get("name", "")] = one.get("allocatable", 0)
        for name, amount in more.get(cell, {}).items():
            if name in has and available[cell].get(name, 0) + amount > parse_quantity(has[name]):
                raise EvictionError("resource release request exceeds NUMA allocatable")
