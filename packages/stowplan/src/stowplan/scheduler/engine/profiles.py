"""The active profiles, and those of an offered configuration.

A configuration is replaced in two steps, because objects that its plugins need have to be fetched in between:

    offered    its profiles are built next to the active ones, without being used
    adopted    they become active, all at once, between two steps

A profile that is equal in both stays as it is, with the state of its plugins. A profile that is replaced or removed is
kept until the last binding cycle that began with it is over; then its plugins are closed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stowplan.kube.config import ConfigError, Configuration, FeatureGates, Profile, load_config
from stowplan.kube.kubernetes_versions import V1_37
from stowplan.kube.metrics.scheduler import SchedulerMetrics
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.declared_groups import GroupKind
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.engine.context import Meter, Reporter
from stowplan.scheduler.engine.plugin_inputs import EffectRecorder, PluginInputs
from stowplan.scheduler.extenders.http_extender import configured_extenders
from stowplan.scheduler.framework.boundary import Raised, call
from stowplan.scheduler.framework.extender import Extender
from stowplan.scheduler.framework.handle import Handle, Random, RunningScheduler
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.framework.runtime.metrics import FrameworkMetrics
from stowplan.scheduler.framework.runtime.profile_plugins import PluginInitError

if TYPE_CHECKING:
    from stowplan.scheduler.framework.runtime.registry import Registry


class Offer(PlainStruct, frozen=True, kw_only=True):
    """A configuration that may become active."""

    configuration: Configuration
    #: By name, in the configuration's order; unchanged profiles are the active ones.
    frameworks: Mapping[str, Framework]
    extenders: tuple[Extender, ...]


def group_kinds(configuration: Configuration, registry: Registry, features: FeatureGates) -> dict[str, GroupKind]:
    """The custom resources whose objects are groups of pods, by scheduler name; raises PluginInitError."""
    found: dict[str, GroupKind] = {}
    for profile in configuration.profiles:
        for name in sorted({ref.name for refs in profile.points.values() for ref in refs}):
            plugin = registry.get(name)
            if plugin is None:
                continue
            kind = call(plugin.group_kind, profile.plugin_args(name), check=None, failed=Raised)
            if isinstance(kind, Raised):
                raise PluginInitError(f'asking plugin "{name}" for its group kind: {kind}') from kind.cause
            if kind is None:
                continue
            if features.emulated_version < V1_37:
                raise PluginInitError(f"plugin {name}: groups of {kind.kind.resource} need Kubernetes 1.37 or later")
            found[profile.scheduler_name] = kind
    return found


class FrameworkBuilder(PlainStruct, frozen=True, kw_only=True, eq=False):
    """Builds the framework of a profile, with what all profiles of an engine share."""

    registry: "Registry"  # noqa: UP037
    cluster: ClusterState
    features: FeatureGates
    random: Random | None
    scheduler: RunningScheduler
    #: For recorded Events; None: there are none.
    events: PluginInputs | None
    #: None: nothing is counted.
    metrics: SchedulerMetrics | None
    meter: Meter
    #: Whether attempts are traced, and the engine's time minus the meter's.
    traced: bool
    ahead: float

    def build(self, profile: Profile, extenders: Sequence[Extender], *, in_force: bool = True) -> Framework:
        """`in_force`: whether the profile is active from the start."""
        name, metrics, meter = profile.scheduler_name, self.metrics, self.meter
        handle = Handle(
            cluster=self.cluster,
            profile_name=name,
            features=self.features,
            random=self.random,
            scheduler=self.scheduler,
            extenders=extenders,
            event_recorder=None if self.events is None else EffectRecorder(self.events, name),
            metrics=metrics,
            in_force=in_force,
        )
        if metrics is None:
            return Framework(profile, self.registry, handle)
        measured = FrameworkMetrics(
            metrics, profile=name, now=meter.clock, chance=meter.random, traced=self.traced, ahead=self.ahead
        )
        return Framework(profile, self.registry, handle, measured)


class Profiles:
    def __init__(
        self,
        configuration: Configuration,
        in_force: dict[str, Framework],
        *,
        builder: FrameworkBuilder,
        features: FeatureGates,
        extenders: Sequence[Extender] | None,
        reporter: Reporter,
    ) -> None:
        """`extenders` are shared by all configurations; None: each has its own."""
        self._builder = builder
        self._registry = builder.registry
        self._features = features
        self._given = None if extenders is None else tuple(extenders)
        self._reporter = reporter
        self.configuration = configuration
        self._extenders = self._extenders_of(configuration)
        #: By name. This mapping is shared and updated in place, so that its readers see replaced profiles.
        self.in_force = in_force
        for profile in configuration.profiles:
            in_force[profile.scheduler_name] = builder.build(profile, self._extenders)
        self.offer: Offer | None = None
        #: Why the last offered configuration cannot be used; "" if it can.
        self.refusal = ""
        #: Replaced profiles that may still be in use.
        self.retired: list[Framework] = []

    def _extenders_of(self, configuration: Configuration) -> tuple[Extender, ...]:
        return configured_extenders(configuration) if self._given is None else self._given

    # -- replacing the configuration -----------------------------------------------------------------------------------

    def take_offer(self, configuration: Mapping[str, Any]) -> None:
        """Build the profiles of a configuration; sets `refusal` if that fails."""
        self.decline()
        built = call(self._built, configuration, check=None, failed=Raised)
        if isinstance(built, Offer):
            self.offer, self.refusal = built, ""
        elif isinstance(built.cause, ConfigError | PluginInitError):
            self.refusal = str(built.cause)
        else:
            # A user plugin that is malformed.
            self.refusal = f"{type(built.cause).__name__}: {built.cause}"

    def _built(self, given: Mapping[str, Any]) -> Offer:
        plugins = self._registry.declarations
        configuration = load_config(dict(given), plugins=plugins, features=self._features)
        kinds = [group_kinds(one, self._registry, self._features) for one in (configuration, self.configuration)]
        if kinds[0] != kinds[1]:
            raise ConfigError("which custom resources are pod groups can only be changed by a restart")
        same_extenders = configuration.extenders == self.configuration.extenders
        extenders = self._extenders if same_extenders else self._extenders_of(configuration)
        found: dict[str, Framework] = {}
        try:
            for profile in configuration.profiles:
                name = profile.scheduler_name
                known = self.in_force.get(name)
                if known is not None and known.profile.equals(profile) and same_extenders:
                    found[name] = known
                    continue
                found[name] = self._builder.build(profile, extenders, in_force=False)
                # The queue calls this again, and must not be the first to find that it fails.
                found[name].registered_events()
        # Also of Ctrl-C: plugins that were built may hold threads or connections.
        except BaseException:
            self._close(self._new(found))
            raise
        return Offer(configuration=configuration, frameworks=found, extenders=extenders)

    def decline(self) -> None:
        """Drop the offer, if there is one."""
        if self.offer is not None:
            self._close(self._new(self.offer.frameworks))
            self.offer = None

    def adopt(self, lacking: Collection[str]) -> frozenset[str]:
        """Activate the offered profiles, and return those that are new or removed. A changed profile is both.

        `lacking`: the plugins whose kinds are not served.
        """
        offer, self.offer = self.offer, None
        if offer is None:
            return frozenset()
        gone = [framework for name, framework in self.in_force.items() if offer.frameworks.get(name) is not framework]
        new = self._new(offer.frameworks)
        self.retired += gone
        self.in_force.clear()
        self.in_force.update(offer.frameworks)
        self.configuration, self._extenders = offer.configuration, offer.extenders
        # Before the new ones register: a changed profile has the same names.
        for framework in gone:
            framework.handle.cluster.transactions.unregister(f"{framework.profile_name}/")
        for framework in new:
            framework.handle.take_over()
        for framework in self.in_force.values():
            framework.leave_out(lacking)
        return frozenset(framework.profile_name for framework in (*gone, *new))

    def _new(self, frameworks: Mapping[str, Framework]) -> list[Framework]:
        return [framework for name, framework in frameworks.items() if self.in_force.get(name) is not framework]

    # -- closing -------------------------------------------------------------------------------------------------------

    def close_unused(self, used: Collection[Framework]) -> None:
        """Close the replaced profiles that no binding cycle uses any more."""
        unused = [framework for framework in self.retired if framework not in used]
        self.retired = [framework for framework in self.retired if framework in used]
        self._close(unused)

    def close(self) -> None:
        self.decline()
        self._close((*self.retired, *self.in_force.values()))

    def _close(self, frameworks: Iterable[Framework]) -> None:
        for framework in frameworks:
            for problem in framework.close():
                self._reporter.report(problem)
