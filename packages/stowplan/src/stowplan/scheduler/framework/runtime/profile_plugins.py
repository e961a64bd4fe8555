"""The enabled plugins of a profile, per extension point.

Upstream: pkg/scheduler/framework/runtime/framework.go.
"""

# mypy: disable-error-code="type-abstract"
from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from inspect import isgeneratorfunction
from itertools import count
from typing import TypeVar

from stowplan.kube.compiled import mypyc_attr
from stowplan.kube.config import Profile
from stowplan.kube.config.configuration import PluginRef
from stowplan.scheduler.framework import interface
from stowplan.scheduler.framework.boundary import Raised, call
from stowplan.scheduler.framework.declarations import (
    CountsPods,
    Plugin,
    Reads,
    ReadsNoObjects,
    ShapeSigned,
    SignPlugin,
    TemplateSigned,
)
from stowplan.scheduler.framework.handle import Handle
from stowplan.scheduler.framework.runtime.applicable_plugins import ApplicablePlugins
from stowplan.scheduler.framework.runtime.registry import Registry

P = TypeVar("P", bound=Plugin)

#: Holds back the pods of a group until there are enough, and decides how many need nodes.
_GANGS = "GangScheduling"

#: Numbers of plugin arrangements: what a shape caches for one is not valid for another.
_arrangements = count()


@mypyc_attr(native_class=False)
class PluginInitError(ValueError):
    """A plugin could not be built; the text is upstream's."""


