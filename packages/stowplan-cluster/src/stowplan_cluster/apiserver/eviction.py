"""Eviction: a deletion that a PodDisruptionBudget may reject.

The budget that protects the pod (`budget_to_charge`) must allow a disruption; it is charged before the pod is deleted.

Upstream: pkg/registry/core/pod/storage/eviction.go.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from stowplan.kube.api import api_errors
from stowplan.kube.api.budgets import SeveralBudgetsError, budget_to_charge
from stowplan.kube.api.decode import decode_json
from stowplan.kube.api.meta import timestamp
from stowplan.kube.api.policy import PodDisruptionBudget
from stowplan_cluster.apiserver.deletion import DeleteOptions, Deletion, check_preconditions, options_of
from stowplan_cluster.apiserver.objects import JsonObject, condition_of, is_true, metadata_of, set_condition
from stowplan_cluster.apiserver.registry import Registry
from stowplan_cluster.apiserver.schema import conform, struct_named
from stowplan_cluster.apiserver.selection import compiled
from stowplan_cluster.apiserver.store import Stored

_REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."
_CAUSE = "DisruptionBudget"
BUDGETS = "poddisruptionbudgets.policy"
#: Maximum number of evictions that the disruption controller has not observed yet.
_MAX_DISRUPTED_PODS = 2000
#: Seconds after which the client should retry while the budget's status is outdated.
_RETRY_AFTER = 10


def evict(registry: Registry, namespace: str, name: str, eviction: JsonObject, options: DeleteOptions) -> Deletion:
    conform(struct_named("io.k8s.api.policy.v1.Eviction"), eviction)
    if metadata_of(eviction).get("name") != name:
        raise api_errors.BadRequest("name in URL does not match name in Eviction object")
    options = options_of(eviction.get("deleteOptions") or {}, options)
    pods = registry.of_storage("pods")
    live = registry.get(pods, namespace, name)
    pod = live.to_dict()
    check_preconditions(pods, live, options)
    _charge_budget(registry, live, pod, options)
    if not options.dry_run:
        _mark(registry, pod)
    return registry.delete(pods, namespace, name, options=_without_version(options))


def _without_version(options: DeleteOptions) -> DeleteOptions:
    # Already checked; writing the condition has changed the resourceVersion since.
    return replace(options, resource_version=None)


def _mark(registry: Registry, pod: JsonObject) -> None:
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    set_condition(pod.setdefault("status", {}), condition, now=timestamp(registry.clock()), probed=True)
    registry.replace(registry.of_storage("pods"), pod)


def _charge_budget(registry: Registry, live: Stored, pod: JsonObject, options: DeleteOptions) -> None:
    status = pod.get("status") or {}
    try:
        charged = budget_to_charge(
            status.get("phase", ""),
            ready=is_true(status, "Ready"),
            terminating=bool(metadata_of(pod).get("deletionTimestamp")),
            guards=[decode_json(one.data, PodDisruptionBudget) for one in _guards_of(registry, live)],
        )
    except SeveralBudgetsError:
        raise api_errors.InternalError(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        ) from None
    if charged is not None:
        metadata = charged.metadata
        stored = registry.get(registry.of_storage(BUDGETS), metadata.namespace, metadata.name)
        budget = stored.to_dict()
        _check_budget(budget)
        if not options.dry_run:
            _charge(registry, budget, live.name)


def _guards_of(registry: Registry, pod: Stored) -> list[Stored]:
    return [one for one in registry.store.list(BUDGETS, pod.namespace) if _guards(one, pod)]


def _guards(budget: Stored, pod: Stored) -> bool:
    selector = compiled((budget.to_dict().get("spec") or {}).get("selector"))
    return selector is not None and selector.matches(pod.labels)


def _check_budget(budget: JsonObject) -> None:
    metadata, status = metadata_of(budget), budget.get("status") or {}
    name = metadata["name"]
    if status.get("observedGeneration", 0) < metadata.get("generation", 0):
        raise _refused(f"The disruption budget {name} is still being processed by the server.", _RETRY_AFTER)
    allowed = status.get("disruptionsAllowed", 0)
    if allowed < 0:
        raise api_errors.forbidden("poddisruptionbudget", "policy", name, "pdb disruptions allowed is negative")
    if len(status.get("disruptedPods") or ()) > _MAX_DISRUPTED_PODS:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise api_errors.forbidden("poddisruptionbudget", "policy", name, why)
    if allowed == 0:
        raise _refused(_why_not(name, status), 0)


def _why_not(name: str, status: Mapping[str, object]) -> str:
    condition = condition_of(dict(status), "DisruptionAllowed") or {}
    message = condition.get("message") if condition.get("status") == "False" else None
    current, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    if message and condition.get("reason") == "SyncFailed":
        return f"The disruption budget {name} does not allow evicting pods currently because it failed sync: {message}"
    if isinstance(current, int) and isinstance(desired, int) and current <= desired:
        return f"The disruption budget {name} needs {desired} healthy pods and has {current} currently"
    if message:
        reason = condition.get("reason", "")
        return f"The disruption budget {name} does not allow evicting pods currently ({reason}): {message}"
    return f"The disruption budget {name} does not allow evicting pods currently"


def _refused(why: str, retry_after: int) -> api_errors.ApiError:
    cause = api_errors.StatusCause(reason=_CAUSE, message=why)
    return api_errors.TooManyRequests(
        _REFUSED, details=api_errors.StatusDetails(causes=(cause,), retry_after_seconds=retry_after)
    )


def _charge(registry: Registry, budget: JsonObject, pod: str) -> None:
    now = timestamp(registry.clock())
    status = budget["status"]
    status["disruptionsAllowed"] -= 1
    status["disruptedPods"] = {**(status.get("disruptedPods") or {}), pod: now}
    if status["disruptionsAllowed"] == 0:
        condition = {
            "type": "DisruptionAllowed",
            "status": "False",
            "reason": "InsufficientPods",
            "message": "",
            "observedGeneration": status.get("observedGeneration", 0),
        }
        set_condition(status, condition, now=now)
    registry.replace(registry.of_storage(BUDGETS), budget)
