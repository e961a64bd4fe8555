"""Read a DeschedulerPolicy (descheduler/v1alpha2); all problems are reported at once, each with its field and line.

Upstream: descheduler's pkg/api/v1alpha2, pkg/descheduler/policyconfig.go.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from stowplan.ask.rebalance.policy import arguments as a
from stowplan.ask.rebalance.policy.evictor import EvictionCounts, Evictor
from stowplan.ask.rebalance.policy.snapshot import Snapshot
from stowplan.ask.rebalance.policy.strategies.by_rules import inter_pod_anti_affinity, node_affinity, node_taints
from stowplan.ask.rebalance.policy.strategies.by_state import failed_pods, pod_life_time, too_many_restarts
from stowplan.ask.rebalance.policy.strategies.duplicates import duplicates
from stowplan.ask.rebalance.policy.strategies.topology_spread import topology_spread
from stowplan.ask.rebalance.policy.strategies.utilization import high_node_utilization, low_node_utilization
from stowplan.kube.api.decode import without_nulls
from stowplan.kube.api.manifest_files import LoadError
from stowplan.kube.api.types import Node
from stowplan.kube.config.config_errors import did_you_mean
from stowplan.kube.config.typed_documents import Document, FieldPath, Problem, ScalarTypes, read_document
from stowplan.kube.structs import PlainStruct

API_VERSION, KIND = "descheduler/v1alpha2", "DeschedulerPolicy"
_EVICTOR = "DefaultEvictor"
DESCHEDULE, BALANCE = "deschedule", "balance"


class Strategy(PlainStruct, frozen=True):
    """A plugin that selects pods."""

    point: str
    arguments: type[a.Arguments]
    run: Callable[[Snapshot, Sequence[Node], Evictor, Any], None]


STRATEGIES: Mapping[str, Strategy] = {
    "PodLifeTime": Strategy(DESCHEDULE, a.PodLifeTime, pod_life_time),
    "RemoveFailedPods": Strategy(DESCHEDULE, a.RemoveFailedPods, failed_pods),
    "RemovePodsHavingTooManyRestarts": Strategy(DESCHEDULE, a.RemovePodsHavingTooManyRestarts, too_many_restarts),
    "RemovePodsViolatingInterPodAntiAffinity": Strategy(
        DESCHEDULE, a.RemovePodsViolatingInterPodAntiAffinity, inter_pod_anti_affinity
    ),
    "RemovePodsViolatingNodeAffinity": Strategy(DESCHEDULE, a.RemovePodsViolatingNodeAffinity, node_affinity),
    "RemovePodsViolatingNodeTaints": Strategy(DESCHEDULE, a.RemovePodsViolatingNodeTaints, node_taints),
    "HighNodeUtilization": Strategy(BALANCE, a.HighNodeUtilization, high_node_utilization),
    "LowNodeUtilization": Strategy(BALANCE, a.LowNodeUtilization, low_node_utilization),
    "RemoveDuplicates": Strategy(BALANCE, a.RemoveDuplicates, duplicates),
    "RemovePodsViolatingTopologySpreadConstraint": Strategy(
        BALANCE, a.RemovePodsViolatingTopologySpreadConstraint, topology_spread
    ),
}
_ARGUMENTS: Mapping[str, type[a.Arguments]] = {
    **{name: one.arguments for name, one in STRATEGIES.items()},
    _EVICTOR: a.DefaultEvictor,
}
A = TypeVar("A", bound=a.Arguments)
_SCALARS = ScalarTypes((a.GoDuration,))


# -- the file ---------------------------------------------------------------------------------------------------------


class _PluginConfig(a.PolicyFields, frozen=True, kw_only=True):
    name: str
    args: dict[str, Any] | None = None


class _Plugins(a.PolicyFields, frozen=True, kw_only=True):
    enabled: tuple[str, ...] = ()
    disabled: tuple[str, ...] = ()


class _Points(a.PolicyFields, frozen=True, kw_only=True):
    pre_sort: _Plugins = msgspec.field(name="presort", default=_Plugins())
    sort: _Plugins = _Plugins()
    deschedule: _Plugins = _Plugins()
    balance: _Plugins = _Plugins()
    filter: _Plugins = _Plugins()
    pre_eviction_filter: _Plugins = msgspec.field(name="preevictionfilter", default=_Plugins())


class _Profile(a.PolicyFields, frozen=True, kw_only=True):
    name: str
    plugin_config: tuple[_PluginConfig, ...] = ()
    plugins: _Points = _Points()


class _Collector(a.PolicyFields, frozen=True, kw_only=True):
    enabled: bool = False


class _SecretReference(a.PolicyFields, frozen=True, kw_only=True):
    namespace: str = ""
    name: str = ""


class _AuthToken(a.PolicyFields, frozen=True, kw_only=True):
    secret_reference: _SecretReference | None = None


class PrometheusProvider(a.PolicyFields, frozen=True, kw_only=True):
    url: str = ""
    auth_token: _AuthToken | None = None


class _Provider(a.PolicyFields, frozen=True, kw_only=True):
    source: str = ""
    prometheus: PrometheusProvider | None = None


class _File(a.PolicyFields, frozen=True, kw_only=True):
    api_version: str
    kind: str
    profiles: tuple[_Profile, ...] = ()
    node_selector: str | None = None
    max_no_of_pods_to_evict_per_node: a.Natural | None = None
    max_no_of_pods_to_evict_per_namespace: a.Natural | None = None
    max_no_of_pods_to_evict_total: a.Natural | None = None
    eviction_failure_event_notification: bool | None = None
    metrics_collector: _Collector | None = None
    metrics_providers: tuple[_Provider, ...] = ()
    grace_period_seconds: a.Natural | None = None


# -- what it means ----------------------------------------------------------------------------------------------------


class Profile(PlainStruct, frozen=True):
    name: str
    evictor: a.DefaultEvictor
    #: The enabled strategies with their arguments, by extension point.
    strategies: Mapping[str, tuple[tuple[Strategy, a.Arguments], ...]]


class Policy(PlainStruct, frozen=True):
    name: str
    profiles: tuple[Profile, ...]
    node_selector: str
    per_node: int | None
    per_namespace: int | None
    total: int | None
    grace_period_seconds: int | None
    prometheus: PrometheusProvider | None

    def check_recorded(self) -> None:
        """Raises LoadError if it reads what recordings do not contain."""
        problems = [
            f"{self.name}: profile {profile.name}: {type(arguments).__name__} reads what a recording does not "
            f"contain: {missing}"
            for profile in self.profiles
            for arguments in (profile.evictor, *(one for point in profile.strategies.values() for _, one in point))
            for missing in arguments.unrecorded()
        ]
        if problems:
            raise LoadError(problems)

    def counts(self) -> EvictionCounts:
        return EvictionCounts(self.per_node, self.per_namespace, self.total)

    @property
    def metrics(self) -> tuple[a.MetricsUtilization, ...]:
        """What its strategies measure nodes by, instead of requests."""
        given = (one for profile in self.profiles for _, one in profile.strategies[BALANCE])
        found = (one.metrics_utilization for one in given if isinstance(one, a.LowNodeUtilization))
        return tuple(one for one in found if one is not None)


def read_policy(source: str | os.PathLike[str] | Mapping[str, Any]) -> Policy:
    """Read a file, or a mapping with the content of one; raises LoadError.

    Examples:
        >>> read_policy({"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy"}).profiles
        ()
    """
    document = read_document(source, "policy", lambda *lines: LoadError(lines), _SCALARS)
    _check_kind(document)
    file = document.read(_File, f"a {KIND}")
    reader = _Reader()
    profiles = tuple(reader.profile(one, ("profiles", index)) for index, one in enumerate(file.profiles))
    problems = [*reader.problems, *_problems_of_file(file)]
    if problems:
        raise document.error(problems)
    return Policy(
        name=document.name,
        profiles=profiles,
        node_selector=file.node_selector or "",
        per_node=file.max_no_of_pods_to_evict_per_node,
        per_namespace=file.max_no_of_pods_to_evict_per_namespace,
        total=file.max_no_of_pods_to_evict_total,
        grace_period_seconds=file.grace_period_seconds,
        prometheus=next((one.prometheus for one in file.metrics_providers if one.prometheus is not None), None),
    )


def _check_kind(document: Document) -> None:
    value = document.value
    if not isinstance(value, dict):
        return
    version, kind = value.get("apiVersion"), value.get("kind")
    if kind != KIND:
        raise document.error([(("kind",), f"want {KIND}, got {kind or 'nothing'}")])
    if version != API_VERSION:
        older = "; strategies became plugins of profiles then" if version == "descheduler/v1alpha1" else ""
        raise document.error([(("apiVersion",), f"want {API_VERSION}, got {version or 'nothing'}{older}")])


class _Reader:
    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def profile(self, given: _Profile, path: FieldPath) -> Profile:
        found: dict[str, a.Arguments] = {}
        for index, config in enumerate(given.plugin_config):
            at = (*path, "pluginConfig", index)
            if config.name not in _ARGUMENTS:
                self._unknown(config.name, _ARGUMENTS, (*at, "name"))
            elif config.name in found:
                self.problems.append(((*at, "name"), f"{config.name} is configured twice"))
            else:
                found[config.name] = self._arguments(config, (*at, "args"))
        evictor = found.get(_EVICTOR, a.DefaultEvictor())
        assert isinstance(evictor, a.DefaultEvictor)
        for name in ("presort", "sort"):
            for index, one in enumerate(getattr(given.plugins, "pre_sort" if name == "presort" else name).enabled):
                self.problems.append(((*path, "plugins", name, "enabled", index), f"there is no plugin {one} for it"))
        for name, at_point in (
            ("filter", given.plugins.filter),
            ("preevictionfilter", given.plugins.pre_eviction_filter),
        ):
            for index, one in enumerate(at_point.enabled):
                if one != _EVICTOR:
                    self._unknown(one, (_EVICTOR,), (*path, "plugins", name, "enabled", index))
        return Profile(
            name=given.name,
            evictor=evictor,
            strategies={
                DESCHEDULE: tuple(self._enabled(DESCHEDULE, given.plugins.deschedule, found, path)),
                BALANCE: tuple(self._enabled(BALANCE, given.plugins.balance, found, path)),
            },
        )

    def _arguments(self, config: _PluginConfig, path: FieldPath) -> a.Arguments:
        type_ = _ARGUMENTS[config.name]
        found, problems = read_arguments(type_, config.args or {})
        self.problems += [((*path, *below), message) for below, message in problems]
        return type_() if found is None else found

    def _enabled(
        self, point: str, plugins: _Plugins, found: Mapping[str, a.Arguments], path: FieldPath
    ) -> Iterator[tuple[Strategy, a.Arguments]]:
        known = {name: one for name, one in STRATEGIES.items() if one.point == point}
        for index, name in enumerate(plugins.enabled):
            at = (*path, "plugins", point, "enabled", index)
            if name not in known:
                self._unknown(name, known, at)
            elif name not in found:
                # Parity: a plugin without configuration is an error, whatever its defaults.
                self.problems.append((at, f"{name} has no entry in pluginConfig"))
            else:
                yield known[name], found[name]

    def _unknown(self, name: str, known: Mapping[str, Any] | Sequence[str], path: FieldPath) -> None:
        hint = next(did_you_mean(name, known), f"there are {', '.join(known)}")
        self.problems.append((path, f'there is no plugin "{name}" here; {hint}'))


def read_arguments(type_: type[A], given: Mapping[str, Any]) -> tuple[A | None, list[Problem]]:
    """A plugin's arguments, and what is wrong with them; as in Go, null is as good as not given."""
    found, problems = _SCALARS.converted(without_nulls(given), type_)
    return found, problems if found is None else list(found.problems())


