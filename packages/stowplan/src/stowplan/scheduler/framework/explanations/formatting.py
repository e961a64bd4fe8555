"""Format quantities, selectors and lists for explanations.

Quantities read as Kubernetes writes them; requirements read as kubectl's selectors do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stowplan.kube.api.label_selectors import DOES_NOT_EXIST, EXISTS, GT, IN, LT, NOT_IN, Requirement, Selector
from stowplan.kube.api.quantity import NANO, Format, format_quantity
from stowplan.kube.api.types import Taint
from stowplan.scheduler.cluster.pod_info import AffinityTerm, PodInfo
from stowplan.scheduler.cluster.ports import Port

_NANO_PER_MILLI = NANO // 1000
_ANY_ADDRESS = "0.0.0.0"
_OPERATORS = {IN: "in", NOT_IN: "notin", GT: ">", LT: "<"}


def amount(resource: str, number: int) -> str:
    """A quantity from the scheduler's integers: cpu in millicores, other resources in units."""
    if resource == "cpu":
        return format_quantity(number * _NANO_PER_MILLI)
    binary = resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-")
    return format_quantity(number * NANO, Format.BINARY_SI if binary else Format.DECIMAL_SI)


def count(number: int, noun: str) -> str:
    """`1 node`, `1,203 nodes`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def listed(names: Sequence[str], shown: int = 3) -> str:
    """The first names, and the number of the others."""
    if len(names) <= shown + 1:
        return ", ".join(names)
    return f"{', '.join(names[:shown])} and {len(names) - shown:,} more"


def joined(parts: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def taint_text(taint: Taint) -> str:
    """As `kubectl taint` writes it."""
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


def requirement_text(requirement: Requirement) -> str:
    key, operator, values = requirement.key, requirement.operator, requirement.values
    if operator == EXISTS:
        return key
    if operator == DOES_NOT_EXIST:
        return f"!{key}"
    if operator == IN and len(values) == 1:
        return f"{key}={values[0]}"
    if operator == NOT_IN and len(values) == 1:
        return f"{key}!={values[0]}"
    if operator in (GT, LT):
        return f"{key}{_OPERATORS[operator]}{values[0]}"
    return f"{key} {_OPERATORS[operator]} ({','.join(values)})"


def selector_text(selector: Selector) -> str:
    if selector.nothing:
        return "nothing"
    return ",".join(requirement_text(r) for r in selector.requirements) or "everything"


def term_text(term: AffinityTerm) -> str:
    """`app=db by topology.kubernetes.io/zone`."""
    return f"{selector_text(term.selector)} by {term.topology_key}"


def namespaces_text(term: AffinityTerm) -> str:
    if not term.namespace_selector.nothing:
        chosen = selector_text(term.namespace_selector)
        return "all namespaces" if term.namespace_selector.empty else f"namespaces with {chosen}"
    names = sorted(term.namespaces)
    return f"namespace {names[0]}" if len(names) == 1 else f"namespaces {', '.join(names)}"


def port_text(port: Port) -> str:
    ip, protocol, number = port
    return f"{number}/{protocol}" if ip == _ANY_ADDRESS else f"{ip}:{number}/{protocol}"


def pods_text(pods: Sequence[PodInfo]) -> str:
    """`shop/web-0 and 2 more`."""
    if not pods:
        return "nobody"
    return pods[0].key if len(pods) == 1 else f"{pods[0].key} and {len(pods) - 1} more"


def sentence(parts: Iterable[str]) -> str:
    """Clauses with semicolons between them; empty ones are left out."""
    return "; ".join(part for part in parts if part)
