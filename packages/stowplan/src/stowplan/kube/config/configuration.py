"""A complete configuration: defaulted, merged, validated.

The rest of the scheduler reads `Configuration`. Field names are those of the file in snake case. The structs are
frozen; changes create new ones.

Upstream: pkg/scheduler/apis/config/types.go.
"""

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any

import msgspec
from msgspec.structs import replace

from stowplan.kube.api.durations import Duration
from stowplan.kube.api.urls import without_password
from stowplan.kube.config.schema import POINTS, configuration_at
from stowplan.kube.config.serialize import encode_object, same_args
from stowplan.kube.kubernetes_versions import DEFAULT_VERSION, KubernetesVersion


class LeaderElection(msgspec.Struct, frozen=True, rename="camel"):
    leader_elect: bool = True
    lease_duration: Duration = Duration.of_seconds(15)
    renew_deadline: Duration = Duration.of_seconds(10)
    retry_period: Duration = Duration.of_seconds(2)
    resource_lock: str = "leases"
    resource_name: str = "kube-scheduler"
    resource_namespace: str = "kube-system"


class ClientConnection(msgspec.Struct, frozen=True, rename="camel"):
    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = "application/vnd.kubernetes.protobuf"
    qps: float = 50  #: negative = no client-side limit
    burst: int = 100


