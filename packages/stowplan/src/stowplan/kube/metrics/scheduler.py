"""kube-scheduler's metrics: one attribute per metric, named without "scheduler_".

Metrics behind a disabled feature gate exist as well, in a registry that is not exported.

Upstream: pkg/scheduler/metrics/metrics.go, pkg/scheduler/framework/plugins/volumebinding/metrics/metrics.go.
"""

from __future__ import annotations

from typing import Protocol

from stowplan.kube.kubernetes_versions import V1_37, KubernetesVersion
from stowplan.kube.metrics.families import Counter, CounterVec, GaugeVec, Histogram, HistogramVec
from stowplan.kube.metrics.registry import MetricsRegistry, exponential_buckets

_FROM_1_MS = exponential_buckets(0.001, 2, 15)
_FROM_100_US = exponential_buckets(0.0001, 2, 12)
_FROM_10_US = exponential_buckets(0.00001, 2, 12)
_FROM_10_US_CLOSE = exponential_buckets(0.00001, 1.5, 20)
_FROM_10_MS = exponential_buckets(0.01, 2, 20)

QUEUES = ("active", "backoff", "unschedulable", "gated")
#: Where pods wait for their group; since 1.37.
QUEUES_OF_MEMBERS = ("incomplete", "pending")


class Gates(Protocol):
    @property
    def emulated_version(self) -> KubernetesVersion: ...

    def enabled(self, name: str, /) -> bool: ...


