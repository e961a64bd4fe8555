"""What plugins read of Kubernetes' objects: types, quantities, classes of service."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from stowplan.kube.api.container_totals import qos_class as _qos_class
from stowplan.kube.api.meta import QuantityValue, parse_timestamp
from stowplan.kube.api.pod import SecurityContext
from stowplan.kube.api.quantity import format_quantity, milli_value, parse_quantity, read_quantity
from stowplan.kube.api.quantity import value as whole_value
from stowplan.kube.api.types import Container, Namespace, Node, Pod, PodDisruptionBudget, PodGroup, PriorityClass

if TYPE_CHECKING:
    from stowplan.scheduler.cluster.pod_info import PodInfo

__all__ = [
    "Container",
    "Namespace",
    "Node",
    "Pod",
    "PodDisruptionBudget",
    "PodGroup",
    "PriorityClass",
    "QuantityValue",
    "SecurityContext",
    "milli_value",
    "parse_quantity",
    "parse_timestamp",
    "qos_class",
    "sum_text",
    "whole_value",
]


def qos_class(pod: PodInfo) -> str:
    """Guaranteed, Burstable or BestEffort, from the spec; computed once for all pods of a template."""
    template = pod.shape.template
    known = template.memo("QoS class", None)
    return str(known or template.remember("QoS class", None, _qos_class(msgspec.to_builtins(pod.pod.spec))))


def sum_text(amounts: Sequence[QuantityValue]) -> str:
    """The sum as a quantity, in the format of the first one."""
    if not amounts:
        return "0"
    return format_quantity(sum(map(parse_quantity, amounts)), read_quantity(amounts[0]).format)
