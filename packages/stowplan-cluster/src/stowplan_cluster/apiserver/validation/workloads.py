"""Validate Deployments, ReplicaSets, StatefulSets, DaemonSets and ReplicationControllers.

The selector has to match the pod template and is immutable.

Upstream: pkg/apis/apps/validation, pkg/apis/core/validation (ReplicationController).
"""

from __future__ import annotations

from stowplan_cluster.apiserver.objects import JsonObject, equal
from stowplan_cluster.apiserver.selection import compiled
from stowplan_cluster.apiserver.validation import names
from stowplan_cluster.apiserver.validation.claims import check_claim_spec
from stowplan_cluster.apiserver.validation.field_errors import IMMUTABLE, NOT_NEGATIVE, Errors, same
from stowplan_cluster.apiserver.validation.pods import check_pod_template
from stowplan_cluster.apiserver.validation.selectors import check_label_selector, is_empty_selector

# Validate int-or-percent fields, as in rolling updates and disruption budgets.
#
# Upstream: pkg/apis/apps/validation (ValidatePositiveIntOrPercent, IsNotMoreThan100Percent).


def check_percentage(errors: Errors, path: str, value: int | str, *, at_most_all: bool) -> None:
    if isinstance(value, int):
        if value < 0:
            errors.invalid(path, value, NOT_NEGATIVE)
        return
    complaints = names.percent(value)
    errors.check_texts(path, value, complaints)
    if at_most_all and not complaints and len(value) > 3 and _number_of(value) > 100:
        errors.invalid(path, value, "must not be greater than 100%")


def _number_of(percentage: str) -> int:
    digits = percentage[:-1].lstrip("0")
    # Cap the digits: Python refuses to parse thousands of them, and any such number is too large.
    return int(digits or 0) if len(digits) < 10 else 10**9


def is_zero(value: int | str) -> bool:
    if isinstance(value, int):
        return value == 0
    return bool(names.percent(value)) or _number_of(value) == 0


_NO_MATCH = "`selector` does not match template `labels`"
_RETENTION = ("Retain", "Delete")


def _template_labels(spec: JsonObject) -> dict[str, str] | None:
    labels: dict[str, str] | None = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    return labels


def _check_selector(errors: Errors, spec: JsonObject, kind: str) -> None:
    selector = spec.get("selector")
    if selector is None:
        errors.required("spec.selector")
    check_label_selector(errors, "spec.selector", selector)
    if selector is not None and is_empty_selector(selector):
        errors.invalid("spec.selector", selector, f"empty selector is invalid for {kind}")
    ready = compiled(selector)
    if ready is None:
        errors.invalid("spec.selector", selector, "invalid label selector")
    elif not ready.empty and not ready.matches(_template_labels(spec) or {}):
        errors.invalid("spec.template.metadata.labels", _template_labels(spec), _NO_MATCH)


def check_long_running_template(errors: Errors, spec: JsonObject, kind: str) -> None:
    """Check a template whose pods run until deleted."""
    template = spec.get("template") or {}
    check_pod_template(errors, "spec.template", template)
    pod = template.get("spec") or {}
    if pod.get("restartPolicy") != "Always":
        at = "spec.template.spec.restartPolicy"
        errors.not_supported(at, pod.get("restartPolicy", ""), ("Always",))
    if pod.get("activeDeadlineSeconds") is not None:
        detail = f"activeDeadlineSeconds in {kind} is not Supported"
        errors.forbidden("spec.template.spec.activeDeadlineSeconds", detail)


def _check_status(errors: Errors, obj: JsonObject, counts: tuple[str, ...], *, total: str, per_ready: str) -> None:
    status = obj.get("status") or {}
    errors.check_not_negative_fields("status", status, ("replicas", *counts, "observedGeneration", "collisionCount"))
    for name in counts:
        if name != "unavailableReplicas" and status.get(name, 0) > status.get("replicas", 0):
            errors.invalid(f"status.{name}", status.get(name, 0), total)
    if status.get("availableReplicas", 0) > status.get("readyReplicas", 0):
        errors.invalid("status.availableReplicas", status.get("availableReplicas", 0), per_ready)