class SchedulerMetrics:
    """All metrics of scheduling. Hot paths keep the labeled children."""

    def __init__(self, registry: MetricsRegistry, *, gates: Gates) -> None:
        self._registry = registry
        self._gates = gates
        self._unseen = MetricsRegistry()
        self._since_1_37 = gates.emulated_version >= V1_37
        self._attempts(registry)
        self._queue(registry)
        self._framework(registry)
        self._preemption(registry)
        self._batches(registry)
        self._volumes(registry)
        self._async_api_calls(self._registry_for("SchedulerAsyncAPICalls"))
        self._resource_claims()
        self._pod_groups(self._registry_for("GenericWorkload"))
        self._pod_groups_since_1_37()

    def _registry_for(self, gate: str) -> MetricsRegistry:
        return self._registry if self._gates.enabled(gate) else self._unseen

    def _registry_since(self, version: KubernetesVersion, gate: str) -> MetricsRegistry:
        """For metrics that a version has added."""
        return self._registry_for(gate) if self._gates.emulated_version >= version else self._unseen

    def _attempts(self, registry: MetricsRegistry) -> None:
        self.schedule_attempts_total: CounterVec = registry.counter_vec(
            "scheduler_schedule_attempts_total",
            "Attempts to schedule a pod that ended, by result: 'unschedulable' is a pod that fits nowhere, "
            "'error' a problem inside the scheduler.",
            ("result", "profile"),
            stability="STABLE",
        )
        self.scheduling_attempt_duration_seconds: HistogramVec = registry.histogram_vec(
            "scheduler_scheduling_attempt_duration_seconds",
            "How long attempts to schedule took, in seconds: the decision and the binding.",
            ("result", "profile"),
            _FROM_1_MS,
            stability="STABLE",
        )
        self.scheduling_algorithm_duration_seconds: Histogram = registry.histogram(
            "scheduler_scheduling_algorithm_duration_seconds",
            "How long it took to decide on a node, in seconds.",
            _FROM_1_MS,
            stability="BETA" if self._since_1_37 else "ALPHA",
        )
        self.pod_scheduling_sli_duration_seconds: HistogramVec = registry.histogram_vec(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "From a pod's first entry to the queue until it was bound, in seconds, over all its attempts.",
            ("attempts",),
            _FROM_10_MS,
            stability="BETA",
        )
        self.pod_scheduling_attempts: Histogram = registry.histogram(
            "scheduler_pod_scheduling_attempts",
            "How many attempts it took to schedule a pod.",
            exponential_buckets(1, 2, 5),
            stability="STABLE",
        )
        self.pod_scheduled_after_flush_total: Counter = registry.counter(
            "scheduler_pod_scheduled_after_flush_total",
            "Pods that were scheduled after only a timeout had woken them: a queueing hint or an event may be missing.",
        )

    def _queue(self, registry: MetricsRegistry) -> None:
        self.pending_pods: GaugeVec = registry.gauge_vec(
            "scheduler_pending_pods",
            "Pods that wait, by queue: 'active' and 'backoff' are about to be tried, 'unschedulable' were tried "
            "in vain, 'gated' may not be tried yet.",
            ("queue",),
            stability="STABLE",
        )
        newer = self._gates.emulated_version >= V1_37
        for queue in (*QUEUES, *(QUEUES_OF_MEMBERS if newer else ())):
            self.pending_pods.with_label_values(queue)
        entities = registry if newer else self._unseen
        self.queued_entities: GaugeVec = entities.gauge_vec(
            "scheduler_queued_entities",
            "Pods without a group, and groups of pods, that wait in a queue, by queue and type.",
            ("queue", "type"),
        )
        self.queue_incoming_entities_total: CounterVec = entities.counter_vec(
            "scheduler_queue_incoming_entities_total",
            "Pods without a group, and groups of pods, that entered a queue, by queue, event and type.",
            ("queue", "event", "type"),
        )
        self.queue_incoming_pods_total: CounterVec = registry.counter_vec(
            "scheduler_queue_incoming_pods_total",
            "Pods that entered a queue, by queue and by the event that put them there.",
            ("queue", "event"),
            stability="STABLE",
        )
        self.unschedulable_pods: GaugeVec = registry.gauge_vec(
            "scheduler_unschedulable_pods",
            "Queued pods by the plugin that rejected them. A pod counts once for each such plugin, so sums mislead.",
            ("plugin", "profile"),
            stability="BETA",
        )
        self.event_handling_duration_seconds: HistogramVec = registry.histogram_vec(
            "scheduler_event_handling_duration_seconds",
            "How long the handling of a cluster event took, in seconds.",
            ("event",),
            _FROM_100_US,
        )
        self.cache_size: GaugeVec = registry.gauge_vec(
            "scheduler_cache_size", "Nodes, pods and assumed pods in the scheduler's cache.", ("type",)
        )
        self.inflight_events: GaugeVec = registry.gauge_vec(
            "scheduler_inflight_events", "Events that the queue keeps for the pods in flight.", ("event",)
        )
        self.queueing_hint_execution_duration_seconds: HistogramVec = registry.histogram_vec(
            "scheduler_queueing_hint_execution_duration_seconds",
            "How long a plugin's queueing hint ran, in seconds.",
            ("plugin", "event", "hint"),
            _FROM_10_US_CLOSE,
        )

    def _framework(self, registry: MetricsRegistry) -> None:
        self.framework_extension_point_duration_seconds: HistogramVec = registry.histogram_vec(
            "scheduler_framework_extension_point_duration_seconds",
            "How long all plugins of an extension point took together, in seconds.",
            ("extension_point", "status", "profile"),
            _FROM_100_US,
            stability="STABLE",
        )
        self.plugin_execution_duration_seconds: HistogramVec = registry.histogram_vec(
            "scheduler_plugin_execution_duration_seconds",
            "How long a plugin took at an extension point, in seconds, in a sample of the cycles.",
            ("plugin", "extension_point", "status"),
            _FROM_10_US_CLOSE,
            stability="BETA" if self._since_1_37 else "ALPHA",
        )
        self.plugin_evaluation_total: CounterVec = registry.counter_vec(
            "scheduler_plugin_evaluation_total",
            "Number of rows that a plugin evaluated at PreFilter, Filter, PreScore or Score.",
            ("plugin", "extension_point", "profile"),
            stability="BETA",
        )
        self.permit_wait_duration_seconds: HistogramVec = registry.histogram_vec(
            "scheduler_permit_wait_duration_seconds",
            "How long pods waited for their permit, in seconds.",
            ("result",),
            _FROM_1_MS,
            stability="BETA",
        )
        self.goroutines: GaugeVec = registry.gauge_vec(
            "scheduler_goroutines",
            "Tasks at work, by what they do. The name is the reference's; here they are tasks of an event loop.",
            ("operation",),
            stability="BETA",
        )

    def _preemption(self, registry: MetricsRegistry) -> None:
        self.preemption_attempts_total: Counter = registry.counter(
            "scheduler_preemption_attempts_total",
            "Attempts so far to make room by preemption.",
            stability="STABLE",
        )
        self.preemption_victims: Histogram = registry.histogram(
            "scheduler_preemption_victims",
            "How many victims a preemption chose.",
            exponential_buckets(1, 2, 7),
            stability="STABLE",
        )
        tasks = self._registry_for("SchedulerAsyncPreemption")
        self.preemption_goroutines_duration_seconds: HistogramVec = tasks.histogram_vec(
            "scheduler_preemption_goroutines_duration_seconds",
            "How long a preemption in the background took, in seconds.",
            ("result",),
            _FROM_10_MS,
            deprecated="1.37.0" if self._since_1_37 else "",
        )
        self.preemption_goroutines_execution_total: CounterVec = tasks.counter_vec(
            "scheduler_preemption_goroutines_execution_total", "Preemptions carried out in the background.", ("result",)
        )

    def _batches(self, registry: MetricsRegistry) -> None:
        self.batch_attempts_total: CounterVec = registry.counter_vec(
            "scheduler_batch_attempts_total",
            "What came of reusing the result of an equal pod before.",
            ("profile", "result"),
        )
        self.batch_cache_flushed_total: CounterVec = registry.counter_vec(
            "scheduler_batch_cache_flushed_total",
            "Saved results that were dropped, by reason.",
            ("profile", "reason"),
        )
        self.get_node_hint_duration_seconds: HistogramVec = registry.histogram_vec(
            "scheduler_get_node_hint_duration_seconds",
            "How long asking for a saved node took, in seconds.",
            ("hinted", "profile"),
            _FROM_10_US,
        )
        self.store_schedule_results_duration_seconds: HistogramVec = registry.histogram_vec(
            "scheduler_store_schedule_results_duration_seconds",
            "How long saving the result of a cycle took, in seconds.",
            ("profile",),
            _FROM_10_US,
        )

    def _volumes(self, registry: MetricsRegistry) -> None:
        self.volume_binder_cache_requests_total: CounterVec = registry.counter_vec(
            "scheduler_volume_binder_cache_requests_total", "Requests to the volume binder's cache.", ("operation",)
        )
        self.volume_scheduling_stage_error_total: CounterVec = registry.counter_vec(
            "scheduler_volume_scheduling_stage_error_total",
            "Errors with volumes, by the stage of scheduling they came up in.",
            ("operation",),
        )

    def _async_api_calls(self, registry: MetricsRegistry) -> None:
        self.async_api_call_execution_total: CounterVec = registry.counter_vec(
            "scheduler_async_api_call_execution_total",
            "Calls that the dispatcher of API calls carried out.",
            ("call_type", "result"),
        )
        self.async_api_call_execution_duration_seconds: HistogramVec = registry.histogram_vec(
            "scheduler_async_api_call_execution_duration_seconds",
            "How long a call of the dispatcher took, in seconds.",
            ("call_type", "result"),
            _FROM_1_MS,
        )
        self.pending_async_api_calls: GaugeVec = registry.gauge_vec(
            "scheduler_pending_async_api_calls", "Calls that wait in the dispatcher.", ("call_type",)
        )

    def _resource_claims(self) -> None:
        extended, help = self._registry_for("DRAExtendedResource"), "Attempts to create ResourceClaims for pods."
        self._resourceclaim_creates_total: CounterVec = (
            extended.counter_vec(
                "dynamic_resource_allocation_resourceclaim_creates_total", help, ("status", "admin_access")
            )
            if self._since_1_37
            else extended.counter_vec("scheduler_resourceclaim_creates_total", help, ("status",))
        )
        conditions = self._registry_for("DRADeviceBindingConditions")
        self.dra_bindingconditions_allocations_total: CounterVec = conditions.counter_vec(
            "scheduler_dra_bindingconditions_allocations_total",
            "Allocations of devices with binding conditions, once per driver and attempt.",
            ("profile", "driver", "status"),
        )
        self.dra_bindingconditions_wait_duration_seconds: HistogramVec = conditions.histogram_vec(
            "scheduler_dra_bindingconditions_wait_duration_seconds",
            "How long PreBind waited for binding conditions, in seconds.",
            ("profile", "driver", "status"),
            exponential_buckets(0.1, 2, 14),
        )

    def claim_for_extended_resources(self, status: str) -> None:
        """Count one that was to be created; those never ask for admin access."""
        labels = (status, "false") if self._since_1_37 else (status,)
        self._resourceclaim_creates_total.with_label_values(*labels).inc()

    def _pod_groups(self, registry: MetricsRegistry) -> None:
        self.podgroup_schedule_attempts_total: CounterVec = registry.counter_vec(
            "scheduler_podgroup_schedule_attempts_total",
            "Attempts to schedule a group of pods that ended, by result.",
            ("result", "profile"),
        )
        self.podgroup_scheduling_attempt_duration_seconds: HistogramVec = registry.histogram_vec(
            "scheduler_podgroup_scheduling_attempt_duration_seconds",
            "How long attempts to schedule a group took, in seconds: the decision and the binding.",
            ("result", "profile"),
            _FROM_1_MS,
        )
        self.podgroup_scheduling_algorithm_duration_seconds: Histogram = registry.histogram(
            "scheduler_podgroup_scheduling_algorithm_duration_seconds",
            "How long it took to decide on nodes for a group, in seconds.",
            _FROM_1_MS,
        )

    def _pod_groups_since_1_37(self) -> None:
        groups = self._registry_since(V1_37, "GenericWorkload")
        self.workload_preemption_attempts_total: CounterVec = groups.counter_vec(
            "scheduler_workload_preemption_attempts_total",
            "Attempts of groups of pods to preempt, by the code of their status.",
            ("result",),
        )
        self.workload_preemption_victims: Histogram = groups.histogram(
            "scheduler_workload_preemption_victims",
            "How many victims a preemption by a group chose.",
            exponential_buckets(1, 2, 11),
        )
        self.preemption_workload_disruptions: HistogramVec = groups.histogram_vec(
            "scheduler_preemption_workload_disruptions",
            "How many groups of pods, or single pods of groups, a preemption chose, if any.",
            ("preemptor",),
            exponential_buckets(1, 2, 11),
        )
        self.preemption_evaluation_duration_seconds: HistogramVec = groups.histogram_vec(
            "scheduler_preemption_evaluation_duration_seconds",
            "How long it took to choose the victims of a preemption by a group, in seconds.",
            ("preemptor", "result"),
            exponential_buckets(0.001, 2, 16),
        )
        self.preemption_execution_duration_seconds: HistogramVec = groups.histogram_vec(
            "scheduler_preemption_execution_duration_seconds",
            "How long it took to evict the victims of a preemption, in seconds.",
            ("preemptor", "result"),
            exponential_buckets(0.001, 2, 16),
        )
        self.preemption_pdb_violations_total: CounterVec = groups.counter_vec(
            "scheduler_preemption_pdb_violations_total",
            "Evictions by preemptions that exceed a disruption budget.",
            ("preemptor",),
        )
        placements = self._registry_since(V1_37, "TopologyAwareWorkloadScheduling")
        self.generated_placements_total: CounterVec = placements.counter_vec(
            "scheduler_generated_placements_total", "Placements that were found for groups of pods.", ("profile",)
        )
        self.placement_evaluations_total: CounterVec = placements.counter_vec(
            "scheduler_placement_evaluations_total",
            "Trials of a group in a placement, by result: 'feasible' or 'infeasible'.",
            ("result", "profile"),
        )
        self.placement_evaluation_duration_seconds: HistogramVec = placements.histogram_vec(
            "scheduler_placement_evaluation_duration_seconds",
            "How long the trial of a group in a placement took, in seconds.",
            ("result", "profile"),
            _FROM_1_MS,
        )
