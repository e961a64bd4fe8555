"""The minimal roles of commands: for reading a cluster, and for carrying out plans of moves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from stowplan.ask.loading.workloads import QUOTA_RESOURCE, WORKLOAD_RESOURCES
from stowplan.ask.rebalance.policy.measured_use import NodeMetrics, PodMetrics
from stowplan.ask.rebalance.policy.policy_file import Policy
from stowplan.kube.api.custom_objects import custom_resource
from stowplan.kube.api.meta import ApiStruct
from stowplan.kube.api.resources import ApiResource, resource_of
from stowplan.kube.api.types import Event, Lease, Node, Pod, PodDisruptionBudget, PriorityClass
from stowplan.kube.api.users import ConfigMap
from stowplan.kube.api.yaml_text import to_yaml
from stowplan.kube.config import Configuration
from stowplan.scheduler.engine.engine import Engine
from stowplan.scheduler.engine.watched_kinds import watched_kinds
from stowplan.scheduler.framework.runtime.registry import Registry

if TYPE_CHECKING:
    from stowplan.app.sources.dumping import DumpedKind


class _NoMeter:
    @staticmethod
    def clock() -> float:
        return 0.0

    @staticmethod
    def random() -> float:
        return 0.0


def role_of_follower(configuration: Configuration, registry: Registry, *, name: str) -> str:
    """For whoever lists and watches what the scheduler reads; as YAML for `kubectl apply`."""
    return _role(name, _read(configuration, registry, "list", "watch"))


def role_of_reader(
    configuration: Configuration,
    registry: Registry,
    *,
    name: str,
    follows: bool = False,
    also: Iterable[type[ApiStruct]] = (),
) -> str:
    """For whoever answers questions: also Events and quotas, finished pods and workloads by name.

    `follows`: whether the scheduler's kinds are watched, too; `also`: kinds that are listed besides.
    """
    verbs = _read(configuration, registry, "list", *(["watch"] if follows else []))
    verbs |= {resource_of(kind): {"list"} for kind in (Event, custom_resource(QUOTA_RESOURCE), *also)}
    verbs[resource_of(Pod)].add("get")
    return _role(name, verbs, got=WORKLOAD_RESOURCES.values())


def kinds_of_policy(policy: Policy) -> list[type[ApiStruct]]:
    """What a DeschedulerPolicy is carried out with, besides what the scheduler reads."""
    measured = (NodeMetrics, PodMetrics) if any(not one.is_prometheus for one in policy.metrics) else ()
    return [PriorityClass, *measured]


def role_of_rebalancer(
    configuration: Configuration, registry: Registry, *, name: str, namespace: str, also: Iterable[type[ApiStruct]]
) -> str:
    """For whoever carries out plans of moves, with the lease and the record in a namespace."""
    reading = role_of_reader(configuration, registry, name=f"{name}-read", also=also)
    carrying = {resource_of(kind): {"watch"} for kind in (Pod, PodDisruptionBudget)}
    carrying[resource_of(Node)] = {"get", "patch"}
    writing = _role(name, carrying, subresources={"pods/eviction": {"create"}})
    own = {resource_of(Lease): {"get", "create", "update"}, resource_of(ConfigMap): {"get", "create", "patch"}}
    return "---\n".join((reading, writing, _role(name, own, namespace=namespace)))


def role_of_dumper(kinds: Iterable[DumpedKind], *, name: str) -> str:
    return _role(name, {kind.resource: {"list"} for kind in kinds})


def _read(configuration: Configuration, registry: Registry, *verbs: str) -> dict[ApiResource, set[str]]:
    """What the profiles read, with these verbs; sources of measured data only list."""
    engine = Engine(configuration, registry=registry, now=0.0, meter=_NoMeter())
    watched = watched_kinds(engine.frameworks.values(), report=lambda problem: None)
    found = {resource_of(one.kind): set(verbs) for one in watched if not one.measured}
    for source in (source for one in watched for source in one.sources):
        for kind in source.lists:
            found.setdefault(resource_of(kind), {"list"})
    return found


def _role(
    name: str,
    verbs: Mapping[ApiResource, set[str]],
    *,
    got: Iterable[str] = (),
    subresources: Mapping[str, set[str]] = MappingProxyType({}),
    namespace: str = "",
) -> str:
    """`got`: other resources that are read by their names; `subresources`: those of the core group."""
    allowed = {(resource.group, resource.plural): set(those) for resource, those in verbs.items()}
    allowed |= {("", subresource): set(those) for subresource, those in subresources.items()}
    for resource in got:
        plural, _, rest = resource.partition(".")
        allowed.setdefault((rest.partition(".")[2], plural), set()).add("get")
    plurals: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (group, plural), those in allowed.items():
        plurals.setdefault((group, tuple(sorted(those))), []).append(plural)
    rules = [
        {"apiGroups": [group], "resources": sorted(resources), "verbs": list(those)}
        for (group, those), resources in sorted(plurals.items())
    ]
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role" if namespace else "ClusterRole",
        "metadata": {"name": name, "namespace": namespace} if namespace else {"name": name},
        "rules": rules,
    }
    return to_yaml(role)