_TOTAL = "cannot be greater than status.replicas"
_PER_READY = "cannot be greater than readyReplicas"


def check_deployment(errors: Errors, deployment: JsonObject) -> None:
    spec = deployment.get("spec") or {}
    errors.check_not_negative_fields("spec", spec, ("replicas", "minReadySeconds", "revisionHistoryLimit"))
    _check_selector(errors, spec, "deployment")
    check_long_running_template(errors, spec, "ReplicaSet")
    _check_deployment_strategy(errors, spec.get("strategy") or {})
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None:
        errors.check_not_negative_fields("spec", spec, ("progressDeadlineSeconds",))
        if deadline <= spec.get("minReadySeconds", 0):
            errors.invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")


def _check_deployment_strategy(errors: Errors, strategy: JsonObject) -> None:
    kind, rolling, path = strategy.get("type", ""), strategy.get("rollingUpdate"), "spec.strategy.rollingUpdate"
    if kind == "Recreate":
        if rolling is not None:
            errors.forbidden(path, "may not be specified when strategy `type` is 'Recreate'")
    elif kind != "RollingUpdate":
        errors.not_supported("spec.strategy", strategy, ("Recreate", "RollingUpdate"))
    elif rolling is None:
        errors.required(path, "this should be defaulted and never be nil")
    else:
        unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
        check_percentage(errors, f"{path}.maxUnavailable", unavailable, at_most_all=True)
        check_percentage(errors, f"{path}.maxSurge", surge, at_most_all=False)
        if is_zero(unavailable) and is_zero(surge):
            errors.invalid(f"{path}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0")


def check_deployment_update(errors: Errors, deployment: JsonObject, old: JsonObject, subresource: str) -> None:
    if subresource == "status":
        counts = ("updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas")
        _check_status(errors, deployment, counts, total=_TOTAL, per_ready=_PER_READY)
        _check_collisions(errors, deployment, old)
        return
    check_deployment(errors, deployment)
    _check_selector_kept(errors, deployment, old)


def _check_collisions(errors: Errors, obj: JsonObject, old: JsonObject) -> None:
    count = (obj.get("status") or {}).get("collisionCount", 0)
    if count < (old.get("status") or {}).get("collisionCount", 0):
        errors.invalid("status.collisionCount", count, "cannot be decremented")


def _check_selector_kept(errors: Errors, obj: JsonObject, old: JsonObject) -> None:
    new, before = (obj.get("spec") or {}).get("selector"), (old.get("spec") or {}).get("selector")
    errors.check_immutable("spec.selector", new, before)


def _check_replica_status(errors: Errors, obj: JsonObject) -> None:
    counts = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
    _check_status(errors, obj, counts, total=_TOTAL, per_ready=_PER_READY)


def check_replica_set(errors: Errors, replica_set: JsonObject) -> None:
    spec = replica_set.get("spec") or {}
    errors.check_not_negative_fields("spec", spec, ("replicas", "minReadySeconds"))
    # Parity: the message says deployment.
    _check_selector(errors, spec, "deployment")
    check_long_running_template(errors, spec, "ReplicaSet")


def check_replica_set_update(errors: Errors, replica_set: JsonObject, old: JsonObject, subresource: str) -> None:
    if subresource == "status":
        _check_replica_status(errors, replica_set)
        return
    check_replica_set(errors, replica_set)
    _check_selector_kept(errors, replica_set, old)


