"""Defaults of pods and pod templates.

Requests from limits, host ports and service links are defaulted in pods only, not in templates.

Upstream: pkg/apis/core/v1/defaults.go, zz_generated.defaults.go.
"""

from __future__ import annotations

from functools import lru_cache

from stowplan.kube.api.container_totals import total_texts
from stowplan.kube.api.pod import DEFAULT_SCHEDULER_NAME
from stowplan.kube.api.quantity import format_quantity, read_quantity
from stowplan_cluster.apiserver.objects import JsonObject

# Defaults of pod volumes, PersistentVolumes and PersistentVolumeClaims.
#
# Upstream: pkg/apis/core/v1/defaults.go, zz_generated.defaults.go.

_FILE_MODE = 0o644

#: Defaults of volume sources, shared by pod volumes and PersistentVolumes.
_SOURCE_DEFAULTS: dict[str, dict[str, str | bool]] = {
    "hostPath": {"type": ""},
    "iscsi": {"iscsiInterface": "default"},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "azureDisk": {"cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": False, "kind": "Shared"},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
}
_WITH_MODE = ("secret", "configMap", "downwardAPI", "projected")


def _default_source(holder: JsonObject) -> None:
    for name, defaults in _SOURCE_DEFAULTS.items():
        source = holder.get(name)
        if source is None:
            continue
        for field, value in defaults.items():
            if source.get(field) is None or (value and source[field] == ""):
                source[field] = value


def default_pod_volume(volume: JsonObject) -> None:
    if not any(name != "name" and source is not None for name, source in volume.items()):
        volume["emptyDir"] = {}
        return
    _default_source(volume)
    for name in _WITH_MODE:
        source = volume.get(name)
        if source is not None and source.get("defaultMode") is None:
            source["defaultMode"] = _FILE_MODE
    _default_downward(volume.get("downwardAPI"))
    for source in (volume.get("projected") or {}).get("sources") or ():
        _default_downward(source.get("downwardAPI"))
        token = source.get("serviceAccountToken")
        if token is not None and token.get("expirationSeconds") is None:
            token["expirationSeconds"] = 3600
    template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
    if template is not None:
        default_claim_spec(template.setdefault("spec", {}))
    _default_image(volume.get("image"))


def _default_downward(source: JsonObject | None) -> None:
    for item in (source or {}).get("items") or ():
        field = item.get("fieldRef")
        if field is not None and not field.get("apiVersion"):
            field["apiVersion"] = "v1"


def _default_image(image: JsonObject | None) -> None:
    if image is not None and not image.get("pullPolicy"):
        image["pullPolicy"] = pull_policy(image.get("reference") or "")


def default_claim_spec(spec: JsonObject) -> None:
    if spec.get("volumeMode") is None:
        spec["volumeMode"] = "Filesystem"
    resources = spec.setdefault("resources", {})
    round_amounts(resources.get("limits"))
    round_amounts(resources.get("requests"))


def default_claim(claim: JsonObject) -> None:
    default_claim_spec(claim.setdefault("spec", {}))
    status = claim.setdefault("status", {})
    if not status.get("phase"):
        status["phase"] = "Pending"
    round_amounts(status.get("capacity"))
    round_amounts(status.get("allocatedResources"))


def default_persistent_volume(volume: JsonObject) -> None:
    spec, status = volume.setdefault("spec", {}), volume.setdefault("status", {})
    if not status.get("phase"):
        status["phase"] = "Pending"
    if not spec.get("persistentVolumeReclaimPolicy"):
        spec["persistentVolumeReclaimPolicy"] = "Retain"
    if spec.get("volumeMode") is None:
        spec["volumeMode"] = "Filesystem"
    round_amounts(spec.get("capacity"))
    _default_source(spec)


# Round resource quantities up to milli-units.
#
# Expects canonical quantities, as `schema.conform` produces them.
#
# Upstream: SetDefaults_ResourceList in pkg/apis/core/v1/defaults.go.

_NANO_PER_MILLI = 10**6


@lru_cache(maxsize=16384)
def whole_millis(text: str) -> str:
    """The quantity, rounded away from zero."""
    quantity = read_quantity(text)
    rest = abs(quantity.nano) % _NANO_PER_MILLI
    if not rest:
        return text
    more = _NANO_PER_MILLI - rest
    return format_quantity(quantity.nano + (more if quantity.nano > 0 else -more), quantity.format)


def round_amounts(resources: dict[str, str] | None) -> None:
    """Round a list of resources in place."""
    if resources:
        for name, text in resources.items():
            resources[name] = whole_millis(text)


# The default image pull policy.
#
# Upstream: pkg/util/parsers (ParseImageName), SetDefaults_Container in pkg/apis/core/v1.


@lru_cache(maxsize=4096)
def pull_policy(image: str) -> str:
    """Always if the tag is latest, explicitly or by default."""
    name, at, _digest = image.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    moves = tag == "latest" or bool(name and not tag and not at)
    return "Always" if moves else "IfNotPresent"


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
