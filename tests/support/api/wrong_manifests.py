"""Manifests of cron jobs, autoscalers and quotas, valid and invalid; the errors of a real API server are recorded.

`python -m support.api.wrong_manifests KUBECONFIG` prints a server's errors, to record them again.
"""

import copy
import json
import sys
import urllib.error
from contextlib import closing
from pathlib import Path
from typing import Any

from stowplan_cluster.apiserver.resources import BUILT_IN, Catalogue
from support.processes.api_client import Client

RECORDED = Path(__file__).parent / "wrong_manifests.json"
_CATALOGUE = Catalogue(BUILT_IN)
_GONE = object()


def _of(api_version, kind, spec):
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "wrong", "namespace": "default"},
        "spec": spec,
    }


POD = {"spec": {"containers": [{"name": "c", "image": "busybox"}], "restartPolicy": "Never"}}
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}

_METRIC = {"name": "requests"}
_RESOURCE = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
}
_PODS = {"type": "Pods", "pods": {"metric": _METRIC, "target": {"type": "AverageValue", "averageValue": "10"}}}
_OBJECT = {
    "type": "Object",
    "object": {"describedObject": TARGET, "metric": _METRIC, "target": {"type": "Value", "value": "10"}},
}
_EXTERNAL = {"type": "External", "external": {"metric": _METRIC, "target": {"type": "Value", "value": "10"}}}
_CONTAINER = {
    "type": "ContainerResource",
    "containerResource": {
        "name": "cpu",
        "container": "c",
        "target": {"type": "Utilization", "averageUtilization": 80},
    },
}
_RULES = {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 15}]}

GOOD = {
    "cron job": _of("batch/v1", "CronJob", {"schedule": "0 3 * * *", "jobTemplate": {"spec": {"template": POD}}}),
    "autoscaler": _of(
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        {
            "scaleTargetRef": TARGET,
            "minReplicas": 2,
            "maxReplicas": 3,
            "metrics": [_RESOURCE],
            "behavior": {"scaleDown": _RULES},
        },
    ),
    "autoscaler of v1": _of(
        "autoscaling/v1", "HorizontalPodAutoscaler", {"scaleTargetRef": TARGET, "minReplicas": 2, "maxReplicas": 3}
    ),
    "quota": _of("v1", "ResourceQuota", {"hard": {"pods": "10", "requests.cpu": "4"}}),
}

