"""Work that can never fit, found before a simulation begins.

Requests are compared with all that the scenario's nodes and groups can ever have. Whatever else keeps pods off nodes is
ignored, so work that is found here certainly waits until the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain

from stowplan.kube.api.types import Pod, PodGroup
from stowplan.scheduler.framework.explanations.formatting import amount, count
from stowplan_cluster.reconcile.cluster_autoscaler import node_amounts
from stowplan_lab.simulation.definition.scenario_fields import Scenario
from stowplan_lab.simulation.nodes.fleet import Fleet, Group
from stowplan_lab.simulation.results.ledger import amounts_of_pod
from stowplan_lab.simulation.workloads.owners import Template


class Supply:
    """What nodes can have of each resource at most: one of them, and all together."""

    def __init__(self, scenario: Scenario, fleet: Fleet) -> None:
        self.of_node: Counter[str] = Counter()
        self.of_all: Counter[str] = Counter()
        for group in fleet.groups.values():
            self._add(node_amounts(group.template), _most_nodes(scenario, group))
        for name, node in fleet.nodes.items():
            if name not in fleet.group_of:
                self._add(node_amounts(node), 1)

    def _add(self, amounts: Mapping[str, int], nodes: int) -> None:
        for resource, number in amounts.items():
            if nodes:
                self.of_node[resource] = max(self.of_node[resource], number)
                self.of_all[resource] += number * nodes


def _most_nodes(scenario: Scenario, group: Group) -> int:
    counts = [group.spec.count]
    if group.spec.autoscale is not None and scenario.models.autoscaler:
        counts.append(group.spec.autoscale.max)
    resizes = (event.resize for event in scenario.events)
    counts += [resize.count for resize in resizes if resize is not None and resize.group == group.name]
    return max(counts)


def never_fitting(templates: Collection[Template], objects: Sequence[object], supply: Supply) -> Iterator[str]:
    """A line for each workload and gang that waits until the end. `objects` are there at the start."""
    # A rollout may change the requests.
    lasting = [template for template in templates if template.update is None]
    return chain(_pods(lasting, supply), _gangs(lasting, objects, supply))


def _pods(templates: Iterable[Template], supply: Supply) -> Iterator[str]:
    for template in templates:
        # A plugin or an extender may take care of a resource that no node has.
        wanted = amounts_of_pod(template.pod).items()
        short = next((one for one in wanted if one[1] > supply.of_node[one[0]] > 0), None)
        if short is not None:
            resource, number = short
            yield (
                f"{template.workload} can never run: a pod requests {_text(resource, number)}, "
                f"nodes have at most {amount(resource, supply.of_node[resource])}"
            )


def _gangs(templates: Iterable[Template], objects: Sequence[object], supply: Supply) -> Iterator[str]:
    """Of the smallest pods that could complete a gang."""
    pods = [*(template.pod for template in templates), *(one for one in objects if isinstance(one, Pod))]
    members: dict[tuple[str, str | None], list[Mapping[str, int]]] = {}
    for pod in pods:
        if pod.spec.scheduling_group is not None:
            key = pod.metadata.namespace, pod.spec.scheduling_group.pod_group_name
            members.setdefault(key, []).append(amounts_of_pod(pod))
    for group in (one for one in objects if isinstance(one, PodGroup)):
        gang, sizes = group.spec.scheduling_policy.gang, members.get((group.metadata.namespace, group.metadata.name))
        if gang is None or not sizes:
            continue
        for resource in sorted({name for size in sizes for name in size}):
            least = gang.min_count * min(size.get(resource, 0) for size in sizes)
            if least > supply.of_all[resource] > 0:
                yield (
                    f"{group.metadata.name} can never run: it needs {_text(resource, least)} for "
                    f"{count(gang.min_count, 'pod')}, nodes and groups allow at most "
                    f"{amount(resource, supply.of_all[resource])}"
                )
                break


def _text(resource: str, number: int) -> str:
    return f"{amount(resource, number)} {resource}"
