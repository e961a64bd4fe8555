"""Claims that take very long to decide: each attempt ends soon, the search continues later, and the result is the
same."""

import numpy as np
import pytest

from stowplan.kube.api.decode import decode_object
from stowplan.kube.cel.device_selectors import compile_selector
from stowplan.kube.config.features import with_chosen
from stowplan.kube.kubernetes_versions import V1_36
from stowplan.scheduler.engine.effects import Pause
from stowplan.scheduler.framework.requests import Done
from stowplan.scheduler.in_tree.dynamic_resources import answers
from stowplan.scheduler.in_tree.dynamic_resources.allocator import selectors
from stowplan.scheduler.in_tree.dynamic_resources.allocator.claims import Features, compile_claim
from stowplan.scheduler.in_tree.dynamic_resources.allocator.devices import content_of
from stowplan.scheduler.in_tree.dynamic_resources.allocator.search import Verdict
from stowplan.scheduler.in_tree.dynamic_resources.allocator.selectors import (
    LOOK,
    Budget,
    BudgetSpentError,
    SelectorVerdicts,
    SlowEvaluation,
)
from stowplan.scheduler.in_tree.dynamic_resources.answers import Answers
from stowplan.scheduler.in_tree.dynamic_resources.inventory import Inventory
from stowplan.testing import a_node, a_pod
from support.plugins.devices import DRIVER, a_claim, a_class, a_device, a_slice, exactly
from support.scheduling.engines import DrivenEngine
from support.scheduling.groups import a_group
from support.scheduling.worlds import state_of, struct

GROUPS = with_chosen({"GenericWorkload": True, "GangScheduling": True}, V1_36)
GPU = decode_object(a_class())
TEXT = f'device.attributes["{DRIVER}"].text.split("")'
#: A cost of about 100,000 per device, a tenth of the limit per device.
COSTLY = f'{TEXT}.all(a, {TEXT}.all(b, {TEXT}.exists(c, a + b + c != "")))'
PLAIN = f'"plain" in device.attributes["{DRIVER}"]'
NEVER = f'{TEXT}.exists(a, {TEXT}.exists(b, a + b == "no"))'


def answers_for(claim, *slices, nodes=1, timeout=10):
    """The rows of a cluster, and the answers for a claim on them."""
    state = state_of((a_node(f"n{n}") for n in range(nodes)), objects=slices)
    inventory = Inventory(state, Features())
    inventory.refresh()
    compiled = compile_claim(decode_object(claim), Features(), {"gpu": GPU}.get)
    found = Answers(inventory, Features(), filter_timeout=timeout)
    return lambda: [Verdict(int(v)) for v in found.verdicts((compiled,), np.arange(nodes))]


class CountedBudget(Budget):
    """Records by how much each budget is overdrawn."""

    __slots__ = ()
    overdrawn = 0

    def spend(self, steps=1):
        super().spend(steps)
        CountedBudget.overdrawn = max(CountedBudget.overdrawn, -self.left)


@pytest.fixture
def overdrawn(monkeypatch):
    CountedBudget.overdrawn = 0
    monkeypatch.setattr(answers, "Budget", CountedBudget)
    return lambda: CountedBudget.overdrawn


CONFLICTING = a_claim(
    "c",
    exactly("r", count=5),
    exactly("q", count=5),
    exactly("s", count=4),
    constraints=[
        {"requests": ["r"], "matchAttribute": f"{DRIVER}/b"},
        {"requests": ["q"], "matchAttribute": f"{DRIVER}/a"},
        {"requests": [], "distinctAttribute": f"{DRIVER}/serial"},
    ],
)


def broken_counters(node):
    devices = [a_device(f"g{i:03}", serial=i, consumes={"set": {"slots": str(i % 9 + 1)}}) for i in range(128)]
    return (
        a_slice(node, *devices, pool=node, count=2, nodeName=node),
        a_slice(f"{node}-c", pool=node, count=2, counters={"set": {"slots": "31"}}, nodeName=node),
    )