def check_controller(errors: Errors, controller: JsonObject) -> None:
    """Check a ReplicationController, whose selector is a plain map."""
    spec = controller.get("spec") or {}
    errors.check_not_negative_fields("spec", spec, ("minReadySeconds", "replicas"))
    selector = spec.get("selector") or {}
    if not selector:
        errors.required("spec.selector")
    if spec.get("template") is None:
        errors.required("spec.template")
        return
    labels = _template_labels(spec) or {}
    if not selector.items() <= labels.items():
        errors.invalid("spec.template.metadata.labels", labels or None, _NO_MATCH)
    check_long_running_template(errors, spec, "ReplicationController")


def check_controller_update(errors: Errors, controller: JsonObject, old: JsonObject, subresource: str) -> None:
    if subresource == "status":
        _check_replica_status(errors, controller)
        return
    check_controller(errors, controller)


def check_daemon_set(errors: Errors, daemon_set: JsonObject) -> None:
    spec = daemon_set.get("spec") or {}
    selector = spec.get("selector")
    check_label_selector(errors, "spec.selector", selector)
    ready = compiled(selector)
    if ready is not None and not ready.matches(_template_labels(spec) or {}):
        errors.invalid("spec.template.metadata.labels", _template_labels(spec), _NO_MATCH)
    if selector is not None and is_empty_selector(selector):
        errors.invalid("spec.selector", selector, "empty selector is invalid for daemonset")
    check_long_running_template(errors, spec, "DaemonSet")
    errors.check_not_negative_fields("spec", spec, ("minReadySeconds", "revisionHistoryLimit"))
    _check_daemon_strategy(errors, spec.get("updateStrategy") or {})


def _check_daemon_strategy(errors: Errors, strategy: JsonObject) -> None:
    kind, path = strategy.get("type", ""), "spec.updateStrategy"
    if kind == "OnDelete":
        return
    if kind != "RollingUpdate":
        errors.not_supported(path, strategy, ("RollingUpdate", "OnDelete"))
        return
    rolling = strategy.get("rollingUpdate")
    if rolling is None:
        errors.required(f"{path}.rollingUpdate")
        return
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    check_percentage(errors, f"{path}.rollingUpdate.maxUnavailable", unavailable, at_most_all=True)
    check_percentage(errors, f"{path}.rollingUpdate.maxSurge", surge, at_most_all=True)
    if not is_zero(unavailable) and not is_zero(surge):
        detail = "may not be set when maxUnavailable is non-zero"
        errors.invalid(f"{path}.rollingUpdate.maxSurge", surge, detail)
    elif is_zero(unavailable) and is_zero(surge):
        errors.required(f"{path}.rollingUpdate.maxUnavailable", "cannot be 0 when maxSurge is 0")


_DAEMON_COUNTS = (
    "currentNumberScheduled",
    "numberMisscheduled",
    "desiredNumberScheduled",
    "numberReady",
    "observedGeneration",
    "updatedNumberScheduled",
    "numberAvailable",
    "numberUnavailable",
    "collisionCount",
)


def check_daemon_set_update(errors: Errors, daemon_set: JsonObject, old: JsonObject, subresource: str) -> None:
    if subresource == "status":
        errors.check_not_negative_fields("status", daemon_set.get("status") or {}, _DAEMON_COUNTS)
        _check_collisions(errors, daemon_set, old)
        return
    _check_selector_kept(errors, daemon_set, old)
    check_daemon_set(errors, daemon_set)


_STATEFUL_CHANGES = (
    "replicas",
    "template",
    "updateStrategy",
    "minReadySeconds",
    "ordinals",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
)


def check_stateful_set(errors: Errors, stateful_set: JsonObject) -> None:
    spec = stateful_set.get("spec") or {}
    _check_stateful_spec(errors, spec)
    for index, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
        check_claim_spec(errors, f"spec.volumeClaimTemplates[{index}].spec", claim.get("spec") or {})
    if service := spec.get("serviceName"):
        errors.check_texts("spec.serviceName", service, names.dns_label(service))


