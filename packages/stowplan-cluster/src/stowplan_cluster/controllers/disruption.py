"""Compute disruptionsAllowed of each PodDisruptionBudget.

The healthy pods of a budget and the number of pods per owner are updated incrementally as pods change. So the cost of a
reconcile depends on the number of owners and accepted evictions, not of pods; pods in namespaces without budgets are
ignored.

If minAvailable is a number, the expected count is the number of existing pods; otherwise it is the scale of their
owners: of a ReplicaSet's Deployment, or of anything else with a scale subresource, custom resources included. An
accepted eviction counts as a disrupted pod until the pod is being deleted, for at most two minutes.

Left out: a change of a custom resource's scale is noticed when its pods change; stale DisruptionTarget conditions are
not removed.

Upstream: pkg/controller/disruption.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import field

from stowplan.kube.api.budgets import BudgetPod, BudgetPods, ScaleError, budget_status, expected_pods, expects_scale
from stowplan.kube.api.decode import decode_json
from stowplan.kube.api.label_selectors import NOTHING, Selector, SelectorError, compile_label_selector
from stowplan.kube.api.meta import OwnerReference, controller_of, seconds_of
from stowplan.kube.api.policy import PodDisruptionBudget, PodDisruptionBudgetStatus
from stowplan.kube.structs import PlainStruct
from stowplan_cluster.apiserver.eviction import BUDGETS
from stowplan_cluster.apiserver.objects import JsonObject, set_condition
from stowplan_cluster.apiserver.registry import Registry
from stowplan_cluster.apiserver.scale import scale_of
from stowplan_cluster.apiserver.store import Event, Stored
from stowplan_cluster.controllers.client import NORMAL, WARNING, ControllerClient
from stowplan_cluster.controllers.pods_by_node import key_of
from stowplan_cluster.reconcile.pods import PODS, decode_pod
from stowplan_cluster.reconcile.views import (
    DEPLOYMENTS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    Key,
    Scaled,
)

# The expected pod count of a pod's owner: its spec.replicas, or that of its Deployment.
#
# Upstream: pkg/controller/disruption/disruption.go (the finders).

_BUILT_IN = frozenset(kind.storage for kind in (REPLICA_SETS, REPLICATION_CONTROLLERS, STATEFUL_SETS))


class Scale(PlainStruct):
    #: uid of the scaled object; None if it does not exist.
    uid: str | None = None
    replicas: int = 0
    #: uids of all objects that were read.
    sources: list[str] = field(default_factory=list)


class OwnerScales:
    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def of(self, owner: OwnerReference, namespace: str) -> Scale:
        resource = self._registry.catalogue.of_kind(owner.api_version, owner.kind)
        if resource is None:
            raise ScaleError(f'no matches for kind "{owner.kind}" in version "{owner.api_version}"')
        scale = Scale(sources=[owner.uid])
        stored = self._find(resource.storage, namespace, owner)
        if stored is None:
            return scale
        if resource.storage in _BUILT_IN:
            self._read(scale, stored)
            if resource.storage == REPLICA_SETS.storage:
                self._follow_deployment(scale, stored)
            return scale
        if "scale" not in resource.subresources:
            raise ScaleError(f"{resource.qualified} does not implement the scale subresource")
        scale.uid = stored.uid
        scale.replicas = scale_of(self._registry, resource, stored)["spec"]["replicas"]
        return scale

    def _follow_deployment(self, scale: Scale, stored: Stored) -> None:
        references = decode_json(stored.data, Scaled).metadata.owner_references
        reference = next((one for one in references if one.controller and one.kind == DEPLOYMENTS.kind), None)
        if reference is None:
            return
        scale.uid = None
        scale.sources.append(reference.uid)
        deployment = self._find(DEPLOYMENTS.storage, stored.namespace, reference)
        if deployment is not None:
            self._read(scale, deployment)

    def _find(self, storage: str, namespace: str, owner: OwnerReference) -> Stored | None:
        stored = self._registry.store.get(storage, namespace, owner.name)
        return stored if stored is not None and stored.uid == owner.uid else None

    def _read(self, scale: Scale, stored: Stored) -> None:
        scale.uid, scale.replicas = stored.uid, decode_json(stored.data, Scaled).spec.replicas


class Budget(PlainStruct):
    selector: Selector
    pods: BudgetPods = field(default_factory=BudgetPods)
    #: uids of the objects from which the scale was read.
    scale_sources: set[str] = field(default_factory=set)


#: How long an accepted eviction counts if its pod is not deleted.
DELETION_TIMEOUT_SECONDS = 120.0

ALLOWED = "DisruptionAllowed"
_UNMANAGED = (
    "Pods selected by this PodDisruptionBudget were found to be unmanaged. As a result, the status of the PDB cannot "
    "be calculated correctly, which may result in undefined behavior. To account for these pods please set "
    '".spec.minAvailable" field of the PDB to an integer value.'
)


class DisruptionController:
    def __init__(self, registry: Registry) -> None:
        self.name = "disruption-controller"
        self.watches = (
            BUDGETS,
            PODS,
            DEPLOYMENTS.storage,
            REPLICA_SETS.storage,
            REPLICATION_CONTROLLERS.storage,
            STATEFUL_SETS.storage,
        )
        self._client = ControllerClient(registry, "controllermanager")
        self._scales = OwnerScales(registry)
        self._budgets: dict[str, dict[Key, Budget]] = {}
        #: Budgets that depend on an owner's scale, by the owner's uid.
        self._budgets_by_owner: dict[str, set[Key]] = {}

    def keys_of(self, event: Event) -> Sequence[Key]:
        stored = event.stored
        if stored.resource == BUDGETS:
            return self._follow_budget(event)
        if stored.resource == PODS:
            return self._follow_pod(event)
        return list(self._budgets_by_owner.get(stored.uid, ()))

    def reconcile(self, key: Any) -> float | None:
        stored = self._client.find(BUDGETS, key)
        budget = self._budgets.get(key.namespace, {}).get(key)
        if stored is None or budget is None:
            return None
        pdb = decode_json(stored.data, PodDisruptionBudget)
        try:
            expected = self._expected(stored, pdb, budget)
        except (ScaleError, SelectorError) as error:
            self._fail_safe(stored, str(error))
            return None
        disrupted, recheck = self._disrupted_pods(pdb, budget)
        healthy = budget.pods.healthy - sum(budget.pods.pods[name].healthy for name in disrupted)
        self._write(stored, budget_status(pdb.spec, expected=expected, healthy=healthy), disrupted)
        return recheck

    # Events

    def _follow_budget(self, event: Event) -> Sequence[Key]:
        stored, key = event.stored, key_of(event.stored)
        budgets = self._budgets.setdefault(stored.namespace, {})
        if event.type == "DELETED":
            self._forget(key, budgets.pop(key, None))
            if not budgets:
                del self._budgets[stored.namespace]
            return ()
        selector = _selector_of(stored)
        known = budgets.get(key)
        if known is None or known.selector != selector:
            self._forget(key, known)
            budgets[key] = self._counted(stored.namespace, selector)
        return [key]

    def _counted(self, namespace: str, selector: Selector) -> Budget:
        budget = Budget(selector)
        for pod in self._client.store.list(PODS, namespace):
            if selector.matches(pod.labels):
                budget.pods.put(pod.name, _budget_pod(pod))
        return budget

    def _forget(self, key: Key, budget: Budget | None) -> None:
        for uid in budget.scale_sources if budget is not None else ():
            budgets = self._budgets_by_owner[uid]
            budgets.discard(key)
            if not budgets:
                del self._budgets_by_owner[uid]

    def _follow_pod(self, event: Event) -> Sequence[Key]:
        pod = event.stored
        budgets = self._budgets.get(pod.namespace)
        if not budgets:
            return ()
        keys = []
        found: BudgetPod | None = None
        for key, budget in budgets.items():
            if event.type != "DELETED" and budget.selector.matches(pod.labels):
                found = found or _budget_pod(pod)
                if budget.pods.put(pod.name, found):
                    keys.append(key)
            elif budget.pods.drop(pod.name):
                keys.append(key)
        return keys

    # Counting

    def _expected(self, stored: Stored, pdb: PodDisruptionBudget, budget: Budget) -> int:
        """The number of expected pods."""
        if not budget.pods.pods:
            self._client.events.record(stored.to_dict(), NORMAL, "NoPods", "No matching pods found")

        def scale_of(owner: OwnerReference) -> tuple[str, int]:
            answer = self._scales.of(owner, stored.namespace)
            for uid in answer.sources:
                budget.scale_sources.add(uid)
                self._budgets_by_owner.setdefault(uid, set()).add(key_of(stored))
            if answer.uid is None:
                example = next(name for name, pod in budget.pods.pods.items() if pod.controller == owner)
                raise ScaleError(f'found no controllers for pod "{example}"')
            return answer.uid, answer.replicas

        expected = expected_pods(pdb.spec, budget.pods, scale_of)
        if budget.pods.unmanaged and expects_scale(pdb.spec):
            self._client.events.record(stored.to_dict(), WARNING, "UnmanagedPods", _UNMANAGED)
        return expected

    def _disrupted_pods(self, pdb: PodDisruptionBudget, budget: Budget) -> tuple[dict[str, str], float | None]:
        """Accepted evictions whose pods are not deleted yet, and the seconds until the first expires."""
        pending: dict[str, str] = {}
        recheck: float | None = None
        for name, accepted in pdb.status.disrupted_pods.items():
            pod = budget.pods.pods.get(name)
            if pod is None or pod.terminating:
                continue
            left = seconds_of(accepted) + DELETION_TIMEOUT_SECONDS - self._client.now
            if left <= 0:
                self._record_not_deleted(pdb, name)
                continue
            pending[name] = accepted
            recheck = left if recheck is None else min(recheck, left)
        return pending, recheck

    def _record_not_deleted(self, pdb: PodDisruptionBudget, name: str) -> None:
        stored = self._client.store.get(PODS, pdb.metadata.namespace, name)
        if stored is not None:
            budget = f"{pdb.metadata.namespace}/{pdb.metadata.name}"
            message = f"Pod was expected by PDB {budget} to be deleted but it wasn't"
            self._client.events.record(stored.to_dict(), WARNING, "NotDeleted", message)

    # Writing

    def _write(self, stored: Stored, found: PodDisruptionBudgetStatus, disrupted: dict[str, str]) -> None:
        obj = stored.to_dict()
        allowed = found.disruptions_allowed
        generation = obj["metadata"].get("generation", 0)
        status: JsonObject = {
            "currentHealthy": found.current_healthy,
            "desiredHealthy": found.desired_healthy,
            "expectedPods": found.expected_pods,
            "disruptionsAllowed": allowed,
            "observedGeneration": generation,
            "conditions": (obj.get("status") or {}).get("conditions") or [],
        }
        if disrupted:
            status["disruptedPods"] = disrupted
        condition = {
            "type": ALLOWED,
            "status": "True" if allowed else "False",
            "reason": "SufficientPods" if allowed else "InsufficientPods",
            "message": "",
            "observedGeneration": generation,
        }
        set_condition(status, condition, now=self._client.timestamp)
        self._client.update_status(stored, status)

    def _fail_safe(self, stored: Stored, message: str) -> None:
        """Allow no disruption while the expected count is unknown."""
        budget = stored.to_dict()
        text = f"Failed to calculate the number of expected pods: {message}"
        self._client.events.record(budget, WARNING, "CalculateExpectedPodCountFailed", text)
        zeros = {"currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}
        status = {**zeros, **(budget.get("status") or {}), "disruptionsAllowed": 0}
        condition = {"type": ALLOWED, "status": "False", "reason": "SyncFailed", "message": message}
        condition["observedGeneration"] = status.get("observedGeneration", 0)
        set_condition(status, condition, now=self._client.timestamp)
        self._client.update_status(stored, status)


def _selector_of(stored: Stored) -> Selector:
    pdb = decode_json(stored.data, PodDisruptionBudget)
    try:
        return compile_label_selector(pdb.spec.selector)
    except SelectorError:
        return NOTHING


def _budget_pod(stored: Stored) -> BudgetPod:
    pod = decode_pod(stored)
    return BudgetPod(ready=pod.ready, terminating=pod.terminating, controller=controller_of(pod.metadata))
