"""Invalidate plugin results when lookup objects change.

Each plugin is watched separately: a change of the objects that it reads (`Plugin.reads_objects`) invalidates its
results only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Collection

    from stowplan.scheduler.cluster.objects import ObjectWatch
    from stowplan.scheduler.cluster.pod_info import PodInfo
    from stowplan.scheduler.framework.interface import Plugin
    from stowplan.scheduler.framework.runtime.framework import Framework

    P = TypeVar("P", bound=Plugin)

_NONE: frozenset[str] = frozenset()


class ObjectWatches:
    """The lookup objects that results for pods of one signature depend on, by plugin."""

    def __init__(self, framework: Framework, pod: PodInfo) -> None:
        self._framework = framework
        self._store = framework.handle.cluster.objects
        self._watches: dict[str, ObjectWatch] = {}
        #: The store's version when no plugin was outdated.
        self._total = -1
        self.watch(pod, [plugin.name for plugin in framework.object_readers])

    def outdated(self) -> frozenset[str]:
        """The plugins whose objects changed since they were last watched."""
        total = self._store.total_version
        if total == self._total:
            return _NONE
        found = frozenset(name for name, watch in self._watches.items() if watch.changed())
        if not found:
            # Only other objects changed: makes the next check cheap.
            self._total = total
        return found

    def watch(self, pod: PodInfo, plugins: Collection[str]) -> None:
        """Watch again, after all outdated plugins were called.

        The set of objects may depend on those that changed: a claim names its volume.
        """
        for plugin in self._framework.object_readers if plugins else ():
            if plugin.name in plugins:
                self._watches[plugin.name] = self._framework.watch_objects(pod, plugin)
        self._total = self._store.total_version


def plugins_to_rerun(plugins: tuple[P, ...], moving: tuple[P, ...], outdated: Collection[str]) -> tuple[P, ...]:
    """The plugins of an extension point that depend on pods on any node, and the outdated ones, in order."""
    return tuple(p for p in plugins if p in moving or p.name in outdated) if outdated else moving