class ExtenderTLSConfig(msgspec.Struct, frozen=True, rename="camel"):
    """Certificates of an extender; data takes precedence over files."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: bytes = b""
    key_data: bytes = b""
    ca_data: bytes = b""


class ExtenderManagedResource(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    ignored_by_scheduler: bool = False


class Extender(msgspec.Struct, frozen=True, rename="camel"):
    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: int = 0
    bind_verb: str = ""
    enable_https: bool = msgspec.field(default=False, name="enableHTTPS")
    tls_config: ExtenderTLSConfig | None = None
    http_timeout: Duration = Duration.of_seconds(5)
    node_cache_capable: bool = False
    managed_resources: tuple[ExtenderManagedResource, ...] = ()
    ignorable: bool = False

    def without_secrets(self) -> "Extender":
        tls = self.tls_config
        if tls is not None and tls.key_data:
            # Both: a certificate alone would be no valid configuration.
            tls = replace(tls, cert_data=b"", key_data=b"")
        return replace(self, url_prefix=without_password(self.url_prefix), tls_config=tls)


class Plugin(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    weight: int = 0  #: 0 = 1 at scoring points


class PluginSet(msgspec.Struct, frozen=True, rename="camel"):
    enabled: tuple[Plugin, ...] = ()
    disabled: tuple[Plugin, ...] = ()


class Plugins(msgspec.Struct, frozen=True, rename="camel"):
    """The enabled and disabled plugins per extension point, before multiPoint is expanded."""

    pre_enqueue: PluginSet = PluginSet()
    queue_sort: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    pre_score: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    reserve: PluginSet = PluginSet()
    permit: PluginSet = PluginSet()
    pre_bind: PluginSet = PluginSet()
    bind: PluginSet = PluginSet()
    post_bind: PluginSet = PluginSet()
    multi_point: PluginSet = PluginSet()
    placement_generate: PluginSet = PluginSet()
    placement_score: PluginSet = PluginSet()
    pod_group_post_filter: PluginSet = PluginSet()

    def at(self, point: str) -> PluginSet:
        plugin_set: PluginSet = getattr(self, _ATTRIBUTE[point])
        return plugin_set

    def by_point(self) -> Iterator[tuple[str, PluginSet]]:
        return ((point, self.at(point)) for point in POINTS)

    def names(self) -> frozenset[str]:
        """All plugins that are enabled at some point."""
        return frozenset(plugin.name for point in POINTS for plugin in self.at(point).enabled)


_ATTRIBUTE = {field.encode_name: field.name for field in msgspec.structs.fields(Plugins)}


def attribute_of_point(point: str) -> str:
    return _ATTRIBUTE[point]


class PluginConfig(msgspec.Struct, frozen=True, rename="camel"):
    """Arguments of one plugin: of its declared type, otherwise as in the file; None = not given."""

    name: str
    args: Any = None


class PluginRef(msgspec.Struct, frozen=True):
    """A plugin at one extension point. `weight` is 0 at points without weights."""

    name: str
    weight: int = 0


class Profile(msgspec.Struct, frozen=True, rename="camel"):
    scheduler_name: str = ""
    #: None = use the configuration's value.
    percentage_of_nodes_to_score: int | None = None
    plugins: Plugins = Plugins()
    #: In a complete configuration: enabled plugins only, sorted by name.
    plugin_config: tuple[PluginConfig, ...] = ()
    #: Extension point -> its plugins in call order, for all points except multiPoint.
    points: Mapping[str, tuple[PluginRef, ...]] = {}

    def plugin_args(self, name: str) -> Any:
        return next((config.args for config in self.plugin_config if config.name == name), None)

    def equals(self, other: "Profile") -> bool:
        """`==`, also for arguments of classes that do not define it."""
        pairs = zip_longest(self.plugin_config, other.plugin_config, fillvalue=PluginConfig(""))
        same = all(own.name == its.name and same_args(own.args, its.args) for own, its in pairs)
        return same and replace(self, plugin_config=()) == replace(other, plugin_config=())


class Configuration(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A KubeSchedulerConfiguration after defaults and merging.

    Examples:
        >>> configuration = load_config("configurations/two-profiles.yaml")
        >>> list(configuration.effective_plugins())
        ['default-scheduler', 'batch']
    """

    parallelism: int = 16
    leader_election: LeaderElection = LeaderElection()
    client_connection: ClientConnection = ClientConnection()
    enable_profiling: bool = True
    #: Follows enable_profiling unless it is set.
    enable_contention_profiling: bool = False
    percentage_of_nodes_to_score: int = 0  #: 0 = adaptive
    pod_initial_backoff_seconds: int = 1
    pod_max_backoff_seconds: int = 10
    profiles: tuple[Profile, ...] = ()
    #: In file order; see `extenders_in_call_order`.
    extenders: tuple[Extender, ...] = ()
    delay_cache_until_active: bool = False
    #: The version of kube-scheduler that it was completed for.
    emulated_version: KubernetesVersion = DEFAULT_VERSION

    def __repr__(self) -> str:
        names = ", ".join(profile.scheduler_name for profile in self.profiles)
        return f"<Configuration: {'profiles' if len(self.profiles) > 1 else 'profile'} {names}>"

    def profile(self, scheduler_name: str) -> Profile:
        """The profile with this scheduler name; KeyError if there is none."""
        for profile in self.profiles:
            if profile.scheduler_name == scheduler_name:
                return profile
        raise KeyError(scheduler_name)

    @property
    def extenders_in_call_order(self) -> tuple[Extender, ...]:
        """The extenders, ignorable ones last."""
        return tuple(sorted(self.extenders, key=lambda extender: extender.ignorable))

    def to_dict(self) -> dict[str, Any]:
        """The configuration as a KubeSchedulerConfiguration v1, like the output of `--write-config-to`."""
        return encode_object(configuration_at(self.emulated_version), self)

    def shown(self) -> dict[str, Any]:
        """For logs, pages and recordings: `to_dict` without passwords and keys."""
        return replace(self, extenders=tuple(extender.without_secrets() for extender in self.extenders)).to_dict()

    def effective_plugins(self) -> dict[str, dict[str, list[dict[str, Any]]]]:
        """Profile -> extension point -> plugins in call order; points without plugins are omitted."""
        return {profile.scheduler_name: _effective(profile) for profile in self.profiles}


#: The reference's own listing omits the points of pod groups.
_UNLISTED_POINTS = frozenset({"placementGenerate", "placementScore", "podGroupPostFilter"})


def _effective(profile: Profile) -> dict[str, list[dict[str, Any]]]:
    return {
        point: [{"name": ref.name, "weight": ref.weight} if point == "score" else {"name": ref.name} for ref in refs]
        for point, refs in profile.points.items()
        if refs and point not in _UNLISTED_POINTS
    }