CASES = [
    pytest.param(
        CONFLICTING,
        [a_slice("n0", *[a_device(f"g{i}", a=i % 16, b=i // 16 + i % 7, serial=i) for i in range(64)], nodeName="n0")],
        id="64 devices and constraints that contradict each other",
    ),
    pytest.param(a_claim("c", exactly("r", count=20)), broken_counters("n0"), id="128 devices with broken counters"),
    pytest.param(
        a_claim("c", exactly("r", selectors=(COSTLY, NEVER))),
        [a_slice("n0", *[a_device(f"g{i}", text=f"{i:02}".ljust(40, "x")) for i in range(64)], nodeName="n0")],
        id="an expensive expression",
    ),
]


@pytest.mark.parametrize(("claim", "slices"), CASES)
def test_attempts_are_short_and_end_with_the_filter_timeout(claim, slices, overdrawn, monkeypatch):
    monkeypatch.setattr(answers, "PORTION_STEPS", 20_000)
    attempt = answers_for(claim, *slices, timeout=0.1)
    verdicts = [attempt() for _ in range(8)]
    assert verdicts[0] == [Verdict.UNFINISHED]
    assert verdicts[-1] == [Verdict.TIMED_OUT]
    # An evaluation checks its budget after every 1,000 of cost; shorter ones are not interrupted.
    assert overdrawn() < 6_000


@pytest.mark.parametrize("nodes", [1, 3])
def test_an_expensive_expression_is_evaluated_completely(nodes, overdrawn, monkeypatch):
    monkeypatch.setattr(answers, "PORTION_STEPS", 20_000)
    slices = [a_slice(f"n{n}", a_device("g", text=f"{n}".ljust(40, "x")), nodeName=f"n{n}") for n in range(nodes)]
    attempt = answers_for(a_claim("c", exactly("r", selectors=(COSTLY,))), *slices, nodes=nodes)
    taken = 1
    while attempt() != [Verdict.FOUND] * nodes:
        taken += 1
        assert taken < 100
    assert taken > 2
    assert overdrawn() < 6_000


def content(**attributes):
    return content_of(decode_object(a_slice("s", a_device("g", **attributes))).spec.devices[0], DRIVER)


def wanted(*expressions):
    claim = compile_claim(
        decode_object(a_claim("c", exactly("r", selectors=expressions))), Features(), {"gpu": GPU}.get
    )
    return claim.requests[0].alternatives[0]


@pytest.mark.parametrize(
    ("expressions", "portion", "expected"),
    [
        ((COSTLY,), 7_000, True),
        ((COSTLY,), 30_000, True),
        ((COSTLY, COSTLY, NEVER), 30_000, False),
        ((COSTLY, "1 / 0 == 1"), 30_000, "selector #1: CEL runtime error: division by zero"),
        (("lists.range(30000).all(x, x >= 0)",), 30_000, True),
        (
            ("lists.range(2000).all(x, lists.range(2000).all(y, x + y >= 0))",),
            200_000,
            "selector #0: CEL runtime error: operation cancelled: actual cost limit exceeded",
        ),
    ],
)
def test_portions_do_not_change_the_verdict(expressions, portion, expected):
    device = content(text="x" * 40)
    asked, verdicts = wanted(*expressions), SelectorVerdicts()
    stops = 0
    while True:
        try:
            verdict = verdicts.judge(asked, device, Budget(portion))
            break
        except BudgetSpentError:
            stops += 1
    assert stops > 0
    assert (verdict if isinstance(verdict, bool) else verdict.text(V1_36)) == expected


def test_interruptions_are_deterministic():
    def stops():
        evaluation = SlowEvaluation(compile_selector(COSTLY), content(text="x" * 40).selected)
        found = [evaluation.run(9_000)]
        while found[-1][0] is None:
            found.append(evaluation.run(9_000))
        return [(steps, None if outcome is None else (outcome.value, outcome.cost)) for outcome, steps in found]

    assert stops() == stops()
    plain = compile_selector(COSTLY).evaluate(content(text="x" * 40).selected)
    assert stops()[-1][1] == (plain.value, plain.cost)


def test_the_number_of_suspended_evaluations_is_bounded():
    verdicts, asked = SelectorVerdicts(), wanted(COSTLY)
    for i in range(40):
        with pytest.raises(BudgetSpentError):
            verdicts.judge(asked, content(text=f"{i}".ljust(40, "x")), Budget(LOOK))
    assert len(verdicts._under_way) == selectors._MAX_UNDER_WAY


def test_an_unused_suspended_evaluation_is_dropped():
    evaluation = SlowEvaluation(compile_selector(COSTLY), content(text="x" * 40).selected)
    assert evaluation.run(5_000)[0] is None
    thread = evaluation._thread
    del evaluation
    thread.join(timeout=10)
    assert not thread.is_alive()


@pytest.mark.parametrize("in_group", [False, True])
@pytest.mark.parametrize(("claim", "slices"), CASES)
def test_other_pods_are_scheduled_between_portions(claim, slices, in_group, monkeypatch):
    """Counted in steps, not time: other pods wait for one portion at most, and need no more steps themselves."""
    budgets = []

    class Recorded(CountedBudget):
        __slots__ = ("given",)

        def __init__(self, steps):
            super().__init__(steps)
            self.given = steps
            budgets.append(self)

    monkeypatch.setattr(answers, "Budget", Recorded)

    def spent():
        total = sum(budget.given - budget.left for budget in budgets)
        budgets.clear()
        return total

    def others(driven, i):
        """A pod with a claim and one without; the steps that they took."""
        driven.create(a_claim(f"o{i}", exactly("r", selectors=(PLAIN,))), a_pod(f"o{i}").claims_devices(f"o{i}"))
        driven.create(a_pod(f"q{i}"))
        assert driven.bound[f"q{i}"] == "n0"
        return spent()

    def world():
        driven = DrivenEngine(a_node("n0").allocatable(cpu=100, pods=100), a_class(), *slices, features=GROUPS)
        driven.create(a_slice("plain", *[a_device(f"p{i}", plain=True) for i in range(8)], nodeName="n0"))
        return driven

    alone = world()
    steps_alone = [others(alone, i) for i in range(4)]

    beside = world()
    slow = a_pod("slow").claims_devices("c")
    if in_group:
        # Each time the second pod continues, the first pod of the group has already been placed.
        group = {"schedulingGroup": {"podGroupName": "g"}}
        beside.create(struct(a_group("g", gang=2)), claim)
        beside.create(a_pod("quick").spec(**group).priority(9), slow.spec(**group))
    else:
        beside.create(claim, slow)
    steps_beside = []
    for i in range(4):
        under_way = beside.engine.suspended.cycles if in_group else beside.suspended()
        assert len(under_way) == 1
        # Once for the attempt and once for the node.
        assert 0 < spent() < 2 * (answers.PORTION_STEPS + 6_000)
        steps_beside.append(others(beside, i))
        (pause,) = [number for number, action in beside.under_way.items() if isinstance(action, Pause)]
        beside.answer_number(pause, Done())
    assert steps_beside == steps_alone
