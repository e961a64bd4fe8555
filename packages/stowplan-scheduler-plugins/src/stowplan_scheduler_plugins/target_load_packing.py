"""Pack pods by measured CPU load up to a target utilization, and spread them beyond it.

What a pod will use is predicted from its limits, else from its requests times a factor, else a default. Pods that came
to a node after the measurement, or less than a minute before its end, are not in it and are predicted, too.

Parity: the reference keeps target, factor and default of its last profile for all profiles; here each has its own.

Upstream: pkg/trimaran/targetloadpacking, pkg/trimaran/handler.go in scheduler-plugins.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import msgspec
import numpy as np

from stowplan.plugins import (
    CycleState,
    Explanation,
    Handle,
    Inspection,
    Ints,
    Mask,
    Nodes,
    PodInfo,
    ScorePlugin,
    TemplateSigned,
)
from stowplan.plugins.arguments import (
    INT64,
    QUANTITY,
    STRING,
    FeatureGates,
    Map,
    Pointer,
    Struct,
    documented,
    kind,
    not_omitted,
)
from stowplan.plugins.objects import milli_value, parse_quantity, parse_timestamp
from stowplan_scheduler_plugins.load import (
    SOURCE_FIELDS,
    Floats,
    LoadArgs,
    Measurements,
    Metric,
    capacity_of_cpu,
    cpu_load_with,
)
from stowplan_scheduler_plugins.load_sources import CPU, Load, LoadSource
from stowplan_scheduler_plugins.scores import rounded

#: Metrics of pods appear this late, in seconds.
REPORTING_INTERVAL = 60
#: How often old arrivals are dropped, in seconds.
_CLEANUP_INTERVAL = 300
_FLOAT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


class TargetLoadPackingArgs(LoadArgs, frozen=True):
    schema: ClassVar[Struct] = kind(
        "TargetLoadPackingArgs",
        **SOURCE_FIELDS,
        defaultRequests=documented(Map(QUANTITY), "What containers without cpu request and limit will use."),
        defaultRequestsMultiplier=documented(Pointer(STRING), "What cpu requests are multiplied by."),
        targetUtilization=documented(not_omitted(Pointer(INT64)), "The load to pack to, in percent of a node's CPU."),
    )

    default_requests: dict[str, str] | None = None
    default_requests_multiplier: str = ""
    target_utilization: int = 0

    def completed(self, features: FeatureGates) -> "TargetLoadPackingArgs":
        return msgspec.structs.replace(
            self,
            metric_provider=self.completed_provider(),
            default_requests={"cpu": "1"} if self.default_requests is None else self.default_requests,
            default_requests_multiplier=self.default_requests_multiplier or "1.5",
            target_utilization=self.target_utilization if self.target_utilization > 0 else 40,
        )

    def validate_at_build(self) -> Iterator[str]:
        yield from super().validate_at_build()
        if not _FLOAT.fullmatch(self.default_requests_multiplier):
            text = f'strconv.ParseFloat: parsing "{self.default_requests_multiplier}": invalid syntax'
            yield f"unable to parse DefaultRequestsMultiplier: {text}"


class TargetLoadPacking(ScorePlugin, TemplateSigned):
    name = "TargetLoadPacking"
    short_name = "packing"
    args_type = TargetLoadPackingArgs
    reads_kinds = (Load,)

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._measurements = Measurements(self, args.source)
        self._default = milli_value(parse_quantity(args.default_requests.get("cpu", 0)))
        self._multiplier = float(args.default_requests_multiplier)
        self._arrivals = Arrivals(self._prediction, handle)

    def sources(self) -> tuple[LoadSource, ...]:
        return (self.args.source,)

    def score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Ints:
        _, load, measured = self._load(pod, nodes)
        target = float(self.args.target_utilization)
        above = target * (100 - load) / (100 - target) if target != 100 else np.zeros(len(load))
        below = (100 - target) * load / target + target
        scores = np.where(load > target, np.where(load > 100, 0.0, above), below)
        return np.where(measured, rounded(scores), 0)

    def _load(self, pod: PodInfo, nodes: Nodes) -> tuple[Floats, Floats, Mask]:
        """CPU in percent: as measured, and with what came since and the pod; and where it was measured."""
        percent, measured = self._measurements.column(nodes, last_cpu)
        self._arrivals.follow()
        missing = nodes.take(self._arrivals.predicted_since(self._measurements.window_end() - REPORTING_INTERVAL))
        load = cpu_load_with(percent, capacity_of_cpu(nodes), float(self._prediction(pod)), missing)
        return percent, load, measured

    def explanation(self, inspection: Inspection) -> Explanation:
        from stowplan_scheduler_plugins.load_explanation import CpuExplanation

        load = self._load(inspection.pod, Nodes(inspection.cluster))
        return CpuExplanation(inspection, load, f" of {self.args.target_utilization}")

    def _prediction(self, pod: PodInfo) -> int:
        """Milli-CPU that the pod will use."""
        template, key = pod.shape.template, (self.name, self._default, self._multiplier)
        known: int | None = template.memo(key, None)
        if known is None:
            spec = pod.pod.spec
            overhead = milli_value(parse_quantity(spec.overhead.get("cpu", 0)))
            total = sum(self._of_container(one.resources.requests, one.resources.limits) for one in spec.containers)
            known = template.remember(key, None, total + overhead)
        return known

    def _of_container(self, requests: dict[str, Any], limits: dict[str, Any]) -> int:
        if "cpu" in limits:
            return milli_value(parse_quantity(limits["cpu"]))
        if "cpu" in requests:
            # Go rounds half away from zero.
            return int(milli_value(parse_quantity(requests["cpu"])) * self._multiplier + 0.5)
        return self._default


def last_cpu(metrics: Sequence[Metric]) -> tuple[float, bool]:
    found = [metric.value for metric in metrics if metric.type == CPU and metric.operator in ("AVG", "Latest")]
    return (found[-1], True) if found else (0.0, False)


class Arrivals:
    """When pods came to their nodes, by their condition; those that do not have it yet came when they are first seen.

    Looked at before each use, for the nodes whose pods changed since.
    """

    def __init__(self, prediction: Any, handle: Handle) -> None:
        self._prediction, self._handle = prediction, handle
        self._cluster = handle.cluster
        self._position = -1
        #: Row -> UID -> (time in seconds, predicted milli-CPU).
        self._seen: dict[int, dict[str, tuple[int, int]]] = {}
        self._cleaned = 0.0

    def follow(self) -> None:
        now = self._handle.wall_clock()
        changes = self._cluster.changes
        rows = changes.since(self._position) if self._position >= 0 else None
        self._position = changes.position
        for row in range(self._cluster.table.n) if rows is None else rows:
            before = self._seen.get(row, {})
            pods = self._cluster.row_pods[row] if self._cluster.table.valid[row] else ()
            self._seen[row] = {
                pod.uid: before.get(pod.uid) or (int(_scheduled_at(pod) or now), self._prediction(pod)) for pod in pods
            }
        if now - self._cleaned >= _CLEANUP_INTERVAL:
            self._cleaned = now
            self._clean(int(now) - REPORTING_INTERVAL)

    def _clean(self, oldest: int) -> None:
        """Forget what came before; parity: nothing is forgotten of a node to which nothing came since."""
        for row, of_row in self._seen.items():
            if any(time > oldest for time, _ in of_row.values()):
                self._seen[row] = {uid: entry if entry[0] > oldest else (entry[0], 0) for uid, entry in of_row.items()}

    def predicted_since(self, time: float) -> Any:
        """Milli-CPU of the pods that came to each row after a time."""
        found = np.zeros(self._cluster.table.n)
        for row, of_row in self._seen.items():
            found[row] = sum(amount for came, amount in of_row.values() if came > time)
        return found


def _scheduled_at(pod: PodInfo) -> float | None:
    found = (one for one in pod.pod.status.conditions if one.type == "PodScheduled" and one.status == "True")
    time = next(found, None)
    return parse_timestamp(time.last_transition_time) if time is not None and time.last_transition_time else None
