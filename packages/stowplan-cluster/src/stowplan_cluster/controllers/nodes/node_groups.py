"""Groups of simulated nodes, of which the cluster autoscaler adds and removes some.

A group is a template of `apiserver/simulated_nodes.py` with annotations, which its nodes do not get:

  stowplan.io/min-nodes: "1"         how many there are at least, and at first; by default none
  stowplan.io/max-nodes: "10"        and at most
  stowplan.io/boot-after: 90s        from the order of a node until it is there
  stowplan.io/idle-for: 10m          until a node that is not needed is removed
  stowplan.io/utilization: "0.5"     one with pods is not needed if it is used less than that, and they fit elsewhere
  stowplan.io/price: "0.40"          of a node; groups are asked in the order of their price per cpu

Its name is that of the template, without the number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from stowplan.kube.api.decode import DecodeError, convert
from stowplan.kube.api.durations import parse_duration
from stowplan.kube.api.types import Node
from stowplan.kube.structs import PlainStruct
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.simulated_nodes import TemplateError, check_template, node_of
from stowplan_cluster.controllers.kubelet import kubelet_node
from stowplan_cluster.reconcile.cluster_autoscaler import Limits

PREFIX = "stowplan.io/"
#: The label of a node with its group.
GROUP = f"{PREFIX}node-group"

T = TypeVar("T")


class ScaledGroup(PlainStruct, frozen=True):
    name: str
    template: Mapping[str, Any]
    limits: Limits
    #: Seconds.
    boot: float
    price: float

    def node(self, number: int) -> JsonObject:
        node = node_of(self.template, number)
        node["metadata"]["labels"][GROUP] = self.name
        return node

    def ready_node(self, number: int) -> Node:
        """The same as its kubelet reports it."""
        node = self.node(number)
        kubelet_node.complete(node, address="", now=0.0)
        return convert(node, Node)


def groups_of(templates: Sequence[Mapping[str, Any]]) -> list[ScaledGroup]:
    """Raises TemplateError."""
    groups = [_group(template) for template in templates]
    for group in groups:
        if groups.count(group) > 1 or [one.name for one in groups].count(group.name) > 1:
            raise TemplateError(f"there are several groups {group.name!r}")
    if not groups:
        raise TemplateError("expected Nodes, got nothing")
    return groups


def _group(template: Mapping[str, Any]) -> ScaledGroup:
    check_template(template)
    metadata = dict(template["metadata"])
    name = str(metadata["name"]).replace("{n}", "").strip("-.")
    annotations = metadata.get("annotations") or {}
    if not isinstance(annotations, dict):
        raise TemplateError("metadata.annotations: expected an object")
    read = _Annotations(name, annotations)
    limits = Limits(
        least=read("min-nodes", _count, 0),
        most=read("max-nodes", _count, None),
        idle=read("idle-for", _seconds, 600.0),
        utilization=read("utilization", _share, 0.5),
    )
    if limits.least > limits.most:
        raise TemplateError(f"{name}: {PREFIX}min-nodes is more than {PREFIX}max-nodes")
    boot, price = read("boot-after", _seconds, 90.0), read("price", _amount, 0.0)
    read.check_all_known()
    metadata["annotations"] = {key: value for key, value in annotations.items() if not key.startswith(PREFIX)}
    group = ScaledGroup(name, {**template, "metadata": metadata}, limits, boot, price)
    try:
        group.ready_node(0)
    except DecodeError as error:
        raise TemplateError(f"{name}: {error}") from None
    return group


class _Annotations:
    def __init__(self, group: str, annotations: Mapping[str, Any]) -> None:
        self._group = group
        self._left = {key: value for key, value in annotations.items() if key.startswith(PREFIX)}
        self._known: list[str] = []

    def __call__(self, name: str, read: Callable[[str], T], default: T | None) -> T:
        key = f"{PREFIX}{name}"
        self._known.append(key)
        text = self._left.pop(key, None)
        if text is None:
            if default is None:
                raise TemplateError(f"{self._group}: metadata.annotations: {key} is missing")
            return default
        try:
            return read(str(text))
        except ValueError as error:
            raise TemplateError(f"{self._group}: metadata.annotations: {key}: {error}") from None

    def check_all_known(self) -> None:
        for key in self._left:
            raise TemplateError(
                f"{self._group}: metadata.annotations: there is no {key}; there are {', '.join(self._known)}"
            )


def _count(text: str) -> int:
    if not text.isdecimal() or len(text) > 6:
        raise ValueError(f"expected a whole number, got {text!r}")
    return int(text)


def _seconds(text: str) -> float:
    seconds = parse_duration(text).seconds
    if seconds < 0:
        raise ValueError(f"{text!r} is negative")
    return seconds


def _amount(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found < float("inf"):
        raise ValueError(f"expected a number of 0 or more, got {text!r}")
    return found


def _share(text: str) -> float:
    found = _amount(text)
    if found > 1:
        raise ValueError(f"expected a share from 0 to 1, got {text!r}")
    return found
