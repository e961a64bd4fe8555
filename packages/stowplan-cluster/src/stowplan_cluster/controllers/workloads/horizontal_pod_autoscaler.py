"""HorizontalPodAutoscalers: scale a workload by what is measured of its pods.

The target is scaled through its scale subresource, so any kind with one will do, custom ones included. What is decided
is in `reconcile/horizontal_pod_autoscalers.py`.

Upstream: pkg/controller/podautoscaler.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stowplan.kube.api.api_errors import ApiError
from stowplan.kube.api.label_selectors import NOTHING, Selector
from stowplan.kube.structs import PlainStruct
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.registry import Options, Registry
from stowplan_cluster.apiserver.resources import Resource
from stowplan_cluster.apiserver.scale import scale_of, set_scale
from stowplan_cluster.apiserver.selection import label_selector_of
from stowplan_cluster.apiserver.store import Event, Stored
from stowplan_cluster.controllers.client import FIELD_MANAGER, NORMAL, WARNING, ControllerClient
from stowplan_cluster.controllers.resource_metrics import ResourceMetrics, scaled_pod
from stowplan_cluster.controllers.workloads.pod_templates import subject_of
from stowplan_cluster.reconcile import horizontal_pod_autoscalers as autoscaling
from stowplan_cluster.reconcile.horizontal_pod_autoscalers import (
    PERIOD_SECONDS,
    STORAGE,
    Decision,
    HorizontalPodAutoscaler,
    Scale,
    decode_autoscaler,
)
from stowplan_cluster.reconcile.pods import PODS
from stowplan_cluster.reconcile.scaling_rates import Memory
from stowplan_cluster.reconcile.views import Key


class _Known(PlainStruct):
    """What is kept of an autoscaler between two looks."""

    memory: Memory
    #: The time of the next look.
    due: float
    #: The pods of its target, as far as known.
    selector: Selector = NOTHING


class _TargetError(Exception):
    """The scale of a target cannot be read."""


class HorizontalPodAutoscalerController:
    def __init__(self, registry: Registry) -> None:
        self.name = "horizontal-pod-autoscaler-controller"
        self.watches = (STORAGE,)
        self._registry = registry
        self._client = ControllerClient(registry, "horizontal-pod-autoscaler")
        self._metrics = ResourceMetrics(registry.store, registry.clock)
        self._known: dict[Key, _Known] = {}

    def keys_of(self, event: Event) -> Sequence[Key]:
        # A change has to wait for the next look.
        stored = event.stored
        key = Key(stored.namespace, stored.name, stored.uid)
        return () if event.type == "MODIFIED" and key in self._known else (key,)

    def reconcile(self, key: Any) -> float | None:
        stored = self._client.find(STORAGE, key)
        if stored is None:
            self._known.pop(key, None)
            return None
        now = self._client.now
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = _Known(Memory(), now + PERIOD_SECONDS)
        if known.due <= now:
            known.due = now + PERIOD_SECONDS
            self._look(stored, key, known)
        return known.due - now

    def _look(self, stored: Stored, key: Key, known: _Known) -> None:
        autoscaler, now = decode_autoscaler(stored), self._client.now
        try:
            resource, target = self._target(autoscaler)
            scale = scale_of(self._registry, resource, target)
        except (ApiError, _TargetError) as error:
            self._finish(stored, autoscaler, autoscaling.without_scale(autoscaler, str(error), now))
            return
        decision = autoscaling.decide(autoscaler, self._scale(autoscaler, scale, key, known), known.memory, now)
        if decision.replicas is None:
            self._finish(stored, autoscaler, decision)
            return
        try:
            scale["spec"]["replicas"] = decision.replicas
            namespace = autoscaler.metadata.namespace
            options = Options(field_manager=FIELD_MANAGER)
            set_scale(self._registry, resource, namespace, target.name, scale, options=options)
        except ApiError as error:
            status, warned = decision.failed(str(error), autoscaler.status, now)
            self._finish(stored, autoscaler, decision._replace(status=status, warnings=[*decision.warnings, warned]))
            return
        self._client.events.record(subject_of(autoscaler), NORMAL, "SuccessfulRescale", decision.event)
        known.memory.rescaled(autoscaler.spec.behavior, decision.before, decision.replicas, now)
        self._finish(stored, autoscaler, decision)

    def _target(self, autoscaler: HorizontalPodAutoscaler) -> tuple[Resource, Stored]:
        wanted = autoscaler.spec.target
        group = wanted.api_version.rpartition("/")[0]
        served = [one for one in self._registry.catalogue if (one.group, one.kind) == (group, wanted.kind)]
        if not served:
            raise _TargetError(f'no matches for kind "{wanted.kind}" in group "{group}"')
        resource = next((one for one in served if "scale" in one.subresources), None)
        if resource is None:
            raise _TargetError("the server could not find the requested resource")
        return resource, self._registry.get(resource, autoscaler.metadata.namespace, wanted.name)

    def _scale(self, autoscaler: HorizontalPodAutoscaler, scale: JsonObject, key: Key, known: _Known) -> Scale:
        text = scale["status"].get("selector", "")
        known.selector = label_selector_of(text) if text else NOTHING
        namespace = autoscaler.metadata.namespace
        pods = [pod for pod in self._client.store.list(PODS, namespace) if known.selector.matches(pod.labels)]
        usage = self._metrics.measured(pods)
        others = {
            other.name: one.selector
            for other, one in self._known.items()
            if other.namespace == namespace and other != key
        }
        return Scale(
            replicas=scale["spec"]["replicas"],
            selector=text,
            pods=[scaled_pod(pod) for pod in pods],
            measured={pod.name: usage[pod.uid] for pod in pods if pod.uid in usage},
            rivals=autoscaling.rivals(autoscaler, [pod.labels for pod in pods], others) if others else (),
        )

    def _finish(self, stored: Stored, autoscaler: HorizontalPodAutoscaler, decision: Decision) -> None:
        for warned in decision.warnings:
            self._client.events.record(subject_of(autoscaler), WARNING, warned.reason, warned.message)
        self._client.update_status(stored, decision.status)
