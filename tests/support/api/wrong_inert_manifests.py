"""Invalid manifests of kinds that are stored and not acted on; the errors of a real API server are recorded.

`python -m support.api.wrong_inert_manifests KUBECONFIG` prints a server's errors, to record them again.
"""

import copy
import json
import sys
import urllib.error
from contextlib import closing
from pathlib import Path

from stowplan_cluster.apiserver.resources import BUILT_IN, Catalogue
from support.api.inert_manifests import POD, TARGET, WEBHOOK
from support.processes.api_client import Client

RECORDED = Path(__file__).parent / "wrong_inert_manifests.json"
_CATALOGUE = Catalogue(BUILT_IN)
_GONE = object()


def _of(api_version, kind, spec):
    return _made(api_version, kind, spec=spec)


def _made(api_version, kind, name="wrong", **fields):
    namespaced = _CATALOGUE.of_kind(api_version, kind).namespaced
    metadata = {"name": name, "namespace": "default"} if namespaced else {"name": name}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


_BACKEND = {"service": {"name": "web", "port": {"number": 80}}}
_PATH = {"path": "/", "pathType": "Prefix", "backend": _BACKEND}
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

_GOOD = {
    "cron job": _of("batch/v1", "CronJob", {"schedule": "0 3 * * *", "jobTemplate": {"spec": {"template": POD}}}),
    "ingress": _of("networking.k8s.io/v1", "Ingress", {"rules": [{"host": "a.b", "http": {"paths": [_PATH]}}]}),
    "ingress class": _of(
        "networking.k8s.io/v1",
        "IngressClass",
        {"controller": "example.com/c", "parameters": {"kind": "P", "name": "p"}},
    ),
    "network policy": _of(
        "networking.k8s.io/v1",
        "NetworkPolicy",
        {
            "podSelector": {},
            "ingress": [{"ports": [{"port": 80}], "from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}],
            "egress": [{"to": [{"podSelector": {}}]}],
        },
    ),
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
    "limit range": _of("v1", "LimitRange", {"limits": [{"type": "Container", "max": {"cpu": "2"}}]}),
    "pod template": _made("v1", "PodTemplate", template={"metadata": {"labels": {"a": "b"}}, **POD}),
    "runtime class": _made(
        "node.k8s.io/v1",
        "RuntimeClass",
        handler="runsc",
        overhead={"podFixed": {"cpu": "10m"}},
        scheduling={"nodeSelector": {"a": "b"}, "tolerations": [{"key": "a", "operator": "Exists"}]},
    ),
    "webhooks": _made("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", webhooks=[WEBHOOK]),
    "mutating webhooks": _made("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", webhooks=[WEBHOOK]),
    "API service": _made(
        "apiregistration.k8s.io/v1",
        "APIService",
        name="v1beta1.metrics.example.com",
        spec={
            "group": "metrics.example.com",
            "version": "v1beta1",
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "caBundle": "aGk=",
            "service": {"name": "m", "namespace": "kube-system"},
        },
    ),
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
_PATHS = ("a", "", "/a//b", "/a/./b", "/a/../b", "/%2f", "/a/..", "/a/.", "//%2F/..")
_BLOCKS = (
    *("", "10.0.0.0", "10.0.0.1/8", "010.0.0.0/8", "10.0.0.0/08", "::ffff:10.0.0.0/104", "10.0.0.0/33", "foo"),
    *("fe80::1/64", "FE80::/64x"),
)
_HOSTS = ("1.2.3.4", "*", "*.a_b", "a.*.b", "A.b", "-a", "fe80::1")

#: Manifest -> (path, value, …) of each change.
_CHANGES = {
    "mutating webhooks": [
        ("webhooks.0.reinvocationPolicy", "Maybe"),
        ("webhooks.0.sideEffects", "Some"),
        ("webhooks", [WEBHOOK, WEBHOOK]),
    ],
    "webhooks": [
        ("metadata.name", "Wrong"),
        ("webhooks", [{}]),
        ("webhooks.0.name", "a.b"),
        ("webhooks.0.name", "Wrong"),
        ("webhooks.0.failurePolicy", "Maybe"),
        ("webhooks.0.matchPolicy", "Maybe"),
        ("webhooks.0.sideEffects", _GONE),
        ("webhooks.0.timeoutSeconds", 31),
        ("webhooks.0.namespaceSelector", {"matchLabels": {"a": "b c"}}),
        ("webhooks.0.admissionReviewVersions", ["v2"]),
        ("webhooks.0.admissionReviewVersions", ["v1", "v1", "V1"]),
        ("webhooks.0.matchConditions", [{"name": "a", "expression": " "}, {"expression": "true"}]),
        ("webhooks.0.matchConditions", [{"name": name, "expression": "true"} for name in ("a", "a", "b c")]),
        ("webhooks.0.clientConfig.url", "https://a.b"),
        *(
            ("webhooks.0.clientConfig", {"url": url})
            for url in ("http://a.b", "https://u:p@a.b/c?d#e", "https:///x", "", "x")
        ),
        ("webhooks.0.clientConfig.service", {"port": 0}),
        *(("webhooks.0.clientConfig.service.path", path) for path in ("a", "/a//b", "/A!/b/", "//", "/a/")),
        ("webhooks.0.rules", [{}]),
        ("webhooks.0.rules.0.operations", ["*", "CREATE", "PATCH"]),
        ("webhooks.0.rules.0.apiGroups", ["*", "apps"], "webhooks.0.rules.0.apiVersions", ["*", ""]),
        ("webhooks.0.rules.0.resources", ["pods", "*", ""]),
        ("webhooks.0.rules.0.resources", ["*", "pods"]),
        ("webhooks.0.rules.0.resources", ["*/*", "pods/*", "pods/status", "*/scale", "a/scale"]),
        ("webhooks.0.rules.0.scope", "Some"),
    ],
    "pod template": [
        ("template.spec.containers.0.image", ""),
        ("template.spec.containers", []),
        ("template.spec.restartPolicy", "Sometimes"),
        ("template.metadata.labels.a", "b c"),
        ("template", _GONE),
        ("metadata.name", "Wrong"),
    ],
    "runtime class": [
        ("handler", ""),
        ("handler", "Run_sc"),
        ("overhead.podFixed.cpu", "-1"),
        ("overhead.podFixed.bad_name!", "1"),
        ("scheduling.nodeSelector.a", "b c"),
        ("scheduling.tolerations.0.operator", "Maybe"),
        ("scheduling.tolerations", [{"key": "a", "operator": "Exists"}, {"key": "a", "operator": "Exists"}]),
        ("metadata.name", "Wrong"),
    ],
    "API service": [
        ("metadata.name", "wrong"),
        ("metadata.name", "a/b"),
        ("spec.group", ""),
        ("spec.group", "Wrong!"),
        ("spec.version", "V1"),
        ("spec.group", "", "spec.version", "", "spec.groupPriorityMinimum", _GONE, "spec.versionPriority", _GONE),
        ("spec.groupPriorityMinimum", 20_001),
        ("spec.versionPriority", -1),
        ("spec.service", _GONE),
        ("spec.service", _GONE, "spec.caBundle", _GONE, "spec.insecureSkipTLSVerify", True),
        ("spec.service.name", "", "spec.service.namespace", ""),
        ("spec.service.port", 70_000),
        ("spec.insecureSkipTLSVerify", True),
    ],
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
    "ingress": [
        ("spec", {}),
        ("spec.rules.0.http.paths", []),
        ("spec.rules.0.http.paths.0.pathType", _GONE),
        ("spec.rules.0.http.paths.0.pathType", "Regex"),
        *(("spec.rules.0.http.paths.0.path", path) for path in _PATHS),
        ("spec.rules.0.http.paths.0", {**_PATH, "path": "a", "pathType": "ImplementationSpecific"}),
        ("spec.rules.0.http.paths.0.backend", {}),
        ("spec.rules.0.http.paths.0.backend", {**_BACKEND, "resource": {"kind": "K", "name": "n"}}),
        ("spec.rules.0.http.paths.0.backend", {"resource": {"kind": "", "name": "a/b", "apiGroup": "A"}}),
        ("spec.rules.0.http.paths.0.backend", {"service": {"name": "", "port": {}}}),
        ("spec.rules.0.http.paths.0.backend", {"service": {"name": "Web", "port": {"number": 70000}}}),
        ("spec.rules.0.http.paths.0.backend", {"service": {"name": "web", "port": {"name": "a", "number": 1}}}),
        ("spec.rules.0.http.paths.0.backend", {"service": {"name": "web", "port": {"name": "-"}}}),
        *(("spec.rules.0.host", host) for host in _HOSTS),
        ("spec.defaultBackend", {}),
        ("spec.tls", [{"hosts": ["*.a", "**", "A"], "secretName": "A"}]),
        ("spec.ingressClassName", "A"),
        ("metadata.annotations", {"kubernetes.io/ingress.class": "a"}, "spec.ingressClassName", "b"),
        ("metadata.name", "A"),
    ],
    "ingress class": [
        ("spec.controller", ""),
        ("spec.controller", "c"),
        ("spec.controller", "A/c d"),
        ("spec.controller", f"example.com/{'c' * 250}"),
        ("spec.parameters", {"kind": "", "name": ""}),
        ("spec.parameters", {"kind": "a/b", "name": "%", "apiGroup": "A"}),
        ("spec.parameters.scope", "Galaxy"),
        ("spec.parameters.scope", "Namespace"),
        ("spec.parameters", {"kind": "K", "name": "n", "scope": "Namespace", "namespace": "A"}),
        ("spec.parameters.namespace", "a"),
    ],
    "network policy": [
        ("spec.podSelector", {"matchExpressions": [{"key": "a", "operator": "Like"}]}),
        ("spec.ingress.0.ports.0.port", 0),
        ("spec.ingress.0.ports.0.port", "a--b"),
        ("spec.ingress.0.ports.0.protocol", "ICMP"),
        ("spec.ingress.0.ports.0.endPort", 79),
        ("spec.ingress.0.ports.0.endPort", 70000),
        ("spec.ingress.0.ports.0", {"port": "http", "endPort": 90}),
        ("spec.ingress.0.ports.0", {"endPort": 90}),
        *(("spec.ingress.0.from.0.ipBlock.cidr", block) for block in _BLOCKS),
        ("spec.ingress.0.from.0.ipBlock.except", ["10.1.0.0/16", "11.0.0.0/16", "10.0.0.0/8", "foo", "10.1.0.1/16"]),
        ("spec.ingress.0.from.0", {}),
        ("spec.ingress.0.from.0.podSelector", {}),
        ("spec.egress.0.to.0", {"namespaceSelector": {"matchLabels": {"a": "-"}}}),
        ("spec.policyTypes", ["Ingress", "Sideways"]),
        ("spec.policyTypes", ["Ingress", "Egress", "Ingress"]),
        ("metadata.name", "A"),
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
    "limit range": [
        ("spec.limits.0.type", ""),
        ("spec.limits.0.type", "Thing"),
        ("spec.limits", [{"type": "Container"}, {"type": "Container"}]),
        ("spec.limits.0.max", {"gpu": "1"}),
        ("spec.limits.0.max", {"a b": "1"}),
        ("spec.limits.0.min", {"cpu": "3"}),
        ("spec.limits.0", {"type": "Container", "max": {"cpu": "2"}, "default": {"cpu": "3"}}),
        ("spec.limits.0", {"type": "Container", "min": {"cpu": "2"}, "default": {"cpu": "1"}}),
        ("spec.limits.0", {"type": "Container", "min": {"cpu": "2"}, "defaultRequest": {"cpu": "1"}}),
        ("spec.limits.0", {"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "2"}}),
        ("spec.limits.0", {"type": "Container", "max": {"cpu": "1"}, "defaultRequest": {"cpu": "2"}}),
        ("spec.limits.0", {"type": "Pod", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "1"}}),
        ("spec.limits.0", {"type": "PersistentVolumeClaim"}),
        ("spec.limits.0", {"type": "PersistentVolumeClaim", "min": {"storage": "2Gi"}, "max": {"storage": "1Gi"}}),
        ("spec.limits.0.maxLimitRequestRatio", {"cpu": "500m"}),
        (
            "spec.limits.0",
            {"type": "Pod", "min": {"cpu": "1"}, "max": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "3"}},
        ),
        (
            "spec.limits.0",
            {
                "type": "Container",
                "default": {"nvidia.com/gpu": "2"},
                "defaultRequest": {"nvidia.com/gpu": "1"},
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
    for name, good in _GOOD.items():
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
    place = "/namespaces/default" if resource.namespaced else ""
    try:
        client(f"{resource.path}{place}/{resource.plural}?dryRun=All", manifest)
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
