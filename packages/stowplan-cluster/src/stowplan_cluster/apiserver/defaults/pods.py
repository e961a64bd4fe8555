"""Defaults of pods and pod templates.

Requests from limits, host ports and service links are defaulted in pods only, not in templates.

Upstream: pkg/apis/core/v1/defaults.go, zz_generated.defaults.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.kube.api.pod import DEFAULT_SCHEDULER_NAME
from stowplan_cluster.apiserver.defaults.aggregates import total_texts
from stowplan_cluster.apiserver.defaults.images import pull_policy
from stowplan_cluster.apiserver.defaults.quantities import round_amounts
from stowplan_cluster.apiserver.defaults.volumes import default_pod_volume

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.objects import JsonObject

_CONTAINER_LISTS = ("containers", "initContainers", "ephemeralContainers")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE_DEFAULTS = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_SPEC_DEFAULTS = {
    "dnsPolicy": "ClusterFirst",
    "restartPolicy": "Always",
    "schedulerName": DEFAULT_SCHEDULER_NAME,
}


def default_pod(pod: JsonObject) -> None:
    spec = pod.setdefault("spec", {})
    for name in ("containers", "initContainers"):
        for container in spec.get(name) or ():
            _request_what_is_limited(container)
    if spec.get("resources") is not None:
        _default_pod_resources(spec)
    if spec.get("enableServiceLinks") is None:
        spec["enableServiceLinks"] = True
    if spec.get("hostNetwork"):
        _default_host_ports(spec)
    default_pod_spec(spec)


def default_template(template: JsonObject) -> None:
    default_pod_spec(template.setdefault("spec", {}))


def default_pod_spec(spec: JsonObject) -> None:
    for name, value in _SPEC_DEFAULTS.items():
        if not spec.get(name):
            spec[name] = value
    if spec.get("securityContext") is None:
        spec["securityContext"] = {}
    if spec.get("terminationGracePeriodSeconds") is None:
        spec["terminationGracePeriodSeconds"] = 30
    _mirror_service_account(spec)
    for volume in spec.get("volumes") or ():
        default_pod_volume(volume)
    for name in _CONTAINER_LISTS:
        for container in spec.get(name) or ():
            _default_container(container)
    round_amounts(spec.get("overhead"))
    if (resources := spec.get("resources")) is not None:
        round_amounts(resources.get("limits"))
        round_amounts(resources.get("requests"))


def _mirror_service_account(spec: JsonObject) -> None:
    """Keep the deprecated serviceAccount in step with serviceAccountName."""
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account


def _request_what_is_limited(container: JsonObject) -> None:
    resources = container.get("resources")
    limits = resources.get("limits") if resources else None
    if resources and limits:
        # Keep the order: explicit requests first, then those copied from limits.
        requests = resources.setdefault("requests", {})
        for name, value in limits.items():
            requests.setdefault(name, value)


def _default_pod_resources(spec: JsonObject) -> None:
    resources = spec["resources"]
    limits, requests = dict(resources.get("limits") or {}), dict(resources.get("requests") or {})
    if not limits and not requests:
        return
    for name, value in total_texts(spec, "limits").items():
        if name.startswith("hugepages-") and name not in requests:
            limits.setdefault(name, value)
    if limits:
        resources["limits"] = limits
        for name, value in total_texts(spec, "requests").items():
            if name in ("cpu", "memory"):
                requests.setdefault(name, value)
        for name, value in limits.items():
            if name in ("cpu", "memory") or name.startswith("hugepages-"):
                requests.setdefault(name, value)
    if requests:
        resources["requests"] = requests


def _default_host_ports(spec: JsonObject) -> None:
    for name in ("containers", "initContainers"):
        for container in spec.get(name) or ():
            for port in container.get("ports") or ():
                if not port.get("hostPort") and port.get("containerPort"):
                    port["hostPort"] = port["containerPort"]


def _default_container(container: JsonObject) -> None:
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = pull_policy(container.get("image") or "")
    if not container.get("terminationMessagePath"):
        container["terminationMessagePath"] = "/dev/termination-log"
    if not container.get("terminationMessagePolicy"):
        container["terminationMessagePolicy"] = "File"
    for port in container.get("ports") or ():
        if not port.get("protocol"):
            port["protocol"] = "TCP"
    resources = container.get("resources")
    if resources is None:
        container["resources"] = {}
    elif resources:
        round_amounts(resources.get("limits"))
        round_amounts(resources.get("requests"))
    if env := container.get("env"):
        _default_environment(env)
    for name in _PROBES:
        if (probe := container.get(name)) is not None:
            _default_probe(probe)
    if lifecycle := container.get("lifecycle"):
        for name in ("postStart", "preStop"):
            _default_http_action((lifecycle.get(name) or {}).get("httpGet"))


def _default_environment(env: list[JsonObject]) -> None:
    for variable in env:
        source = variable.get("valueFrom")
        if not source:
            continue
        field, file = source.get("fieldRef"), source.get("fileKeyRef")
        if field is not None and not field.get("apiVersion"):
            field["apiVersion"] = "v1"
        if file is not None and file.get("optional") is None:
            file["optional"] = False


def _default_probe(probe: JsonObject) -> None:
    for name, value in _PROBE_DEFAULTS.items():
        if not probe.get(name):
            probe[name] = value
    _default_http_action(probe.get("httpGet"))
    grpc = probe.get("grpc")
    if grpc is not None and grpc.get("service") is None:
        grpc["service"] = ""


def _default_http_action(action: JsonObject | None) -> None:
    if action is None:
        return
    if not action.get("path"):
        action["path"] = "/"
    if not action.get("scheme"):
        action["scheme"] = "HTTP"
