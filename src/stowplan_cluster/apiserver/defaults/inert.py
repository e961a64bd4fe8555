"""Defaults of inert kinds (stored only), so that they read back as from any API server.

Upstream: defaults.go of pkg/apis/autoscaling/v2, networking/v1, admissionregistration/v1, discovery/v1,
flowcontrol/v1, batch/v1 and core/v1, and of kube-aggregator/pkg/apis/apiregistration/v1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stowplan_cluster.apiserver.conversion import METRICS_OF_V2
from stowplan_cluster.apiserver.defaults.pods import default_template

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stowplan_cluster.apiserver.objects import JsonObject

_HTTPS = 443


def _fill(obj: JsonObject, **defaults: Any) -> None:
    """Set absent fields; 0 and "" count as set (pointers upstream)."""
    for name, value in defaults.items():
        if obj.get(name) is None:
            obj[name] = value


def _fill_zero(obj: JsonObject, **defaults: Any) -> None:
    """Set fields that are absent or zero (values upstream)."""
    for name, value in defaults.items():
        obj[name] = obj.get(name) or value


def _spec(obj: JsonObject) -> JsonObject:
    spec: JsonObject = obj.setdefault("spec", {})
    return spec


def _default_cron_job(cron_job: JsonObject) -> None:
    spec = _spec(cron_job)
    _fill_zero(spec, concurrencyPolicy="Allow")
    _fill(spec, suspend=False, successfulJobsHistoryLimit=3, failedJobsHistoryLimit=1)
    job = spec.setdefault("jobTemplate", {}).setdefault("spec", {})
    default_template(job.setdefault("template", {}))


def _default_pod_template(template: JsonObject) -> None:
    default_template(template.setdefault("template", {}))


def _default_autoscaler(autoscaler: JsonObject) -> None:
    spec = _spec(autoscaler)
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


def _default_network_policy(policy: JsonObject) -> None:
    spec = _spec(policy)
    for rule in (*(spec.get("ingress") or ()), *(spec.get("egress") or ())):
        for port in rule.get("ports") or ():
            _fill(port, protocol="TCP")
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", *(["Egress"] if spec.get("egress") else [])]


def _default_ingress_class(ingress_class: JsonObject) -> None:
    parameters = _spec(ingress_class).get("parameters")
    if parameters is not None:
        _fill(parameters, scope="Cluster")


def _default_limit_range(limits: JsonObject) -> None:
    for item in _spec(limits).get("limits") or ():
        if item.get("type") == "Container":
            item["default"] = {**(item.get("max") or {}), **(item.get("default") or {})}
            requests = item.get("defaultRequest") or {}
            item["defaultRequest"] = {**(item.get("min") or {}), **item["default"], **requests}


def _default_endpoints(endpoints: JsonObject) -> None:
    for subset in endpoints.get("subsets") or ():
        for port in subset.get("ports") or ():
            _fill_zero(port, protocol="TCP")


def _default_endpoint_slice(endpoint_slice: JsonObject) -> None:
    for port in endpoint_slice.get("ports") or ():
        _fill(port, name="", protocol="TCP")


# -- admission --------------------------------------------------------------------------------------------------------


def _default_matches(matches: JsonObject) -> None:
    _fill(matches, matchPolicy="Equivalent", namespaceSelector={}, objectSelector={})
    for rule in (*(matches.get("resourceRules") or ()), *(matches.get("excludeResourceRules") or ())):
        _fill(rule, scope="*")


def _webhooks(configuration: JsonObject) -> Iterator[JsonObject]:
    for webhook in configuration.get("webhooks") or ():
        _fill(webhook, failurePolicy="Fail", timeoutSeconds=10)
        _fill(webhook, matchPolicy="Equivalent", namespaceSelector={}, objectSelector={})
        for rule in webhook.get("rules") or ():
            _fill(rule, scope="*")
        service = (webhook.get("clientConfig") or {}).get("service")
        if service is not None:
            _fill(service, port=_HTTPS)
        yield webhook


def _default_validating(configuration: JsonObject) -> None:
    for _ in _webhooks(configuration):
        pass


def _default_mutating(configuration: JsonObject) -> None:
    for webhook in _webhooks(configuration):
        _fill(webhook, reinvocationPolicy="Never")


def _default_policy(policy: JsonObject) -> None:
    spec = _spec(policy)
    _fill(spec, failurePolicy="Fail")
    if spec.get("matchConstraints") is not None:
        _default_matches(spec["matchConstraints"])


def _default_policy_binding(binding: JsonObject) -> None:
    matches = _spec(binding).get("matchResources")
    if matches is not None:
        _default_matches(matches)


# -- the API server's own ---------------------------------------------------------------------------------------------


def _default_api_service(service: JsonObject) -> None:
    reference = _spec(service).get("service")
    if reference is not None:
        _fill(reference, port=_HTTPS)


def _default_flow_schema(schema: JsonObject) -> None:
    _fill_zero(_spec(schema), matchingPrecedence=1000)


def _default_priority_level(level: JsonObject) -> None:
    spec = _spec(level)
    exempt, limited = spec.get("exempt"), spec.get("limited")
    if exempt is not None:
        _fill(exempt, nominalConcurrencyShares=0, lendablePercent=0)
    if limited is None:
        return
    _fill(limited, nominalConcurrencyShares=30, lendablePercent=0)
    queuing = (limited.get("limitResponse") or {}).get("queuing")
    if queuing is not None:
        _fill_zero(queuing, queues=64, handSize=8, queueLengthLimit=50)


DEFAULTS: dict[str, Callable[[JsonObject], None]] = {
    "endpoints": _default_endpoints,
    "limitranges": _default_limit_range,
    "podtemplates": _default_pod_template,
    "cronjobs.batch": _default_cron_job,
    "horizontalpodautoscalers.autoscaling": _default_autoscaler,
    "networkpolicies.networking.k8s.io": _default_network_policy,
    "ingressclasses.networking.k8s.io": _default_ingress_class,
    "endpointslices.discovery.k8s.io": _default_endpoint_slice,
    "validatingwebhookconfigurations.admissionregistration.k8s.io": _default_validating,
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": _default_mutating,
    "validatingadmissionpolicies.admissionregistration.k8s.io": _default_policy,
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": _default_policy_binding,
    "mutatingadmissionpolicies.admissionregistration.k8s.io": _default_policy,
    "mutatingadmissionpolicybindings.admissionregistration.k8s.io": _default_policy_binding,
    "apiservices.apiregistration.k8s.io": _default_api_service,
    "flowschemas.flowcontrol.apiserver.k8s.io": _default_flow_schema,
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": _default_priority_level,
}
