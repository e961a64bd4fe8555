"""Pod groups whose trials wait: for extenders, a PostFilter plugin, or the next portion of long work.

There is one record per group. It owns the trial (`suspendable_trial`) and resumes it once all answers have arrived. The
group's pods stay in flight; no transaction is open. While a trial waits for an extender, no other pod is tried, even if
scheduling cycles may overlap: a group is decided on one state of the cluster.

A trial is aborted when one of its pods is deleted, changes in more than its status, or is bound by another client; when
plugins or the profile change; and when scheduling stops. Its requests are withdrawn and its pods return to the queue.

Upstream has no counterpart. There, a trial blocks until it is answered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from stowplan.kube.klog import get_logger
from stowplan.scheduler.engine.suspension.suspended import Stage, Suspended, has_same_requirements
from stowplan.scheduler.framework.boundary import Ended, Raised, close, resume
from stowplan.scheduler.framework.events import PROFILE_SWAPPED
from stowplan.scheduler.framework.requests import Done
from stowplan.scheduler.framework.status import raised
from stowplan.scheduler.framework.unfinished import UnfinishedError

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping, Sequence

    from stowplan.kube.api.port import Change
    from stowplan.kube.api.types import Pod
    from stowplan.scheduler.engine.context import EngineContext
    from stowplan.scheduler.engine.decision.suspendable_algorithm import Needs
    from stowplan.scheduler.engine.groups.group_trial import GroupTrial
    from stowplan.scheduler.engine.groups.suspendable_trial import TrialSteps
    from stowplan.scheduler.engine.suspension.portions import Portions
    from stowplan.scheduler.framework.requests import Outcome
    from stowplan.scheduler.framework.runtime.framework import Framework
    from stowplan.scheduler.framework.status import Status
    from stowplan.scheduler.queue.queued_pod import QueuedPod

_log = get_logger(__name__)


class TrialOutcomeHandler(Protocol):
    """Handles the outcome of a trial."""

    def conclude(self, trial: SuspendableGroup, outcome: GroupTrial | Status, /) -> None:
        """`outcome` of Status: the trial failed."""


class SuspendableGroup(Suspended):
    """A pod group whose trial may be suspended."""

    __slots__ = (
        "asks",
        "framework",
        "group",
        "members",
        "outcome_handler",
        "portions_before",
        "started",
        "steps",
        "switched_off",
    )

    def __init__(
        self,
        owner: SuspendedGroups,
        framework: Framework,
        group: str,
        members: Sequence[QueuedPod],
        steps: TrialSteps,
        *,
        outcome_handler: TrialOutcomeHandler,
        started: float,
    ) -> None:
        super().__init__(owner, owner.outbox)
        self.outcome_handler = outcome_handler
        self.framework = framework
        self.group = group
        self.members = members
        self.steps = steps
        #: By the stopwatch.
        self.started = started
        self.switched_off = framework.switched_off
        #: Whether it waits for an extender.
        self.asks = False
        #: Number of portions taken, by any work, when the attempt began.
        self.portions_before = owner.portions.taken

    @property
    def line(self) -> Hashable:
        return "pod group", self.group

    def __str__(self) -> str:
        return f"trial of pod group {self.group}"


class SuspendedGroups:
    def __init__(self, context: EngineContext, portions: Portions) -> None:
        # The queue is created after the profiles.
        self._context = context
        self.outbox = context.outbox
        self.portions = portions
        self._state = context.state
        #: Waiting trials, by the UIDs of their pods.
        self.under_way: dict[str, SuspendableGroup] = {}

    @property
    def trials(self) -> list[SuspendableGroup]:
        return list(dict.fromkeys(self.under_way.values()))

    @property
    def holds_up(self) -> bool:
        """Whether no pod may be tried until an extender has answered."""
        return bool(self.under_way) and any(trial.asks for trial in self.trials)

    @property
    def asleep(self) -> int:
        """Trials that only time, or a change of some object, can advance."""
        return sum(trial.stage is Stage.ASLEEP for trial in self.trials)

    def begin(self, trial: SuspendableGroup) -> None:
        """Run a group's trial until it ends or waits."""
        self._go_on(trial, None)

    def _go_on(self, trial: SuspendableGroup, outcomes: tuple[Outcome, ...] | None) -> None:
        trial.stage, trial.asks = Stage.RUNNING, False
        outcome: GroupTrial | Status
        needed = resume(trial.steps, outcomes)
        while isinstance(needed, UnfinishedError) and not self._may_go_on(trial, needed):
            needed = resume(trial.steps, (Done(False),))
        if isinstance(needed, Ended):
            outcome = needed.value
        elif isinstance(needed, Raised):
            outcome = broken(trial.group, needed.cause)
        else:
            self._wait(trial, needed)
            return
        self._over(trial)
        trial.outcome_handler.conclude(trial, outcome)

    def _over(self, trial: SuspendableGroup) -> None:
        trial.stage = Stage.OVER
        for queued in trial.members:
            self.under_way.pop(queued.pod.uid, None)

    # -- waiting ------------------------------------------------------------------------------------------------------

    def _wait(self, trial: SuspendableGroup, needed: Needs) -> None:
        self.under_way |= dict.fromkeys((queued.pod.uid for queued in trial.members), trial)
        if isinstance(needed, UnfinishedError):
            trial.stage = Stage.PORTIONS
            self.portions.join(trial)
        else:
            trial.asks = trial.wait_for(needed)

    def answered(self, trial: SuspendableGroup) -> None:
        """Continue a trial if all its answers have arrived."""
        if (outcomes := trial.take_outcomes()) is not None:
            self._go_on(trial, outcomes)

    def woken(self, trial: SuspendableGroup) -> None:
        if trial.stage is Stage.ASLEEP:
            self._go_on(trial, trial.end_sleep())

    # -- work in portions ---------------------------------------------------------------------------------------------

    def _may_go_on(self, trial: SuspendableGroup, work: UnfinishedError) -> bool:
        return work.portions is None or self.portions.taken - trial.portions_before < work.portions

    def take_portion(self, trial: SuspendableGroup) -> None:
        self._go_on(trial, (Done(True),))

    def put_back(self, trial: SuspendableGroup) -> None:
        self._abort(trial, "an equal group was decided")

    # -- aborting ------------------------------------------------------------------------------------------------------

    def _abort(self, trial: SuspendableGroup, why: str, *, give_back: bool = True) -> None:
        """Abort a waiting trial; its pods return to the queue in their current version, unless others handle them."""
        _log.v(4).info("Aborted the suspended trial of a pod group", podGroup=trial.group, reason=why)
        trial.stop_waiting()
        self.portions.leave(trial)
        trial.asks = False
        self._over(trial)
        if (problem := close(trial.steps)) is not None:
            self._context.reporter.report(f"aborted trial of a pod group: {problem.cause}")
        for queued in trial.members:
            newest = self._state.pending.by_uid(queued.pod.uid)
            if newest is None or not give_back:
                self._context.queue.done(queued.pod.uid)
            else:
                self._context.queue.give_back(queued, newest, PROFILE_SWAPPED)

    def pods_changed(self, changes: Sequence[Change[Pod]]) -> None:
        """Pods were added, changed or deleted; the cluster state is already updated."""
        for change in changes:
            pod = change.new or change.old
            trial = None if pod is None else self.under_way.get(pod.metadata.uid)
            if trial is None or pod is None:
                continue
            uid = pod.metadata.uid
            tried = next(queued.pod for queued in trial.members if queued.pod.uid == uid)
            bound = change.new is not None and bool(change.new.spec.node_name)
            if bound or not has_same_requirements(tried, self._state.pending.by_uid(uid)):
                self._abort(trial, f"pod {tried.key} has changed")

    def plugins_switched(self) -> None:
        """Plugins were switched on or off."""
        for trial in self.trials:
            if trial.switched_off != trial.framework.switched_off:
                self._abort(trial, "plugins were switched off or on")

    def profiles_swapped(self, profiles: Mapping[str, Framework]) -> None:
        """These profiles are active from now on."""
        for trial in self.trials:
            framework = profiles.get(trial.framework.profile_name)
            if framework is not trial.framework:
                self._abort(trial, "the profile was swapped", give_back=framework is not None)

    def stop(self) -> None:
        """Scheduling has stopped."""
        for trial in self.trials:
            self._abort(trial, "the scheduler stops")

    # -- invariants ---------------------------------------------------------------------------------------------------

    @property
    def unfinished(self) -> list[str]:
        return [f"{trial}: {trial.stage.value}" for trial in self.trials]

    def problems(self) -> Iterator[str]:
        """Violated invariants between steps."""
        for trial in self.trials:
            if trial.stage not in (Stage.ASKING, Stage.ASLEEP, Stage.PORTIONS):
                yield f"{trial}: is {trial.stage.value} between steps"
            if (trial.stage is Stage.PORTIONS) is not (trial in self.portions):
                yield f"{trial}: {trial.stage.value}, but its work is {'' if trial in self.portions else 'not '}in line"
            yield from trial.problems()
            for queued in trial.members:
                if self.under_way.get(queued.pod.uid) is not trial:
                    yield f"{trial}: pod {queued.pod.key} is not under way"
                if not self._context.queue.closed and not self._context.queue.is_in_flight(queued.pod.uid):
                    yield f"{trial}: pod {queued.pod.key} is not in flight"


def broken(group: str, cause: BaseException) -> Status:
    """The Error of a trial that ended with an unexpected exception; only this attempt fails."""
    _log.error(cause, "the trial of a pod group failed", trace=True, podGroup=group)
    return raised(cause)
