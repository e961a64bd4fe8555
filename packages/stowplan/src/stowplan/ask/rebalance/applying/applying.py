"""Carry out a plan: step by step, and only while the cluster is as planned.

A step evicts its pods, each with its UID and version as preconditions, and waits until their replacements run. If one
runs on a node that is worse than planned, if a pod is not where it was, or if a budget refuses for long, the rest of
the plan is dropped and a new one made, a few times at most. If a replacement does not run in time, everything stops:
evicting more would not help.

After a crash the next run finds the record (`apply_record`), waits for what was evicted, and goes on. A Lease makes
sure that there is one at a time; without it nothing is written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence

from stowplan.ask.rebalance.applying.apply_record import (
    DONE,
    EVICTED,
    EVICTING,
    FINISHED,
    PLANNED,
    RUNNING,
    STOPPED,
    AppliedMove,
    ApplyRecord,
    RecordStore,
)
from stowplan.ask.rebalance.applying.followed_pods import FollowedPods
from stowplan.kube.api.api_errors import Conflict, Forbidden, NotFound, TooManyRequests
from stowplan.kube.api.meta import controller_of
from stowplan.kube.api.pod import FINISHED as FINISHED_PHASES
from stowplan.kube.api.port import EvictingApi
from stowplan.kube.api.types import Node, Pod
from stowplan.kube.structs import PlainStruct
from stowplan.kube.timing.times import Times
from stowplan.net.client.election.leader_election import LeaderElector, LeadershipLost
from stowplan.scheduler.framework.explanations.formatting import count

#: Makes a plan: these nodes were cordoned by an earlier one, and count as if they were not.
Plan = Callable[[Collection[str]], Awaitable[ApplyRecord]]

#: Further plans, if the cluster differs again and again.
MAX_PLANS = 5
#: Tries of an eviction whose pod changes at the same time.
_TRIES = 5


class Waits(PlainStruct, frozen=True):
    """In seconds."""

    #: For the replacements of a step to run.
    step: float = 300.0
    #: For a budget that refuses.
    budget: float = 60.0


class DiffersError(Exception):
    """The cluster is not as planned; says how."""


class StoppedError(Exception):
    """Going on would do harm; says why."""


async def under_lease(
    elector: LeaderElector, work: Callable[[], Awaitable[ApplyRecord]], *, times: Times, patience: float
) -> ApplyRecord:
    """Do the work while nobody else does; raises StoppedError if somebody else does, or does from now on."""
    acquiring, alarm = asyncio.ensure_future(elector.acquire()), asyncio.ensure_future(times.sleep(patience))
    await asyncio.wait((acquiring, alarm), return_when=asyncio.FIRST_COMPLETED)
    alarm.cancel()
    if not acquiring.done():
        acquiring.cancel()
        holder = f"held by {elector.leader}" if elector.leader else "not to be had; --rbac prints the role for it"
        raise StoppedError(f"the lease is {holder}: only one rebalancing goes on at a time")
    acquiring.result()
    renewing, working = asyncio.ensure_future(elector.renew()), asyncio.ensure_future(work())
    try:
        await asyncio.wait((renewing, working), return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else renewing.result()
    except LeadershipLost as error:
        raise StoppedError(f"the lease was lost: {error}; the next run goes on from the record") from error
    finally:
        for task in (renewing, working):
            task.cancel()
        await asyncio.gather(renewing, working, return_exceptions=True)
        await elector.release()


class Applying:
    def __init__(
        self,
        api: EvictingApi,
        store: RecordStore,
        plan: Plan,
        *,
        times: Times,
        is_leader: Callable[[], bool] = lambda: True,
        waits: Waits = Waits(),  # noqa: B008 - it is frozen
        grace_period_seconds: int | None = None,
        report: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._api = api
        self._store = store
        self._plan = plan
        self._times = times
        self._is_leader = is_leader
        self._waits = waits
        self._grace = grace_period_seconds
        self._report = report
        self._record = ApplyRecord(goal="")

    async def run(self) -> ApplyRecord:
        """Carry out a plan, or the rest of the last one; the record, which says whether all was done."""
        last = await self._store.read()
        if last is not None and last.state == RUNNING:
            self._record = last
            self._report(f"goes on with what an earlier run began: {last.goal}")
        else:
            self._record = await self._plan(())
            await self._save()
        try:
            await self._carried_out()
        except (StoppedError, Forbidden) as error:
            await self._stop(str(error))
        return self._record

    async def _stop(self, why: str) -> None:
        record = self._record
        record.state, record.message = STOPPED, why
        await self._save()
        try:
            # Nobody else would.
            await self._set_cordons(list(record.cordoned), unschedulable=False)
        except (Forbidden, DiffersError) as error:
            self._report(f"still cordoned: {', '.join(record.cordoned)}: {error}")

    async def _carried_out(self) -> None:
        while True:
            try:
                await self._steps()
                break
            except DiffersError as error:
                self._report(f"not as planned: {error}")
                await self._plan_anew(str(error))
        await self._set_cordons(self._record.uncordon, unschedulable=False)
        self._record.state, self._record.known = FINISHED, {}
        await self._save()

    async def _plan_anew(self, why: str) -> None:
        before = self._record
        if before.plans >= MAX_PLANS:
            raise StoppedError(f"{why}; that was plan {before.plans}, and the cluster differed again")
        fresh = await self._plan(before.cordoned)
        fresh.plans, fresh.moved, fresh.cordoned = before.plans + 1, before.moved, before.cordoned
        wanted = {*fresh.cordon, *(move.from_ for move in fresh.moves if move.cordons)}
        self._record = fresh
        await self._save()
        await self._set_cordons([name for name in before.cordoned if name not in wanted], unschedulable=False)
        self._report(f"plans anew: {count(len(fresh.moves), 'move')}")

    # -- steps --------------------------------------------------------------------------------------------------------

    async def _steps(self) -> None:
        record = self._record
        await self._set_cordons(record.cordon, unschedulable=True)
        for key, uid in list(record.removals.items()):
            await self._evict_finished(key, uid)
            del record.removals[key]
            await self._save()
        numbers = sorted({move.step for move in record.moves if move.state != DONE})
        for number in numbers:
            await self._step([move for move in record.moves if move.step == number and move.state != DONE])

    async def _step(self, moves: Sequence[AppliedMove]) -> None:
        followed = FollowedPods(self._api, sorted({_namespace(move.pod) for move in moves}), self._times)
        async with followed.running():
            if not any(move.state in (EVICTING, EVICTED) for move in moves):
                self._record.known = _by_owner(await self._listed(followed), {move.owner for move in moves})
            for move in moves:
                if move.state in (PLANNED, EVICTING):
                    await self._make(move, followed)
            await self._await_replacements(moves, followed)
        self._report(f"step {moves[0].step}: {count(len(moves), 'pod')} moved")

    async def _listed(self, followed: FollowedPods) -> list[Pod]:
        until = self._times.clock() + self._waits.step
        while followed.pods is None:
            if not await followed.next(followed.pods_changed, until=until):
                raise StoppedError(f"pods cannot be listed for {self._waits.step:g} s")
        return followed.pods

    # -- evictions ----------------------------------------------------------------------------------------------------

    async def _make(self, move: AppliedMove, followed: FollowedPods) -> None:
        """Evict the pod of a move, if it is still as planned."""
        was_asked = move.state == EVICTING
        if move.cordons:
            await self._set_cordons([move.from_], unschedulable=True)
        move.state = EVICTING
        await self._save()
        if not await self._evict(move, followed, was_asked=was_asked):
            move.state = PLANNED
            raise DiffersError(f"{move.pod} is not on {move.from_} any more")
        move.state = EVICTED
        self._record.moved += 1
        await self._save()

    async def _evict(self, move: AppliedMove, followed: FollowedPods, *, was_asked: bool) -> bool:
        """Whether it leaves because of us. `was_asked`: an earlier run may have evicted it."""
        namespace, name = _parts(move.pod)
        deadline = self._times.clock() + self._waits.budget
        tries = 0
        while tries < _TRIES:
            pod = await self._pod(move.pod)
            if pod is None or pod.metadata.uid != move.uid or pod.metadata.deletion_timestamp is not None:
                return was_asked
            if pod.spec.node_name != move.from_:
                return False
            self._check_lease()
            try:
                await self._api.evict(
                    name,
                    namespace=namespace,
                    uid=move.uid,
                    resource_version=pod.metadata.resource_version,
                    grace_period_seconds=self._grace,
                )
            except (Conflict, NotFound):
                # It has changed since we looked.
                tries += 1
                continue
            except TooManyRequests as error:
                if not await followed.next(followed.budgets_changed, until=deadline):
                    move.state = PLANNED
                    raise DiffersError(f"{move.pod}: {error}") from error
                continue
            return True
        return False

    async def _evict_finished(self, key: str, uid: str) -> None:
        namespace, name = _parts(key)
        pod = await self._pod(key)
        if pod is not None and pod.metadata.uid == uid and pod.status.phase in FINISHED_PHASES:
            self._check_lease()
            try:
                await self._api.evict(name, namespace=namespace, uid=uid)
            except (Conflict, NotFound):
                return

    async def _pod(self, key: str) -> Pod | None:
        namespace, name = _parts(key)
        try:
            return await self._api.get(Pod, name, namespace=namespace)
        except NotFound:
            return None

    # -- replacements -------------------------------------------------------------------------------------------------

    async def _await_replacements(self, moves: Sequence[AppliedMove], followed: FollowedPods) -> None:
        """Until each evicted pod has a replacement that runs on a node no worse than planned."""
        deadline = self._times.clock() + self._waits.step
        while waiting := self._without_replacement(moves, await self._listed(followed)):
            if not await followed.next(followed.pods_changed, until=deadline):
                raise StoppedError(f"no replacement of {waiting[0].pod} runs after {self._waits.step:g} s{waiting[1]}")
        for move in moves:
            move.state = DONE
        await self._save()
        relieved = {move.from_ for move in self._record.moves} | set(self._record.cordoned)
        for move in moves:
            if move.node != move.to and move.node in relieved:
                raise DiffersError(f"the replacement of {move.pod} is on {move.node}, not on {move.to}")
        elsewhere = [move for move in moves if move.node != move.to]
        if elsewhere and any(move.state == PLANNED for move in self._record.moves):
            first = elsewhere[0]
            raise DiffersError(f"the replacement of {first.pod} is on {first.node}, not on {first.to}")

    def _without_replacement(self, moves: Sequence[AppliedMove], pods: Sequence[Pod]) -> tuple[AppliedMove, str] | None:
        """The first move without one, and what its replacement waits for."""
        fresh: dict[str, list[Pod]] = {}
        for pod in pods:
            owner = controller_of(pod.metadata)
            if owner is not None and pod.metadata.uid not in self._record.known.get(owner.uid, ()):
                fresh.setdefault(owner.uid, []).append(pod)
        for move in moves:
            candidates = fresh.get(move.owner, [])
            # A StatefulSet's pods keep their names.
            candidates.sort(key=lambda pod: (pod.metadata.name != _parts(move.pod)[1], not _runs(pod)))
            if not candidates:
                return move, ""
            replacement = candidates.pop(0)
            if not _runs(replacement):
                return move, _trouble_of(replacement)
            move.node = replacement.spec.node_name
        return None

    # -- nodes, the record ---------------------------------------------------------------------------------------------

    async def _set_cordons(self, names: Collection[str], *, unschedulable: bool) -> None:
        """Cordon nodes; or uncordon those that were cordoned here."""
        ours = self._record.cordoned
        for name in [name for name in names if (name in ours) != unschedulable]:
            try:
                is_cordoned = (await self._api.get(Node, name)).spec.unschedulable
            except NotFound as error:
                if unschedulable:
                    raise DiffersError(f"node {name} is gone") from error
                is_cordoned = False
            # Whoever cordoned it before us uncordons it. Noted first: what is not noted stays cordoned after a crash.
            if unschedulable and not is_cordoned:
                ours.append(name)
                await self._save()
            if is_cordoned != unschedulable:
                self._check_lease()
                await self._api.patch(Node, name, {"spec": {"unschedulable": unschedulable}}, type_="merge")
            if not unschedulable:
                ours.remove(name)
                await self._save()

    async def _save(self) -> None:
        self._check_lease()
        await self._store.write(self._record)

    def _check_lease(self) -> None:
        if not self._is_leader():
            raise LeadershipLost("the lease has expired")


def _parts(key: str) -> tuple[str, str]:
    namespace, _, name = key.partition("/")
    return namespace, name


def _namespace(key: str) -> str:
    return _parts(key)[0]


def _by_owner(pods: Sequence[Pod], owners: set[str]) -> dict[str, list[str]]:
    """The UIDs of their pods."""
    found: dict[str, list[str]] = {owner: [] for owner in owners}
    for pod in pods:
        owner = controller_of(pod.metadata)
        if owner is not None and owner.uid in found:
            found[owner.uid].append(pod.metadata.uid)
    return found


def _runs(pod: Pod) -> bool:
    ready = any(one.type == "Ready" and one.status == "True" for one in pod.status.conditions)
    # A short Job's pod may have ended by now.
    return pod.status.phase == "Succeeded" or (pod.status.phase == "Running" and ready)


def _trouble_of(pod: Pod) -> str:
    scheduled = next((one for one in pod.status.conditions if one.type == "PodScheduled"), None)
    if not pod.spec.node_name and scheduled is not None and scheduled.message:
        return f": {pod.metadata.name} is pending: {scheduled.message}"
    return f": {pod.metadata.name} is {pod.status.phase or 'new'} on {pod.spec.node_name or 'no node'}"
