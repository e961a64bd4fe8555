"""Changes that let a pod's claims be satisfied on a node: others release devices, or the claim requests less.

Proposals follow from why a request fails there; each change is verified before it is suggested. For a prioritized list
any alternative may be changed; if several claims fail, each of them has to be. Claims are immutable, so a claim with
other requests has to be recreated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from stowplan.kube.api.affinity import Toleration
from stowplan.kube.api.device_claims import CapacityRequirements, ResourceClaimStatus
from stowplan.kube.api.types import ResourceClaim
from stowplan.scheduler.cluster.arrays import Mask, Rows
from stowplan.scheduler.framework.explanations.formatting import taint_text
from stowplan.scheduler.framework.explanations.remedy import Change, Dial, Remedy, Way, move
from stowplan.scheduler.in_tree.dynamic_resources.demand import claim_key
from stowplan.scheduler.in_tree.dynamic_resources.explanation import (
    DynamicResourcesExplanation,
    request_of,
    with_request,
)
from stowplan.scheduler.in_tree.dynamic_resources.plugin import NOT_ALLOCATABLE
from stowplan.scheduler.in_tree.dynamic_resources.request_problems import Kind, RequestProblem, amount_text

#: Limits: claims and classes to try; alternatives of a prioritized list besides the last; remedies per claim if several
#: claims fail; nodes to examine.
_TRIED, _TRIED_ALTERNATIVES, _TRIED_TOGETHER, _TRIED_NODES = 4, 2, 3, 8

ANEW = "A claim cannot be changed: recreate it, or change the template that it is created from."


class DeviceRemedy(Remedy):
    """A separate class for each of the first rejected nodes."""

    def __init__(self, explanation: DynamicResourcesExplanation, mask: Mask) -> None:
        super().__init__(explanation.inspection, mask)
        self._explanation = explanation
        refused = self.inspection.refused_for("DynamicResources", NOT_ALLOCATABLE) & mask
        for row in np.flatnonzero(refused)[:_TRIED_NODES]:
            self.add_class(np.array([row], np.intp))

    def ways(self, kind: int, rows: Rows) -> list[Way]:
        row = int(rows[0])
        of_each = [list(self._ways_for(problem, row)) for problem in self._explanation.problems(row)]
        if len(of_each) < 2:
            return of_each[0] if of_each else []
        return [_joined(ways) for ways in product(*(ways[:_TRIED_TOGETHER] for ways in of_each[:_TRIED_TOGETHER]))]

    def _ways_for(self, problem: RequestProblem, row: int) -> Iterator[Way]:
        for one in (*problem.earlier[:_TRIED_ALTERNATIVES], problem):
            yield from self._given_back(one)
            yield from self._asked_otherwise(one, row)

    # -- other pods leave ----------------------------------------------------------------------------------------------

    def _given_back(self, problem: RequestProblem) -> Iterator[Way]:
        for key in problem.holders[:_TRIED]:
            claim = self.inspection.cluster.objects.get(ResourceClaim, key)
            if claim is not None:
                yield (self._give_back(claim),)

    def _give_back(self, claim: ResourceClaim) -> Change:
        """On a cluster, a controller deallocates a claim after its last user is gone."""
        key, free = claim_key(claim), msgspec.structs.replace(claim, status=ResourceClaimStatus())
        uids = (user.uid for user in claim.status.reserved_for)
        users = [info for uid in uids if (info := self.inspection.cluster.placed(uid)) is not None]
        if users:
            moved = move(users)
            return replace(moved, text=f"{moved.text}, which gives back the devices of claim {key}", objects=(free,))
        return Change("claims", f"deallocate claim {key}, which no placed pod uses", {"claims": [key]}, objects=(free,))

    # -- the claim changes ---------------------------------------------------------------------------------------------

    def _asked_otherwise(self, problem: RequestProblem, row: int) -> Iterator[Way]:
        claim = next((claim for claim in self._explanation.waiting if claim_key(claim) == problem.claim), None)
        if claim is None:
            # An extended resource: requesting less of it would need another pod.
            return
        if problem.kind is Kind.CONSTRAINT:
            for attribute in problem.names:
                yield (_without_constraint(claim, attribute),)
        if request_of(claim, problem.request) is None:
            return
        if problem.kind is Kind.TAINTED:
            yield tuple(_tolerating(claim, problem))
        elif problem.kind in (Kind.TAKEN, Kind.TOO_FEW, Kind.COUNTERS_SPENT, Kind.NOT_TOGETHER) and problem.wanted > 1:
            yield (Dial(1, problem.wanted - 1, lambda fewer: _with_fewer(claim, problem, fewer)),)
        elif problem.kind is Kind.NO_CAPACITY and problem.lacking:
            yield (_with_less(claim, problem),)
        if problem.kind in (Kind.NONE_MATCHES, Kind.TAKEN, Kind.TOO_FEW, Kind.NOT_TOGETHER):
            for device_class in list(self._explanation.classes_that_fit(claim, problem.request, row))[:_TRIED]:
                yield (_of_class(claim, problem, device_class.metadata.name),)


def _joined(ways: Sequence[Way]) -> Way:
    """All changes of the ways, without duplicates."""
    found: list[Change | Dial] = []
    for step in (step for way in ways for step in way):
        if not any(isinstance(step, Change) and isinstance(one, Change) and step.text == one.text for one in found):
            found.append(step)
    return tuple(found)


def _where(problem: RequestProblem) -> str:
    return f"in request {problem.request} of claim {problem.claim}"


def _asking(claim: ResourceClaim, problem: RequestProblem, text: str, data: dict[str, Any], **fields: Any) -> Change:
    changed = with_request(claim, problem.request, **fields)
    assert changed is not None
    about = {"claim": problem.claim, "request": problem.request, **data}
    return Change("claims", f"{text} {_where(problem)}", about, objects=(changed,), note=ANEW)


def _with_fewer(claim: ResourceClaim, problem: RequestProblem, fewer: int) -> Change:
    number = problem.wanted - fewer
    text = f"ask for {number} instead of {problem.wanted} devices"
    return _asking(claim, problem, text, {"count": number}, count=number)


def _of_class(claim: ResourceClaim, problem: RequestProblem, name: str) -> Change:
    return _asking(claim, problem, f"ask for device class {name}", {"deviceClassName": name}, device_class_name=name)


def _with_less(claim: ResourceClaim, problem: RequestProblem) -> Change:
    left = {lacking.name: amount_text(lacking.left) for lacking in problem.lacking}
    request = request_of(claim, problem.request)
    assert request is not None
    assert request.capacity is not None
    requests = {**request.capacity.requests, **left}
    amounts = " and ".join(f"{amount} of {name}" for name, amount in left.items())
    capacity = CapacityRequirements(requests=requests)
    return _asking(claim, problem, f"ask for {amounts}", {"capacity": left}, capacity=capacity)


def _tolerating(claim: ResourceClaim, problem: RequestProblem) -> Iterator[Change]:
    request = request_of(claim, problem.request)
    assert request is not None
    added = tuple(
        Toleration(key=taint.key, operator="Equal", value=taint.value, effect=taint.effect) for taint in problem.taints
    )
    names = " and ".join(taint_text(taint) for taint in problem.taints)
    text = f"tolerate the device {'taint' if len(added) == 1 else 'taints'} {names}"
    yield _asking(claim, problem, text, {"tolerate": list(problem.names)}, tolerations=(*request.tolerations, *added))


def _without_constraint(claim: ResourceClaim, attribute: str) -> Change:
    devices = claim.spec.devices
    kept = tuple(c for c in devices.constraints if attribute not in (c.match_attribute, c.distinct_attribute))
    spec = msgspec.structs.replace(claim.spec, devices=msgspec.structs.replace(devices, constraints=kept))
    changed = msgspec.structs.replace(claim, spec=spec)
    text = f"leave out the constraint on {attribute} of claim {claim_key(claim)}"
    return Change("claims", text, {"claim": claim_key(claim), "constraint": attribute}, objects=(changed,), note=ANEW)
