"""Follow a cluster and judge each pod that another scheduler binds, before applying the bind.

It receives the inputs of a follower's engine, live or from a recording, and forwards them; only binds are held back
until they are due (`decision_order`). If the order of decisions is uncertain and the result differs, the pod is judged
again: on the state of the watch at its bind, and with concurrently bound pods moved to the other side of it. The report
contains the state on which the two agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Literal

from stowplan.history.shadow.bind_comparison import Comparison, Kind, compared
from stowplan.history.shadow.decision_order import CONCURRENT_SECONDS, Bind, DecisionOrder
from stowplan.kube.api.meta import parse_timestamp
from stowplan.kube.api.port import Change
from stowplan.kube.api.types import Pod
from stowplan.kube.structs import PlainStruct
from stowplan.kube.timing.times import Times
from stowplan.scheduler.engine.engine import Engine
from stowplan.scheduler.engine.inputs import Changes, Input
from stowplan.scheduler.framework.requests import Ask, Outcome
from stowplan.scheduler.framework.runtime.framework import Framework

#: Maximum number of binds before and after one that are considered concurrent.
_NEIGHBOURS = 64


class Judged(PlainStruct, frozen=True, kw_only=True):
    """A pod that the other scheduler has bound."""

    pod: str
    #: When the bind was seen, and how long the pod had been pending.
    at: float
    pending: float
    #: Duration of the judgement in seconds.
    took: float
    comparison: Comparison
    #: The order of decisions of the judged state: of the queue, of the binds, or neither: then the pods in `swapped`
    #: were moved to the other side of this one. If the result differs on all of them, the first.
    order: Literal["queue", "binds", "swapped"]
    swapped: tuple[str, ...] = ()


class Shadow:
    def __init__(
        self, on_judged: Callable[[Judged], object], *, meter: Times, ask: Callable[[Ask], Outcome] | None = None
    ) -> None:
        """`on_judged` gets each judged pod; `meter` measures durations.

        `ask` calls extenders; without it, pods for which one is interested are not judged.
        """
        self._ask = ask
        self._on_judged = on_judged
        self._meter = meter
        self._order = DecisionOrder()
        #: The last binds that were applied, the newest at the end.
        self._last: list[Bind] = []
        #: When we started, and whether the initial list of pods has been delivered; there is none without pods.
        self._began: float | None = None
        self._listed = False
        #: Whether all initial lists have been delivered; before that, the state is not the other scheduler's.
        self.synced: Callable[[], bool] = lambda: True

    def step(self, engine: Engine, input_: Input, now: float) -> None:
        """Process an input, and judge binds that are due."""
        if self._began is None:
            self._began = now
        if not isinstance(input_, Changes) or input_.kind is not Pod:
            engine.step(input_, now)
        else:
            self._pods(engine, input_.changes, now)
        self.tick(engine, now)

    def tick(self, engine: Engine, now: float) -> None:
        """Time has passed: binds may be due."""
        if self.synced():
            self._judge(engine, self._order.release(now, engine.state.table.row_of.__contains__), now)

    def finish(self, engine: Engine, now: float) -> None:
        """Judge the binds that are still held back."""
        self._judge(engine, self._order.release_all(), now)

    def _pods(self, engine: Engine, changes: Iterable[Change[Any]], now: float) -> None:
        batch: list[Change[Any]] = []
        for change in changes:
            old, new = change.old, change.new
            if self._order.renewed(change):
                if new is None:
                    # It was deleted: the creation must have been delivered before.
                    assert old is not None
                    self._flush(engine, batch, now)
                    self._judge(engine, self._order.release_up_to(old.metadata.uid), now)
                    batch.append(change)
                continue
            if new is not None and old is not None and new.spec.node_name and not old.spec.node_name:
                if self._framework(engine, new) is not None:
                    self._order.bound(change, now)
                    continue
            elif new is not None and not new.spec.node_name and self._framework(engine, new) is not None:
                if old is None:
                    self._order.pending(new, now, came=self._listed or self._is_younger(new))
                else:
                    self._order.updated(old, new)
            elif new is None and old is not None:
                self._order.gone(old.metadata.uid)
            batch.append(change)
        self._flush(engine, batch, now)
        self._listed = True

    def _flush(self, engine: Engine, batch: list[Change[Any]], now: float) -> None:
        if batch:
            engine.step(Changes(Pod, tuple(batch)), now)
            batch.clear()

    def _is_younger(self, pod: Pod) -> bool:
        """Whether it was created after we started, to the second."""
        created = pod.metadata.creation_timestamp
        return self._began is not None and created is not None and parse_timestamp(created) > self._began

    @staticmethod
    def _framework(engine: Engine, pod: Pod) -> Framework | None:
        return engine.frameworks.get(pod.spec.scheduler_name or "default-scheduler")

    # -- judging ------------------------------------------------------------------------------------------------------

    def _judge(self, engine: Engine, binds: Iterator[Bind], now: float) -> None:
        for bind in binds:
            self._on_judged(self._judged(engine, bind))
            engine.step(Changes(Pod, (bind.change,)), now)
            self._last.append(bind)
            del self._last[:-_NEIGHBOURS]

    def _judged(self, engine: Engine, bind: Bind) -> Judged:
        old, new = bind.change.old, bind.change.new
        assert old is not None
        assert new is not None
        framework = self._framework(engine, old)
        assert framework is not None
        info, node = engine.state.pod_info(old), new.spec.node_name
        began = self._meter.clock()
        compare = partial(compared, engine, framework, info, node, ask=self._ask)
        found = compare()
        took = self._meter.clock() - began
        order: Literal["queue", "binds", "swapped"] = "queue"
        swapped: tuple[str, ...] = ()
        if not found.kind.agrees and found.kind is not Kind.EXTENDER:
            otherwise = self._in_order_of_binds(engine, bind, compare)
            if otherwise is not None and otherwise.kind.agrees:
                found, order = otherwise, "binds"
            elif not found.extenders_called:
                # With extenders, each state would take requests.
                swap = self._swapped(engine, bind, compare)
                if swap is not None:
                    (found, swapped), order = swap, "swapped"
        return Judged(
            pod=info.key,
            at=bind.at,
            pending=bind.at - bind.pending_since,
            took=took,
            comparison=found,
            order=order,
            swapped=swapped,
        )

    def _in_order_of_binds(self, engine: Engine, bind: Bind, judge: Callable[[], Comparison]) -> Comparison | None:
        """Judge on the state of the watch at its bind, if the order is uncertain; None: nothing new."""
        earlier = [one for one in self._order.held() if one.number < bind.number and one.may_have_swapped(bind)]
        later = [one for one in self._last if one.number > bind.number and one.may_have_swapped(bind)]
        if not earlier and not later:
            return None
        with engine.state.transaction():
            for other in later:
                engine.state.remove_pod(other.uid)
            for other in earlier:
                if other.change.new is not None:
                    engine.state.add_pod(other.change.new)
            return judge()

    def _swapped(
        self, engine: Engine, bind: Bind, judge: Callable[[], Comparison]
    ) -> tuple[Comparison, tuple[str, ...]] | None:
        """Find concurrently bound pods that make the two agree if they were decided on the other side of this one.

        Tries each of them alone, then consecutive ones: this one was decided that much earlier, or later.
        """
        state = engine.state
        held = sorted(self._order.held(), key=lambda one: one.number)
        before, after = (
            [one for one in row if abs(bind.at - one.at) <= CONCURRENT_SECONDS and one.may_have_swapped(bind)]
            for row in (reversed(self._last), held)
        )
        del after[_NEIGHBOURS:]
        for row, groups in (
            (before, [(one,) for one in before]),
            (after, [(one,) for one in after]),
            (before, [before[:size] for size in range(2, len(before) + 1)]),
            (after, [after[:size] for size in range(2, len(after) + 1)]),
        ):
            for group in groups:
                with state.transaction():
                    for other in group:
                        if row is before:
                            state.remove_pod(other.uid)
                        elif other.change.new is not None:
                            state.add_pod(other.change.new)
                    found = judge()
                if found.kind.agrees:
                    return found, tuple(map(_key, group))
        return None


def _key(bind: Bind) -> str:
    pod = bind.change.new
    assert pod is not None
    return f"{pod.metadata.namespace}/{pod.metadata.name}"
