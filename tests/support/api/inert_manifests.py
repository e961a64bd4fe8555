"""Minimal manifests of kinds that are stored and not acted on, as other projects contain them."""

POD = {"spec": {"containers": [{"name": "c", "image": "busybox"}], "restartPolicy": "Never"}}
SERVICE = {"name": "hook", "namespace": "default"}
RULE = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
WEBHOOK = {
    "name": "hook.example.com",
    "clientConfig": {"service": SERVICE},
    "rules": [RULE],
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
}
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}


def _made(api_version, kind, **fields):
    name = fields.pop("name", "x")
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **fields}


MANIFESTS = {
    "cron job": _made(
        "batch/v1", "CronJob", spec={"schedule": "0 3 * * *", "jobTemplate": {"spec": {"template": POD}}}
    ),
    "pod template": _made("v1", "PodTemplate", template=POD),
    "autoscaler": _made("autoscaling/v2", "HorizontalPodAutoscaler", spec={"scaleTargetRef": TARGET, "maxReplicas": 3}),
    "autoscaler with a behavior": _made(
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        name="y",
        spec={
            "scaleTargetRef": TARGET,
            "maxReplicas": 3,
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 60}},
        },
    ),
    "autoscaler of v1": _made(
        "autoscaling/v1", "HorizontalPodAutoscaler", name="z", spec={"scaleTargetRef": TARGET, "maxReplicas": 3}
    ),
    "network policy": _made(
        "networking.k8s.io/v1", "NetworkPolicy", spec={"podSelector": {}, "ingress": [{"ports": [{"port": 80}]}]}
    ),
    "network policy for egress": _made(
        "networking.k8s.io/v1",
        "NetworkPolicy",
        name="y",
        spec={"podSelector": {}, "egress": [{"ports": [{"port": 53, "protocol": "UDP"}]}]},
    ),
    "ingress class": _made(
        "networking.k8s.io/v1",
        "IngressClass",
        spec={"controller": "example.com/c", "parameters": {"kind": "P", "name": "p"}},
    ),
    "limit range": _made(
        "v1",
        "LimitRange",
        spec={"limits": [{"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "10Mi"}}, {"type": "Pod"}]},
    ),
    "endpoints": _made("v1", "Endpoints", subsets=[{"addresses": [{"ip": "10.1.1.1"}], "ports": [{"port": 80}]}]),
    "endpoint slice": _made(
        "discovery.k8s.io/v1",
        "EndpointSlice",
        addressType="IPv4",
        endpoints=[{"addresses": ["10.1.1.1"]}],
        ports=[{"port": 80}],
    ),
    "validating webhook": _made(
        "admissionregistration.k8s.io/v1",
        "ValidatingWebhookConfiguration",
        webhooks=[{**WEBHOOK, "namespaceSelector": {"matchLabels": {"hooked": "yes"}}}],
    ),
    "mutating webhook": _made(
        "admissionregistration.k8s.io/v1",
        "MutatingWebhookConfiguration",
        webhooks=[{**WEBHOOK, "objectSelector": {"matchLabels": {"hooked": "yes"}}, "timeoutSeconds": 3}],
    ),
    "admission policy": _made(
        "admissionregistration.k8s.io/v1",
        "ValidatingAdmissionPolicy",
        spec={"matchConstraints": {"resourceRules": [RULE]}, "validations": [{"expression": "true"}]},
    ),
    "policy binding": _made(
        "admissionregistration.k8s.io/v1",
        "ValidatingAdmissionPolicyBinding",
        spec={"policyName": "none", "validationActions": ["Warn"], "matchResources": {"resourceRules": [RULE]}},
    ),
    "API service": _made(
        "apiregistration.k8s.io/v1",
        "APIService",
        name="v1.metrics.example.com",
        spec={
            "service": SERVICE,
            "group": "metrics.example.com",
            "version": "v1",
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "insecureSkipTLSVerify": True,
        },
    ),
    "flow schema": _made(
        "flowcontrol.apiserver.k8s.io/v1", "FlowSchema", spec={"priorityLevelConfiguration": {"name": "x"}}
    ),
    "priority level": _made(
        "flowcontrol.apiserver.k8s.io/v1",
        "PriorityLevelConfiguration",
        spec={"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": {}}}},
    ),
}