_SCHEDULES = (
    *("", "foo", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 7"),
    *("*/0 * * * *", "5-1 * * * *", "1-2-3 * * * *", "*/2/3 * * * *", "a * * * *", "* * * foo *", "-1 * * * *"),
    *(
        "@reboot",
        "@every",
        "@every 1x",
        "TZ=UTC 0 * * * *",
        "99999999999999999999 * * * *",
        "0 0 31 2-1 *",
        "1/-2 * * * *",
    ),
)

#: Manifest -> (path, value, …) of each change.
_CHANGES: dict[str, list[tuple[Any, ...]]] = {
    "cron job": [
        *(("spec.schedule", schedule) for schedule in _SCHEDULES),
        ("spec.timeZone", ""),
        ("spec.timeZone", "Mars/Olympus"),
        ("spec.timeZone", "../etc"),
        ("spec.timeZone", "Local"),
        ("spec.timeZone", "local"),
        ("spec.timeZone", "a-name-that-is-too-long"),
        ("spec.concurrencyPolicy", "Maybe"),
        ("spec.startingDeadlineSeconds", -1),
        ("spec.successfulJobsHistoryLimit", -1, "spec.failedJobsHistoryLimit", -2),
        ("metadata.name", "n" * 53),
        ("metadata.name", "Not_good"),
        ("spec.jobTemplate.spec.backoffLimit", -1),
        ("spec.jobTemplate.spec.selector", {"matchLabels": {"a": "b"}}),
        ("spec.jobTemplate.spec.manualSelector", True),
        ("spec.jobTemplate.spec.template.spec.restartPolicy", "Always"),
        ("spec.jobTemplate.spec.template.spec.containers", []),
        ("spec.jobTemplate.spec.template.spec.containers.0.image", ""),
        ("spec.jobTemplate", _GONE),
    ],
    "autoscaler": [
        ("spec.minReplicas", 0),
        ("spec.minReplicas", -1),
        ("spec.minReplicas", 4),
        ("spec.maxReplicas", _GONE),
        ("spec.maxReplicas", -1),
        ("spec.scaleTargetRef", {}),
        ("spec.scaleTargetRef", {"kind": "a/b", "name": "%", "apiVersion": "a/b/c"}),
        ("spec.scaleTargetRef.apiVersion", "v1"),
        ("spec.scaleTargetRef", {"kind": "ReplicationController", "name": "a", "apiVersion": "v1"}),
        ("spec.metrics.0", {}),
        ("spec.metrics.0.type", "Gut"),
        ("spec.metrics.0.type", "Pods"),
        ("spec.metrics.0", {**_RESOURCE, **_PODS}),
        ("spec.metrics.0", {**_PODS, "type": "Resource"}),
        ("spec.metrics.0.resource.name", ""),
        ("spec.metrics.0.resource.target", {}),
        ("spec.metrics.0.resource.target", {"type": "Ratio", "averageUtilization": 0}),
        ("spec.metrics.0.resource.target.averageValue", "1"),
        ("spec.metrics.0", _PODS, "spec.metrics.0.pods.metric.name", "a/b"),
        ("spec.metrics.0", _PODS, "spec.metrics.0.pods.target.averageValue", "0"),
        ("spec.metrics.0", _PODS, "spec.metrics.0.pods.target.averageValue", _GONE),
        ("spec.metrics.0", _OBJECT, "spec.metrics.0.object.describedObject", {}),
        ("spec.metrics.0", _OBJECT, "spec.metrics.0.object.target.value", _GONE),
        ("spec.metrics.0", _OBJECT, "spec.metrics.0.object.target.value", "-1"),
        ("spec.metrics.0", _EXTERNAL, "spec.metrics.0.external.target.averageValue", "1"),
        ("spec.metrics.0", _EXTERNAL, "spec.metrics.0.external.target.value", _GONE),
        ("spec.metrics.0", _EXTERNAL, "spec.metrics.0.external.metric.name", ""),
        ("spec.metrics.0", _CONTAINER, "spec.metrics.0.containerResource.name", "gpu"),
        ("spec.metrics.0", _CONTAINER, "spec.metrics.0.containerResource.name", ""),
        ("spec.metrics.0", _CONTAINER, "spec.metrics.0.containerResource.container", "A"),
        ("spec.metrics.0", _CONTAINER, "spec.metrics.0.containerResource.container", ""),
        ("spec.behavior.scaleDown", {"policies": [{}]}),
        ("spec.behavior.scaleDown.policies.0", {"type": "Guess", "value": 0, "periodSeconds": 1801}),
        ("spec.behavior.scaleDown.policies.0.periodSeconds", 0),
        ("spec.behavior.scaleDown.selectPolicy", "Avg"),
        ("spec.behavior.scaleDown.stabilizationWindowSeconds", -1),
        ("spec.behavior.scaleUp", {"stabilizationWindowSeconds": 3601}),
        ("spec.behavior.scaleDown.tolerance", "-1"),
        ("metadata.name", "A"),
    ],
    "autoscaler of v1": [
        ("spec.minReplicas", 4),
        ("spec.maxReplicas", 0),
        ("spec.scaleTargetRef.kind", ""),
        ("spec.targetCPUUtilizationPercentage", 0),
    ],
    "quota": [
        ("spec.hard", {"gpu": "1"}),
        ("spec.hard", {"storage": "1"}),
        ("spec.hard", {"pods": "-1"}),
        ("spec.hard", {"pods": "1.5"}),
        ("spec.hard", {"requests.nvidia.com/gpu": "500m"}),
        ("spec.hard", {"a b": "1"}),
        ("spec.hard", {"count/deployments.apps": "1", "requests.hugepages-2Mi": "-2"}),
        ("spec.scopes", ["Never"]),
        ("spec.hard", {"services": "1"}, "spec.scopes", ["BestEffort"]),
        ("spec.scopes", ["BestEffort", "NotBestEffort"]),
        ("spec.scopes", ["Terminating", "NotTerminating"]),
        ("spec.scopeSelector", {"matchExpressions": [{"scopeName": "Never", "operator": "Like"}]}),
        ("spec.scopeSelector", {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In"}]}),
        ("spec.scopeSelector", {"matchExpressions": [{"scopeName": "Terminating", "operator": "In", "values": ["a"]}]}),
        (
            "spec.scopeSelector",
            {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Exists", "values": ["a"]}]},
        ),
        (
            "spec.scopeSelector",
            {
                "matchExpressions": [
                    {"scopeName": name, "operator": "Exists"} for name in ("BestEffort", "NotBestEffort")
                ]
            },
        ),
        ("metadata.name", "A"),
    ],
}


def _changed(manifest, changes):
    made = copy.deepcopy(manifest)
    for path, value in zip(changes[::2], changes[1::2], strict=True):
        *parents, last = path.split(".")
        holder = made
        for step in parents:
            holder = holder[int(step)] if isinstance(holder, list) else holder.setdefault(step, {})
        if value is _GONE:
            holder.pop(last, None)
        else:
            holder[int(last) if isinstance(holder, list) else last] = copy.deepcopy(value)
    return made


def _title(name, changes):
    told = (
        f"{p}={'absent' if v is _GONE else json.dumps(v)}" for p, v in zip(changes[::2], changes[1::2], strict=True)
    )
    return f"{name}: {', '.join(told)}"


def manifests():
    """Title -> manifest, valid ones included."""
    for name, good in GOOD.items():
        yield name, good
        for changes in _CHANGES[name]:
            yield _title(name, changes), _changed(good, changes)


def refusals(kubeconfig):
    """A server's errors for each manifest: `field: message`, sorted and without duplicates, as maps have no order in
    Go."""
    client = Client(kubeconfig)
    return {title: _refusals_of(client, manifest) for title, manifest in manifests()}


def _refusals_of(client, manifest):
    resource = _CATALOGUE.of_kind(manifest["apiVersion"], manifest["kind"])
    try:
        client(f"{resource.path}/namespaces/default/{resource.plural}?dryRun=All", manifest)
    except urllib.error.HTTPError as error:
        with closing(error):
            status = json.loads(error.read())
        causes = (status.get("details") or {}).get("causes")
        if causes is None:
            return [status["message"]]
        return sorted({f"{cause['field']}: {cause['message']}" for cause in causes})
    return []


if __name__ == "__main__":
    RECORDED.write_text(json.dumps(refusals(Path(sys.argv[1])), indent=1, ensure_ascii=False) + "\n")
