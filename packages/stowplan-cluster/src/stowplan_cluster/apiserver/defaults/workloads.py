"""Defaults of Deployments, ReplicaSets, StatefulSets, DaemonSets, ReplicationControllers and Jobs.

Upstream: pkg/apis/apps/v1/defaults.go, pkg/apis/batch/v1/defaults.go, pkg/apis/core/v1/defaults.go.
"""

from __future__ import annotations

from typing import Any

from stowplan.kube.api.api_errors import BadRequest
from stowplan.kube.api.field_errors import go_quote
from stowplan.kube.api.meta import MAX_INT32
from stowplan_cluster.apiserver.conversion import METRICS_OF_V2
from stowplan_cluster.apiserver.defaults.pods import default_claim, default_template
from stowplan_cluster.apiserver.objects import JsonObject, metadata_of

#: Annotation with the template generation of a DaemonSet; old clients still read it.
TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
#: More digits do not fit into an int64.
_MAX_DIGITS = 19


def _fill(obj: JsonObject, **defaults: Any) -> None:
    """Set fields that are absent or ""."""
    for name, value in defaults.items():
        if obj.get(name) in (None, ""):
            obj[name] = value


def default_deployment(deployment: JsonObject) -> None:
    spec = deployment.setdefault("spec", {})
    _fill(spec, replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600)
    _default_rolling_update(spec, "strategy", maxUnavailable="25%", maxSurge="25%")
    default_template(spec.setdefault("template", {}))


def _default_rolling_update(spec: JsonObject, field: str, **amounts: int | str) -> None:
    strategy = spec.get(field)
    if strategy is None:
        strategy = spec[field] = {}
    _fill(strategy, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        if strategy.get("rollingUpdate") is None:
            strategy["rollingUpdate"] = {}
        for name, value in amounts.items():
            if strategy["rollingUpdate"].get(name) is None:
                strategy["rollingUpdate"][name] = value


def default_replica_set(replica_set: JsonObject) -> None:
    spec = replica_set.setdefault("spec", {})
    _fill(spec, replicas=1)
    default_template(spec.setdefault("template", {}))


def default_daemon_set(daemon_set: JsonObject) -> None:
    spec = daemon_set.setdefault("spec", {})
    _fill(spec, revisionHistoryLimit=10)
    _default_rolling_update(spec, "updateStrategy", maxUnavailable=1, maxSurge=0)
    metadata = metadata_of(daemon_set)
    annotations = {TEMPLATE_GENERATION: "1"} | (metadata.get("annotations") or {})
    metadata["annotations"] = annotations | {TEMPLATE_GENERATION: _count_of(annotations[TEMPLATE_GENERATION])}
    default_template(spec.setdefault("template", {}))


def _count_of(text: str) -> str:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < _MAX_DIGITS):
        raise BadRequest(
            'DaemonSet in version "v1" cannot be handled as a DaemonSet: '
            f"strconv.ParseInt: parsing {go_quote(text)}: invalid syntax"
        )
    return str(max(int(text), 1))


def default_stateful_set(stateful_set: JsonObject) -> None:
    spec = stateful_set.setdefault("spec", {})
    _fill(spec, podManagementPolicy="OrderedReady", replicas=1, revisionHistoryLimit=10)
    strategy = spec.setdefault("updateStrategy", {})
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        strategy.setdefault("rollingUpdate", {})
    rolling = strategy.get("rollingUpdate")
    if strategy["type"] == "RollingUpdate" and rolling is not None:
        _fill(rolling, partition=0)
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    _fill(retention, whenDeleted="Retain", whenScaled="Retain")
    default_template(spec.setdefault("template", {}))
    for claim in spec.get("volumeClaimTemplates") or ():
        default_claim(claim)
        # Parity: claim templates are stored with kind and apiVersion.
        _fill(claim, apiVersion="v1", kind="PersistentVolumeClaim")


def _labels_of_template(spec: JsonObject) -> dict[str, str]:
    labels: dict[str, str] = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    return labels


def _inherit_labels(obj: JsonObject, labels: dict[str, str]) -> None:
    metadata = obj.setdefault("metadata", {})
    if labels and not metadata.get("labels"):
        metadata["labels"] = dict(labels)


def default_controller(controller: JsonObject) -> None:
    """A ReplicationController takes selector and labels from its template."""
    spec = controller.setdefault("spec", {})
    labels = _labels_of_template(spec)
    if labels and not spec.get("selector"):
        spec["selector"] = dict(labels)
    _inherit_labels(controller, labels)
    _fill(spec, replicas=1)
    if spec.get("template") is not None:
        default_template(spec["template"])


def default_job(job: JsonObject) -> None:
    spec = job.setdefault("spec", {})
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    backoff = MAX_INT32 if spec.get("backoffLimitPerIndex") is not None else 6
    replacement = "Failed" if spec.get("podFailurePolicy") is not None else "TerminatingOrFailed"
    _fill(
        spec,
        parallelism=1,
        backoffLimit=backoff,
        completionMode="NonIndexed",
        suspend=False,
        podReplacementPolicy=replacement,
        manualSelector=False,
    )
    _inherit_labels(job, _labels_of_template(spec))
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            _fill(pattern, status="True")
    default_template(spec.setdefault("template", {}))


def default_cron_job(cron_job: JsonObject) -> None:
    spec = cron_job.setdefault("spec", {})
    _fill(spec, concurrencyPolicy="Allow", suspend=False, successfulJobsHistoryLimit=3, failedJobsHistoryLimit=1)
    job = spec.setdefault("jobTemplate", {}).setdefault("spec", {})
    default_template(job.setdefault("template", {}))


def default_autoscaler(autoscaler: JsonObject) -> None:
    spec = autoscaler.setdefault("spec", {})
    _fill(spec, minReplicas=1)
    if autoscaler.get("apiVersion") == "autoscaling/v1":
        if METRICS_OF_V2 not in (autoscaler["metadata"].get("annotations") or {}):
            _fill(spec, targetCPUUtilizationPercentage=80)
        return
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    behavior = spec.get("behavior")
    if behavior is not None:
        percent = {"type": "Percent", "value": 100, "periodSeconds": 15}
        pods = {"type": "Pods", "value": 4, "periodSeconds": 15}
        up, down = (_present(behavior, name) for name in ("scaleUp", "scaleDown"))
        _fill(up, stabilizationWindowSeconds=0, selectPolicy="Max", policies=[pods, percent])
        _fill(down, selectPolicy="Max", policies=[dict(percent)])


def _present(obj: JsonObject, name: str) -> JsonObject:
    if obj.get(name) is None:
        obj[name] = {}
    found: JsonObject = obj[name]
    return found