class ProfilePlugins:
    """A profile's plugins, per extension point, in the profile's order."""

    def __init__(self, profile: Profile, registry: Registry, handle: Handle) -> None:
        self.profile_name = profile.scheduler_name
        self.profile = profile
        self.handle = handle
        self.plugins: dict[str, Plugin] = {}
        #: Plugins that are currently disabled.
        self.switched_off: frozenset[str] = frozenset()
        self._refs = profile.points
        try:
            self._build_all(registry)
            self._arrange()
        except BaseException:
            self.close()
            raise
        #: The plugins' declarations, by name.
        self.declarations = {name: registry.declarations[name] for name in self.plugins}

    def _build_all(self, registry: Registry) -> None:
        enabled = {ref.name for point in interface.EXTENSION_POINTS for ref in self._refs.get(point, ())}
        if _GANGS not in enabled and self.handle.cluster.declared_groups.kinds.get(self.profile_name) is not None:
            # It is enabled by a gate, which these groups do not need.
            self._refs = {**self._refs, "preEnqueue": (*self._refs.get("preEnqueue", ()), PluginRef(_GANGS))}
            enabled.add(_GANGS)
        for name in sorted(enabled):
            plugin = self.plugins[name] = self._build(name, self.profile, registry, self.handle)
            plugin.reads = interface.trusted_reads(plugin)
            plugin.hang_guard = registry.guards.get(name, plugin.hang_guard)
            if isinstance(plugin, interface.ScorePlugin):
                plugin.normalizes = type(plugin).normalize is not interface.ScorePlugin.normalize

    def _arrange(self) -> None:
        """Build the lists of enabled plugins, per extension point, in the profile's order."""
        refs = {
            point: tuple(ref for ref in self._refs.get(point, ()) if ref.name not in self.switched_off)
            for point in interface.EXTENSION_POINTS
        }
        self.points = {point: tuple(ref.name for ref in of_point) for point, of_point in refs.items()}
        self.pre_enqueue = self._at("preEnqueue", interface.PreEnqueuePlugin)
        self.queue_sort = self._at("queueSort", interface.QueueSortPlugin)
        self.pre_filter = self._at("preFilter", interface.PreFilterPlugin)
        self.filter = self._at("filter", interface.FilterPlugin)
        self.post_filter = self._at("postFilter", interface.PostFilterPlugin)
        self.pre_score = self._at("preScore", interface.PreScorePlugin)
        self.score = self._at("score", interface.ScorePlugin)
        self.reserve = self._at("reserve", interface.ReservePlugin)
        #: Plugins that modify pods when they are assumed.
        self.assuming = tuple(plugin for plugin in self.reserve if plugin.changes_assumed_pods)
        self.permit = self._at("permit", interface.PermitPlugin)
        self.pre_bind = self._at("preBind", interface.PreBindPlugin)
        self.bind = self._at("bind", interface.BindPlugin)
        self.post_bind = self._at("postBind", interface.PostBindPlugin)
        self.placement_generate = self._at("placementGenerate", interface.PlacementGeneratePlugin)
        self.placement_score = self._at("placementScore", interface.PlacementScorePlugin)
        self.pod_group_post_filter = self._at("podGroupPostFilter", interface.PodGroupPostFilterPlugin)
        #: Extension point -> plugins that use steps instead of coroutines.
        self.stepping = {
            "PreBind": frozenset(p.name for p in self.pre_bind if isgeneratorfunction(p.pre_bind)),
            "Bind": frozenset(p.name for p in self.bind if isgeneratorfunction(p.bind)),
            "PostBind": frozenset(p.name for p in self.post_bind if isgeneratorfunction(p.post_bind)),
            "PostFilter": frozenset(p.name for p in self.post_filter if isgeneratorfunction(p.post_filter)),
        }
        #: Plugins that may be called for questions.
        self.effect_free_post_filter = tuple(
            p for p in self.post_filter if p.effect_free and p.name not in self.stepping["PostFilter"]
        )
        self._regard_extenders()
        self.weights = {ref.name: ref.weight or 1 for ref in refs["score"]}
        self.placement_weights = {ref.name: ref.weight or 1 for ref in refs["placementScore"]}
        self._arrangement = next(_arrangements)
        deciding = {p.name: p for p in (*self.pre_filter, *self.filter, *self.pre_score, *self.score)}.values()
        self._signers = self._find_signers(deciding)
        #: Plugins with cached results that may depend on lookup objects.
        self.object_readers = tuple(
            p for p in deciding if p.reads is not Reads.ANYTHING and not isinstance(p, ReadsNoObjects)
        )
        #: Plugins whose result for a node may change with pods on other nodes (see `Reads`).
        self.cluster_dependent_filters = _cluster_dependent(self.filter)
        #: Those of them that report whether their state is still valid, by name.
        self.pod_counters = {p.name: p for p in deciding if isinstance(p, CountsPods)}
        self.cluster_dependent_pre_filters = _cluster_dependent(self.pre_filter)
        self.cluster_dependent_pre_scores = _cluster_dependent(self.pre_score)
        #: Plugins that run in every cycle, each time with nothing of theirs in its state: those that filter, and those
        #: that only score.
        self.undeclared_filters = _undeclared(*self.pre_filter, *self.filter)
        self.undeclared_scores = _undeclared(*self.pre_score, *self.score) - self.undeclared_filters
        #: Scores that are added up as they are, and change with the sums of a node alone.
        self.summed_scores = {
            p.name: p
            for p in self.score
            if p.reads is Reads.NODE_SUMS and p.in_range and not p.normalizes and p.name not in self.pod_counters
        }
        #: Plugins that are called for every pod.
        self.everyone = ApplicablePlugins.all_of(
            self._signers or (), self.cluster_dependent_pre_filters, self.reserve, self.pre_bind
        )

    def _regard_extenders(self) -> None:
        extenders = self.handle.extenders()
        #: Whether scheduling cycles may have to wait for an extender or plugin.
        self.suspends = bool(extenders or self.stepping["PostFilter"])
        #: Whether all feasible nodes are equally good.
        self.takes_any_node = not self.score and not any(e.filters or e.prioritizes for e in extenders)
        #: The plugin that binds every pod with a single request; None: the binder is determined per pod.
        self.request_binder: interface.RequestBinder | None = None
        first = self.bind[0] if self.bind and not any(e.binds for e in extenders) else None
        if isinstance(first, interface.RequestBinder) and type(first).bind is interface.RequestBinder.bind:
            self.request_binder = first

    @contextmanager
    def without_extenders(self) -> Iterator[None]:
        """Decide as if no extenders were configured."""
        try:
            with self.handle.without_extenders():
                self._regard_extenders()
                yield
        finally:
            self._regard_extenders()

    def switch_off(self, names: Collection[str]) -> None:
        """Disable plugins at every extension point until they are switched on again; unknown names are ignored."""
        self._switch(self.switched_off | self.plugins.keys() & names)

    def switch_on(self, names: Collection[str]) -> None:
        """Enable plugins again, each at its position."""
        self._switch(self.switched_off.difference(names))

    def leave_out(self, names: Collection[str]) -> None:
        """Disable exactly these plugins."""
        self._switch(frozenset(self.plugins.keys() & names))

    def _switch(self, off: frozenset[str]) -> None:
        if off != self.switched_off:
            self.switched_off = off
            self._arrange()

    @staticmethod
    def _build(name: str, profile: Profile, registry: Registry, handle: Handle) -> Plugin:
        plugin = registry.get(name)
        if plugin is None:
            raise PluginInitError(f'initializing plugin "{name}": no plugin of that name is registered')
        built = call(plugin, profile.plugin_args(name), handle, check=None, failed=Raised)
        if isinstance(built, Raised):
            hint = _signature_hint(built.cause)
            raise PluginInitError(f'initializing plugin "{name}": {built}{hint}') from built.cause
        return built

    def _at(self, point: str, kind: type[P]) -> tuple[P, ...]:
        found = []
        for name in self.points[point]:
            plugin = self.plugins[name]
            if not isinstance(plugin, kind):
                raise PluginInitError(f'plugin "{name}" does not extend {kind.__name__} plugin')
            found.append(plugin)
        return tuple(found)

    def _find_signers(self, deciding: Collection[Plugin]) -> tuple[SignPlugin, ...] | None:
        """Plugins whose signatures must be equal for pods to share results; None if some plugin cannot sign pods."""
        if not all(isinstance(plugin, SignPlugin) for plugin in deciding):
            return None
        self._by_shape = any(isinstance(p, ShapeSigned) and not isinstance(p, TemplateSigned) for p in deciding)
        return tuple(p for p in deciding if isinstance(p, SignPlugin) and not isinstance(p, ShapeSigned))

    def close(self) -> list[str]:
        """Close every plugin; return the failures."""
        problems = []
        for plugin in self.plugins.values():
            failed = call(plugin.close, check=None, failed=Raised, at=("Close", plugin))
            if isinstance(failed, Raised):
                problems.append(f"{plugin.name} failed to close: {failed}")
        return problems


def _signature_hint(raised: BaseException) -> str:
    """For a constructor that could not be called at all."""
    traceback = raised.__traceback__
    called = not isinstance(raised, TypeError) or traceback is None or traceback.tb_next is not None
    return "" if called else "; __init__ is called with the plugin's arguments and its handle"


def _undeclared(*plugins: Plugin) -> frozenset[str]:
    return frozenset(p.name for p in plugins if p.reads is Reads.ANYTHING)


def _cluster_dependent(plugins: tuple[P, ...]) -> tuple[P, ...]:
    """Plugins whose result for a node may change with pods on other nodes."""
    return tuple(p for p in plugins if p.reads in (Reads.CLUSTER_PODS, Reads.ANYTHING))
