"""Facts that keep a pod off every node, said once: nobody has the label, nobody is large enough, no such pod runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stowplan.explain.words import amount, count, namespaces_text, requirement_text, selector_text
from stowplan.in_tree.common.node_selection import requirement_mask

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stowplan.api.selectors import Requirement
    from stowplan.cluster.pod_info import AffinityTerm
    from stowplan.explain.details import Details
    from stowplan.explain.inspection import Inspection


def obstacles(at: Inspection, details: Details, *, solved: bool) -> list[str]:
    """`solved`: some change helps, so the list of what every node has against the pod is not needed."""
    found = [
        *_resources(at),
        *_labels(at),
        *_enforced(at),
        *_topology(at),
        *_neighbours(at),
        *_whole_pod(at),
        *_promised(at),
    ]
    preempts = at.verdict.preemption is not None and at.verdict.preemption.selected is not None
    if not solved and not found and not preempts:
        found += _everywhere(at)
    return list(dict.fromkeys(found))


def _resources(at: Inspection) -> Iterator[str]:
    for resource, asked in at.pod.shape.requests.items():
        if not asked or "NodeResourcesFit" not in at.masks:
            continue
        index = at.table.resources.get(resource)
        offered = at.table.allocatable[index, : at.table.n] if index is not None else np.zeros(at.table.n, np.int64)
        largest = int(offered.argmax()) if len(offered) else -1
        if largest < 0 or not offered[largest]:
            yield f"no node offers {resource}"
        elif offered[largest] < asked:
            wanted, has = amount(resource, asked), amount(resource, int(offered[largest]))
            largest_node = f"the largest node ({at.names[largest]}) offers {has}"
            yield f"too large for every node: asks for {wanted} {resource}, {largest_node}"


def _labels(at: Inspection) -> Iterator[str]:
    wanted = at.pod.shape.required_node_affinity
    always: list[Requirement] = list(wanted.node_selector.requirements) if wanted.node_selector is not None else []
    if wanted.required is not None and len(wanted.required.terms) == 1:
        always += wanted.required.terms[0].expressions
    for requirement in always:
        if not (requirement_mask(at.table, requirement) & at.valid).any():
            negative = requirement.operator in ("NotIn", "DoesNotExist")
            yield (
                f"every node has label {requirement.key}"
                if negative
                else f"no node has label {requirement_text(requirement)}"
            )
    for term in wanted.required.terms if wanted.required is not None else ():
        if term.error:
            yield f"a node affinity term does not parse, so it matches no node: {term.error}"
    if wanted.required is not None and not wanted.required.terms:
        yield "the required node affinity has no terms, so it matches no node"


def _enforced(at: Inspection) -> Iterator[str]:
    for plugin, rejections in at.diagnosis.filtered if at.diagnosis is not None else ():
        for entry in rejections.entries if plugin == "NodeAffinity" else ():
            nodes = int((entry.mask & at.valid).sum())
            if entry.reason.code == "EnforcedNodeAffinityMismatch" and nodes:
                yield f"the configuration's addedAffinity keeps pods of this profile off {count(nodes, 'node')}"


def _topology(at: Inspection) -> Iterator[str]:
    for constraint in at.pod.pod.spec.topology_spread_constraints:
        key = constraint.topology_key
        if constraint.when_unsatisfiable == "DoNotSchedule" and not at.table.label(key).codes[: at.table.n].any():
            yield f"no node has label {key}, which a topologySpreadConstraint wants"


def _neighbours(at: Inspection) -> Iterator[str]:
    if "InterPodAffinity" not in at.masks:
        return
    for term in at.pod.shape.required_affinity:
        if not at.table.label(term.topology_key).codes[: at.table.n].any():
            yield f"no node has label {term.topology_key}, which a podAffinity term wants"
        if not _matching(at, term):
            yield f"no running pod matches {selector_text(term.selector)} ({namespaces_text(term)})"


def _matching(at: Inspection, term: AffinityTerm) -> bool:
    labels = at.cluster.objects.namespace_labels
    return bool(at.pods_like(lambda s: term.matches(s.namespace, s.labels, labels(s.namespace))))


def _whole_pod(at: Inspection) -> Iterator[str]:
    """Plugins that refused the pod before any node was looked at."""
    absent = at.diagnosis.absent if at.diagnosis is not None else None
    if absent is not None and absent.plugin and absent.shown_reasons:
        yield f"{absent.plugin} refuses the pod wherever it goes: {absent.message}"


def _promised(at: Inspection) -> Iterator[str]:
    nominated = at.diagnosis.nominated if at.diagnosis is not None else {}
    if nominated:
        nodes = count(len(nominated), "node")
        yield f"{nodes} would do, but room there is promised to pods of equal or higher priority"


def _everywhere(at: Inspection) -> Iterator[str]:
    counts = sorted(((int(mask.sum()), name) for name, mask in at.masks.items()), key=lambda item: (-item[0], item[1]))
    nodes = int(at.valid.sum())
    if counts:
        listed = ", ".join(f"{name} refuses {number:,}" for number, name in counts)
        yield f"no small change gains a node: of {count(nodes, 'node')}, {listed}"
