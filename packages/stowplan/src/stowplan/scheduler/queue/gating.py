"""PreEnqueue: decide whether a pod may enter the active queue.

The plugin that gated a pod last is called first, so a pod that stays gated costs one call.

Upstream: pkg/scheduler/backend/queue/scheduling_queue.go (runPreEnqueuePlugins), docs/reference/behaviour.md, Gating.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.kube.klog import get_logger
from stowplan.scheduler.framework.boundary import call
from stowplan.scheduler.framework.status import Code

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stowplan.scheduler.framework.interface import PreEnqueuePlugin
    from stowplan.scheduler.framework.runtime.framework import Framework
    from stowplan.scheduler.framework.runtime.metrics import PluginTimes
    from stowplan.scheduler.framework.status import Status
    from stowplan.scheduler.queue.observer import QueueObserver
    from stowplan.scheduler.queue.queued_pod import QueuedPod

_log = get_logger(__name__)


class Gate:
    """The PreEnqueue plugins of all profiles."""

    def __init__(self, frameworks: Mapping[str, Framework], observer: QueueObserver) -> None:
        self._frameworks = frameworks
        self._observer = observer

    def gating_plugin(self, queued: QueuedPod) -> str:
        """Run PreEnqueue: name of the plugin that gates the pod; "" if none does."""
        framework = self._frameworks.get(queued.pod.shape.scheduler_name)
        if framework is None:
            return ""
        metrics = framework.metrics
        if metrics is None:
            return self._first_refusing(framework, queued, None)
        started = metrics.now()
        plugin = self._first_refusing(framework, queued, metrics.draw())
        # Parity: recorded as a success even if the pod is gated.
        metrics.points["PreEnqueue"].ran(started)
        return plugin

    def _first_refusing(self, framework: Framework, queued: QueuedPod, times: PluginTimes | None) -> str:
        plugins: Sequence[PreEnqueuePlugin] = framework.pre_enqueue
        if gated_by := queued.gating_plugin:
            # A pod that stays gated costs one call.
            plugins = sorted(plugins, key=lambda plugin: plugin.name != gated_by)
        for plugin in plugins:
            status = call(plugin.pre_enqueue, queued.pod, times=times, at=("PreEnqueue", plugin.name))
            if status is not None and status.code != Code.Success:
                if status.code == Code.Error:
                    self._report(plugin, queued, status)
                else:
                    _log_gated(plugin, queued, status)
                return plugin.name
        return ""

    def _report(self, plugin: PreEnqueuePlugin, queued: QueuedPod, status: Status) -> None:
        self._observer.problem(
            f'PreEnqueue plugin "{plugin.name}" failed on pod {queued.key}, which waits: {status.message}'
        )


def _log_gated(plugin: PreEnqueuePlugin, queued: QueuedPod, status: Status) -> None:
    verbose = _log.v(4)
    if verbose.enabled:
        text = "Status after running PreEnqueue plugin"
        verbose.info(text, pod=queued.pod, plugin=plugin.name, status=status.message)