def _problems_of_file(file: _File) -> Iterator[Problem]:
    yield from a.selector_problems(file.node_selector, "nodeSelector")
    sources = [one.source for one in file.metrics_providers]
    for index, provider in enumerate(file.metrics_providers):
        path: FieldPath = ("metricsProviders", index)
        if provider.source not in (a.KUBERNETES_METRICS, a.PROMETHEUS):
            wanted = f"want {a.KUBERNETES_METRICS} or {a.PROMETHEUS}"
            yield (*path, "source"), f'{wanted}, got "{provider.source}"'
        elif provider.source in sources[:index]:
            yield (*path, "source"), f"{provider.source} is given twice"
        elif provider.source == a.PROMETHEUS:
            yield from _problems_of_prometheus(provider.prometheus, path)
        elif file.metrics_collector is not None and file.metrics_collector.enabled:
            yield (*path, "source"), "cannot be set together with metricsCollector, which it replaces"


def _problems_of_prometheus(given: PrometheusProvider | None, path: FieldPath) -> Iterator[Problem]:
    if given is None or not given.url:
        yield path, "prometheus.url is missing"
        return
    secret = None if given.auth_token is None else given.auth_token.secret_reference
    if given.auth_token is not None and (secret is None or not secret.name or not secret.namespace):
        yield (*path, "prometheus", "authToken"), "want secretReference with namespace and name"