def _check_stateful_spec(errors: Errors, spec: JsonObject) -> None:
    policy = spec.get("podManagementPolicy", "")
    if not policy:
        errors.required("spec.podManagementPolicy")
    elif policy not in ("OrderedReady", "Parallel"):
        errors.invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'")
    _check_stateful_strategy(errors, spec.get("updateStrategy") or {})
    retention = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    for name in ("whenDeleted", "whenScaled"):
        errors.check_supported(f"spec.persistentVolumeClaimRetentionPolicy.{name}", retention.get(name), _RETENTION)
    errors.check_not_negative_fields("spec", spec, ("replicas", "minReadySeconds"))
    errors.check_not_negative_fields("spec.ordinals", spec.get("ordinals") or {}, ("start",))
    _check_selector(errors, spec, "statefulset")
    check_long_running_template(errors, _with_claimed_volumes(spec), "StatefulSet")


def _with_claimed_volumes(spec: JsonObject) -> JsonObject:
    """The spec with the pods as they will be created: a volume per claim template, without hostname and subdomain."""
    template = spec.get("template") or {}
    pod = {name: value for name, value in (template.get("spec") or {}).items() if name not in ("hostname", "subdomain")}
    claims = [(claim.get("metadata") or {}).get("name", "") for claim in spec.get("volumeClaimTemplates") or ()]
    if claims:
        made = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in dict.fromkeys(claims)]
        pod["volumes"] = [*made, *(entry for entry in pod.get("volumes") or () if entry.get("name") not in claims)]
    return spec | {"template": template | {"spec": pod}}


def _check_stateful_strategy(errors: Errors, strategy: JsonObject) -> None:
    kind, path, rolling = strategy.get("type", ""), "spec.updateStrategy", strategy.get("rollingUpdate")
    if not kind:
        errors.required(path)
    elif kind not in ("RollingUpdate", "OnDelete"):
        errors.invalid(path, strategy, "must be 'RollingUpdate' or 'OnDelete'")
    elif rolling is not None and kind == "OnDelete":
        errors.invalid(f"{path}.rollingUpdate", rolling, "only allowed for updateStrategy 'RollingUpdate'")
    elif rolling is not None:
        errors.check_not_negative_fields(f"{path}.rollingUpdate", rolling, ("partition",))
        if (unavailable := rolling.get("maxUnavailable")) is not None:
            check_percentage(errors, f"{path}.rollingUpdate.maxUnavailable", unavailable, at_most_all=True)
            if is_zero(unavailable):
                errors.invalid(f"{path}.rollingUpdate.maxUnavailable", unavailable, "cannot be 0")


def check_stateful_set_update(errors: Errors, stateful_set: JsonObject, old: JsonObject, subresource: str) -> None:
    if subresource == "status":
        counts = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
        _check_status(
            errors, stateful_set, counts, total=_TOTAL, per_ready="cannot be greater than status.readyReplicas"
        )
        _check_collisions(errors, stateful_set, old)
        return
    spec, old_spec = stateful_set.get("spec") or {}, old.get("spec") or {}
    _check_stateful_spec(errors, spec)
    if not same(
        {n: v for n, v in spec.items() if n not in _STATEFUL_CHANGES},
        {n: v for n, v in old_spec.items() if n not in _STATEFUL_CHANGES},
    ):
        detail = (
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
            "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
        )
        errors.forbidden("spec", detail)


def check_revision(errors: Errors, revision: JsonObject) -> None:
    errors.check_not_negative_fields("", revision, ("revision",))
    if not isinstance(revision.get("data"), dict):
        known = revision.get("data") is not None
        errors.required("data", "data must be a valid JSON object" if known else "data is mandatory")


def check_revision_update(errors: Errors, revision: JsonObject, old: JsonObject, subresource: str) -> None:
    if revision.get("revision", 0) < 0:
        errors.check_not_negative_fields("", revision, ("revision",))
    if not equal(revision.get("data"), old.get("data")):
        errors.invalid("data", revision.get("data"), IMMUTABLE)
