"""Evict pods that use a device with a NoExecute taint which their claim does not tolerate.

A claim's tolerations are in its allocation: those of the request that the device was allocated for. A pod whose claims
tolerate all taints of its devices, some only for tolerationSeconds, is evicted when the shortest of these times is
over; it counts from when the taint was added. Pods without a node are not evicted: the scheduler keeps them off the
device.

Taints come from drivers (in slices) or administrators: a DeviceTaintRule taints all devices that it selects. Its status
is updated at once when the rule changes, and with a delay when pods change, as more changes may
follow.

Upstream: pkg/controller/devicetainteviction.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, NamedTuple

from stowplan.kube.api.affinity import Taint, Toleration
from stowplan.kube.api.decode import decode_json
from stowplan.kube.api.device_claims import DeviceRequestAllocationResult, ResourceClaim
from stowplan.kube.api.devices import DeviceTaint, DeviceTaintRule, ResourceSlice
from stowplan.kube.api.meta import parse_timestamp
from stowplan.kube.api.taints import NO_EXECUTE, tolerates
from stowplan.kube.claims.claim_terms import ClaimKey
from stowplan_cluster.apiserver.objects import JsonObject, condition_of
from stowplan_cluster.apiserver.registry import Registry
from stowplan_cluster.apiserver.store import Event, Stored
from stowplan_cluster.controllers.client import NORMAL, ControllerClient
from stowplan_cluster.controllers.devices import device_views
from stowplan_cluster.reconcile.pods import PODS, Pod, decode_pod
from stowplan_cluster.reconcile.views import Key

# The status of a DeviceTaintRule: whether eviction is in progress, and how many pods it evicted.
#
# One condition, EvictionInProgress. A rule with effect None has no effect; its status shows what NoExecute would do.
#
# Upstream: maybeUpdateRuleStatus of pkg/controller/devicetainteviction.

EVICTION = "EvictionInProgress"
NO_EFFECT = "None"


class Affected(NamedTuple):
    """The pods and devices that a rule selects."""

    #: Number of pods to evict (or that would be), and their namespaces.
    pods: int = 0
    namespaces: int = 0
    #: Number of published devices, and of allocated ones.
    published: int = 0
    allocated: int = 0


def condition(effect: str, affected: Affected, *, evicted: int, generation: int) -> JsonObject:
    """The condition, without its time. `evicted` is the number of pods evicted so far."""
    status, reason, message = "False", "OtherEffect", "Eviction only happens for the NoExecute effect."
    if effect == NO_EXECUTE:
        message = ""
        if affected.pods:
            status, reason = "True", "PodsPendingEviction"
            need = "needs" if affected.pods == 1 else "need"
            message = f"{_count(affected.pods, 'pod')} {need} to be evicted in {_namespaces(affected)}."
        else:
            reason = "Completed" if evicted else "NotStarted"
    elif effect == NO_EFFECT:
        reason = "NoEffect"
        message = (
            f"{_count(affected.published, 'published device')} selected. "
            f"{_count(affected.allocated, 'allocated device')} selected. "
            f"{_count(affected.pods, 'pod')} would be evicted in {_namespaces(affected)} if the effect was NoExecute. "
            "This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."
        )
    if evicted:
        message = f"{message} {_count(evicted, 'pod')} evicted since starting the controller.".lstrip()
    return {
        "type": EVICTION,
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": generation,
    }


def _count(number: int, noun: str) -> str:
    return f"1 {noun}" if number == 1 else f"{number} {noun}s"


def _namespaces(affected: Affected) -> str:
    return "1 namespace" if affected.namespaces == 1 else f"{affected.namespaces} different namespaces"


_REASON = "DeviceTaintManagerEviction"
#: Minimum seconds between status updates of an unchanged rule.
_REPORT_SECONDS = 10.0

#: Driver, pool, device.
_DeviceId = tuple[str, str, str]


class RuleKey(NamedTuple):
    name: str
    uid: str

    def __str__(self) -> str:
        return self.name


class _Tainted(NamedTuple):
    taint: Taint
    #: When the taint was added; None if unknown.
    since: float | None
    #: UID of the rule that it comes from; "" if it comes from the slice.
    rule: str = ""


class _Eviction(NamedTuple):
    at: float
    #: UIDs of the rules that cause the eviction.
    rules: frozenset[str]


class DeviceTaintEvictionController:
    def __init__(self, registry: Registry) -> None:
        self.name = "device-taint-eviction-controller"
        self.watches = (device_views.SLICES, device_views.TAINT_RULES, device_views.RESOURCE_CLAIMS, PODS)
        self._client = ControllerClient(registry, "device-taint-eviction-controller")
        #: Slice -> the NoExecute taints of its devices.
        self._taints: dict[str, dict[_DeviceId, tuple[_Tainted, ...]]] = {}
        self._rules: dict[str, DeviceTaintRule] = {}
        #: When to update the status of each rule; number of pods evicted so far, by rule UID.
        self._reports: dict[RuleKey, float] = {}
        self._evicted: dict[str, int] = {}
        #: Claims with allocated devices; pods by group.
        self._claims: dict[ClaimKey, ResourceClaim] = {}
        self._members = device_views.GroupMembers()
        #: When each pod was first found to need eviction.
        self._scheduled_since: dict[Key, float] = {}

    # -- following ----------------------------------------------------------------------------------------------------

    def keys_of(self, event: Event) -> Sequence[Hashable]:
        stored = event.stored
        if stored.resource == device_views.SLICES:
            return self._follow_slice(event)
        if stored.resource == device_views.TAINT_RULES:
            return self._follow_rule(event)
        if stored.resource == device_views.RESOURCE_CLAIMS:
            return self._follow_claim(event)
        self._members.follow(event)
        if not device_views.may_claim(stored) or not self._evicts:
            return ()
        key = Key(stored.namespace, stored.name, stored.uid)
        if event.type == "DELETED":
            self._scheduled_since.pop(key, None)
            return self._to_report()
        return [key, *self._to_report()]

    @property
    def _evicts(self) -> bool:
        return bool(self._taints or self._scheduled_since or self._evicting())

    def _evicting(self) -> list[DeviceTaintRule]:
        return [rule for rule in self._rules.values() if rule.spec.taint.effect == NO_EXECUTE]

    def _to_report(self) -> list[RuleKey]:
        """Schedule status updates of all rules that evict; return their keys."""
        keys = [_key_of(rule) for rule in self._evicting()]
        for key in keys:
            self._reports.setdefault(key, self._client.now + _REPORT_SECONDS)
        return keys

    def _follow_slice(self, event: Event) -> Sequence[Hashable]:
        name = event.stored.name
        before = self._taints.pop(name, {})
        after = {} if event.type == "DELETED" else _tainted(decode_json(event.stored.data, ResourceSlice))
        if after:
            self._taints[name] = after
        changed = {device for device in before.keys() | after.keys() if before.get(device) != after.get(device)}
        return self._users_of_any(lambda device: device in changed) if changed else ()

    def _follow_rule(self, event: Event) -> Sequence[Hashable]:
        before = self._rules.pop(event.stored.name, None)
        after = None if event.type == "DELETED" else decode_json(event.stored.data, DeviceTaintRule)
        if after is not None:
            self._rules[event.stored.name] = after
        if before is not None and after is not None and _key_of(before) == _key_of(after):
            if before.spec == after.spec:
                return ()
        elif before is not None:
            self._reports.pop(_key_of(before), None)
            self._evicted.pop(before.metadata.uid, None)
        keys: list[Hashable] = []
        if after is not None:
            # The rule's key comes first: its status is updated before any pod is evicted.
            keys.append(_key_of(after))
            self._reports[_key_of(after)] = self._client.now
        changed = [rule for rule in (before, after) if rule is not None and rule.spec.taint.effect == NO_EXECUTE]
        return [*keys, *self._users_of_any(lambda device: any(_selects(rule, device) for rule in changed))]

    def _users_of_any(self, is_concerned: Callable[[_DeviceId], bool]) -> list[Key]:
        """The pods that use a device for which the predicate holds."""
        return [
            user
            for claim in self._claims.values()
            if any(is_concerned(_device(result)) for result in _results(claim))
            for user in self._users(claim)
        ]

    def _follow_claim(self, event: Event) -> Sequence[Hashable]:
        key = ClaimKey(event.stored.namespace, event.stored.name)
        before = self._claims.pop(key, None)
        claim = decode_json(event.stored.data, ResourceClaim)
        if event.type != "DELETED" and claim.status.allocation is not None:
            self._claims[key] = claim
        if not self._evicts:
            return ()
        users = (*self._users(claim), *(self._users(before) if before is not None else ()))
        return [*dict.fromkeys(users), *self._to_report()]

    def _users(self, claim: ResourceClaim) -> list[Key]:
        """The pods that a claim is reserved for, directly or through a group."""
        namespace = claim.metadata.namespace
        found: list[Key] = []
        for user in claim.status.reserved_for:
            if (user.api_group, user.resource) == (device_views.GROUPS_API, "podgroups"):
                found += self._members.of(namespace, user.name)
            elif user.resource == "pods":
                found.append(Key(namespace, user.name, user.uid))
        return found

    # -- pods ---------------------------------------------------------------------------------------------------------

    def reconcile(self, key: Any) -> float | None:
        if isinstance(key, RuleKey):
            return self._report(key)
        stored = self._client.find(PODS, key)
        pod = None if stored is None else decode_pod(stored)
        if stored is None or pod is None or not _is_running(pod):
            self._scheduled_since.pop(key, None)
            return None
        eviction = self._eviction_of(key, pod)
        if eviction is None:
            if self._scheduled_since.pop(key, None) is not None:
                self._record(stored, "Cancelling deletion")
            return None
        left = eviction.at - self._client.now
        if left > 0:
            return left
        self._evict(key, stored)
        for rule in eviction.rules:
            self._evicted[rule] = self._evicted.get(rule, 0) + 1
        return None

    def _eviction_of(self, key: Key, pod: Pod) -> _Eviction | None:
        """When to evict the pod, and because of which rules; None if it may stay."""
        found = [
            (tainted, seconds)
            for name in device_views.claims_of(pod)
            if (claim := self._claims.get(name)) is not None and key in self._users(claim)
            for result in _results(claim)
            for tainted in self._taints_of(_device(result))
            if (seconds := _tolerated_seconds(tainted.taint, result.tolerations)) is not None
        ]
        if not found:
            return None
        since = self._scheduled_since.setdefault(key, self._client.now)
        return _Eviction(
            min((since if tainted.since is None else tainted.since) + seconds for tainted, seconds in found),
            frozenset(tainted.rule for tainted, _ in found if tainted.rule),
        )

    def _taints_of(self, device: _DeviceId) -> Iterator[_Tainted]:
        for of_slice in self._taints.values():
            yield from of_slice.get(device, ())
        for rule in self._evicting():
            if _selects(rule, device):
                yield _tainted_by(rule.spec.taint, rule.metadata.uid)

    def _evict(self, key: Key, stored: Stored) -> None:
        self._scheduled_since.pop(key, None)
        self._record(stored, "Marking for deletion")
        message = "Device Taint manager: deleting due to NoExecute taint"
        self._client.evict(stored, reason="DeletionByDeviceTaintManager", message=message)

    def _record(self, stored: Stored, message: str) -> None:
        self._client.events.record(stored.to_dict(), NORMAL, _REASON, message)

    # -- rules --------------------------------------------------------------------------------------------------------

    def _report(self, key: RuleKey) -> float | None:
        """Update a rule's status, unless that is not due yet; return the seconds until it is."""
        due, rule = self._reports.get(key), self._rules.get(key.name)
        stored = self._client.find(device_views.TAINT_RULES, Key("", key.name, key.uid))
        if due is None or rule is None or stored is None:
            return None
        obj = stored.to_dict()
        generation = obj["metadata"].get("generation", 0)
        effect = rule.spec.taint.effect
        status = obj.setdefault("status", {})
        known = condition_of(status, EVICTION)
        if known is not None and known.get("observedGeneration") == generation:
            due = max(due, parse_timestamp(known["lastTransitionTime"]) + _REPORT_SECONDS)
        if due > self._client.now:
            return due - self._client.now
        del self._reports[key]
        affected = self._affected(rule) if effect in (NO_EXECUTE, NO_EFFECT) else Affected()
        wanted = condition(effect, affected, evicted=self._evicted.get(key.uid, 0), generation=generation)
        if known is None or {**known, "lastTransitionTime": ""} != {**wanted, "lastTransitionTime": ""}:
            self._write_report(stored, obj, wanted)
        return None

    def _write_report(self, stored: Stored, obj: JsonObject, wanted: JsonObject) -> None:
        others = [one for one in obj["status"].get("conditions") or () if one.get("type") != EVICTION]
        # Parity: lastTransitionTime changes with any field, not only with the status.
        obj["status"]["conditions"] = [*others, {**wanted, "lastTransitionTime": self._client.timestamp}]
        self._client.update(stored, obj, subresource="status")

    def _affected(self, rule: DeviceTaintRule) -> Affected:
        """What the rule affects, as if its effect were NoExecute."""
        taint = _tainted_by(rule.spec.taint, rule.metadata.uid).taint
        pods: dict[Key, None] = {}
        allocated = 0
        for name, claim in self._claims.items():
            selected = [result for result in _results(claim) if _selects(rule, _device(result))]
            allocated += len(selected)
            if any(_tolerated_seconds(taint, result.tolerations) is not None for result in selected):
                pods.update(dict.fromkeys(user for user in self._users(claim) if self._uses(user, name)))
        published = sum(
            _selects(rule, (slice_.spec.driver, slice_.spec.pool.name, device.name))
            for stored in self._client.store.list(device_views.SLICES)
            for slice_ in (decode_json(stored.data, ResourceSlice),)
            for device in slice_.spec.devices
        )
        return Affected(len(pods), len({pod.namespace for pod in pods}), published, allocated)

    def _uses(self, key: Key, claim: ClaimKey) -> bool:
        stored = self._client.find(PODS, key)
        pod = None if stored is None else decode_pod(stored)
        return pod is not None and _is_running(pod) and claim in device_views.claims_of(pod)


def _is_running(pod: Pod) -> bool:
    return not (pod.terminating or device_views.is_done(pod)) and bool(pod.spec.node_name)


def _key_of(rule: DeviceTaintRule) -> RuleKey:
    return RuleKey(rule.metadata.name, rule.metadata.uid)


def _selects(rule: DeviceTaintRule, device: _DeviceId) -> bool:
    selector = rule.spec.device_selector
    # Parity: a rule without a selector evicts no pods, although the scheduler avoids all devices.
    if selector is None:
        return False
    wanted = selector.driver, selector.pool, selector.device
    return all(one is None or one == found for one, found in zip(wanted, device, strict=True))


def _tainted_by(taint: DeviceTaint, rule: str = "") -> _Tainted:
    """The taint with effect NoExecute."""
    since = parse_timestamp(taint.time_added) if taint.time_added else None
    return _Tainted(Taint(key=taint.key, value=taint.value, effect=NO_EXECUTE), since, rule)


def _tainted(obj: ResourceSlice) -> dict[_DeviceId, tuple[_Tainted, ...]]:
    found = {}
    for device in obj.spec.devices:
        taints = tuple(_tainted_by(taint) for taint in device.taints if taint.effect == NO_EXECUTE)
        if taints:
            found[obj.spec.driver, obj.spec.pool.name, device.name] = taints
    return found


def _results(claim: ResourceClaim) -> Sequence[DeviceRequestAllocationResult]:
    return claim.status.allocation.devices.results if claim.status.allocation is not None else ()


def _device(result: DeviceRequestAllocationResult) -> _DeviceId:
    return result.driver, result.pool, result.device


def _tolerated_seconds(taint: Taint, tolerations: Sequence[Toleration]) -> float | None:
    """For how many seconds a taint is tolerated; None for ever."""
    # Parity: a toleration without an effect does not prevent eviction.
    fitting = [one.toleration_seconds for one in tolerations if one.effect == NO_EXECUTE and tolerates(one, taint)]
    if None in fitting:
        return None
    return min((max(float(seconds), 0.0) for seconds in fitting if seconds is not None), default=0.0)
