"""Statuses and the diagnosis of a failed attempt: codes, reasons, counts and messages."""

import numpy as np
import pytest

from stowplan.scheduler.framework.cycle_state import CycleState, NotFoundError
from stowplan.scheduler.framework.diagnosis import Diagnosis, Entry, Rejections, from_statuses
from stowplan.scheduler.framework.status import SKIP, Code, Reason, Status, error, unresolvable, unschedulable
from stowplan.testing import a_node, a_pod
from support.plugins.fake_plugins import fake, framework_of, judged
from support.scheduling.worlds import state_of

NO, NEVER = Code.Unschedulable, Code.UnschedulableAndUnresolvable
SHORT = Reason("Short", "Insufficient {resource}")


# -- status ------------------------------------------------------------------------------------------------------------


def test_codes_are_upstreams():
    names = ("Success", "Error", "Unschedulable", "UnschedulableAndUnresolvable", "Wait", "Skip", "Pending")
    assert [(code.name, code.value) for code in Code] == [(name, i) for i, name in enumerate(names)]


@pytest.mark.parametrize(
    ("status", "message", "rejected"),
    [
        pytest.param(unschedulable("a", "b"), "a, b", True, id="reasons are joined"),
        pytest.param(unresolvable("a"), "a", True, id="unresolvable"),
        pytest.param(Status(Code.Pending, ("a",)), "a", True, id="pending is a rejection"),
        pytest.param(error("boom"), "boom", False, id="error"),
        pytest.param(error(ValueError("boom")), "boom", False, id="exception"),
        pytest.param(
            Status(Code.Error, ("a", "b"), error=ValueError("boom")),
            "boom, a, b",
            False,
            id="the error's text is first",
        ),
        pytest.param(SKIP, "", False, id="skip"),
        pytest.param(Status(Code.Wait), "", False, id="wait"),
        pytest.param(Status(Code.Success), "", False, id="success"),
        pytest.param(unschedulable(SHORT.of(resource="cpu")), "Insufficient cpu", True, id="a reason with details"),
    ],
)
def test_status(status, message, rejected):
    assert (status.message, str(status), status.rejected) == (message, message, rejected)


def test_reasons_keep_their_parameters():
    reason = SHORT.of(resource="cpu", requested=3)
    assert (reason.code, str(reason), reason.detail) == (
        "Short",
        "Insufficient cpu",
        (("resource", "cpu"), ("requested", 3)),
    )
    assert unschedulable(reason).records == (reason,)


def test_a_status_gets_its_plugins_name():
    status = unschedulable("a").with_plugin("P")
    assert (status.plugin, status.reasons) == ("P", ("a",))


# -- rejections --------------------------------------------------------------------------------------------------------


def mask(*bits):
    return np.array(bits, bool)


def test_the_most_severe_code_of_a_nodes_reasons_counts():
    cpu, memory = SHORT.of(resource="cpu"), SHORT.of(resource="memory")
    entries = [Entry(mask(1, 1, 0), NO, cpu), Entry(mask(0, 1, 0), NEVER, memory), Entry(mask(1, 0, 0), NO, memory)]
    rejections = Rejections(mask(1, 1, 0), lambda: entries)
    assert rejections.status(0) == Status(NO, ("Insufficient cpu", "Insufficient memory"))
    assert rejections.status(1) == Status(NEVER, ("Insufficient cpu", "Insufficient memory"))


def test_statuses_per_node_are_grouped_by_reason():
    rejections = from_statuses({0: unschedulable("a"), 2: unschedulable("a"), 3: unresolvable("a", "b")}, 4)
    assert rejections.mask.tolist() == [True, False, True, True]
    found = {(e.code, str(e.reason)): e.mask.tolist() for e in rejections.entries}
    assert found == {
        (NO, "a"): [True, False, True, False],
        (NEVER, "a"): [False, False, False, True],
        (NEVER, "b"): [False, False, False, True],
    }
    assert rejections.status(3) == Status(NEVER, ("a", "b"))


def test_entries_are_created_lazily():
    made = []
    rejections = Rejections(mask(1), lambda: made.append(1) or [Entry(mask(1), NO, SHORT)])
    assert made == []
    assert rejections.status(0).code is NO
    assert rejections.status(0).code is NO
    assert made == [1]


# -- diagnosis ---------------------------------------------------------------------------------------------------------


def diagnosis_of(*filtered, nodes=4, examined=None, holes=(), **more):
    valid = np.ones(nodes, bool)
    valid[list(holes)] = False
    diagnosis = Diagnosis(valid, valid.copy() if examined is None else examined, **more)
    diagnosis.filtered = list(filtered)
    return diagnosis


def refuses(plugin, statuses, nodes=4):
    return plugin, from_statuses(statuses, nodes)


def test_a_node_has_the_reasons_of_the_first_plugin_that_refused_it():
    diagnosis = diagnosis_of(
        refuses("P", {0: unschedulable("p"), 1: unschedulable("p")}),
        refuses("Q", {1: unresolvable("q"), 2: unresolvable("q", "r")}),
    )
    assert diagnosis.message() == "0/4 nodes are available: 1 q, 1 r, 2 p."
    assert diagnosis.unschedulable_plugins == {"P", "Q"}
    assert diagnosis.status(1) == Status(NO, ("p",), "P")
    assert diagnosis.status(2) == Status(NEVER, ("q", "r"), "Q")
    assert diagnosis.status(3) is None
    assert diagnosis.codes.tolist() == [NO, NO, NEVER, 0]


def test_counts_are_sorted_as_text():
    statuses = {i: unschedulable("a") for i in range(10)} | {i: unschedulable("z") for i in range(10, 12)}
    diagnosis = diagnosis_of(refuses("P", statuses, 12), nodes=12)
    assert diagnosis.message() == "0/12 nodes are available: 10 a, 2 z."


def test_rows_without_a_node_do_not_count():
    diagnosis = diagnosis_of(refuses("P", {i: unschedulable("p") for i in range(4)}), holes=(1,))
    assert diagnosis.message() == "0/3 nodes are available: 3 p."
    assert diagnosis.codes.tolist() == [NO, 0, NO, NO]


def test_rows_not_examined_have_the_absent_status():
    absent = unresolvable("left out")
    diagnosis = diagnosis_of(refuses("P", {0: unschedulable("p")}), examined=mask(1, 0, 0, 0), absent=absent)
    assert diagnosis.message() == "0/4 nodes are available: 1 p, 3 left out."
    assert diagnosis.status(2) == absent
    assert diagnosis.codes.tolist() == [NO, NEVER, NEVER, NEVER]


@pytest.mark.parametrize(
    ("more", "post_filter", "message"),
    [
        pytest.param({}, "", "0/4 nodes are available:", id="no reasons"),
        pytest.param({"pre_filter_message": "no way"}, "", "0/4 nodes are available: no way.", id="PreFilter"),
        pytest.param({}, "nor here", "0/4 nodes are available: nor here", id="PostFilter"),
        pytest.param(
            {"pre_filter_message": "no way"}, "nor here", "0/4 nodes are available: no way. nor here", id="both"
        ),
    ],
)
def test_messages(more, post_filter, message):
    assert diagnosis_of(examined=np.zeros(4, bool), **more).message(post_filter) == message


def test_nominated_pods_come_first():
    status = unschedulable("nominated").with_plugin("Fit")
    diagnosis = diagnosis_of(refuses("P", {0: unschedulable("p"), 1: unschedulable("p")}), nominated={0: status})
    assert diagnosis.status(0) == status
    assert diagnosis.message() == "0/4 nodes are available: 1 nominated, 1 p."
    assert diagnosis.unschedulable_plugins == {"P", "Fit"}


def test_pending_plugins():
    state = state_of([a_node("a"), a_node("b")])
    waits = fake("Waits", filter=lambda state, pod, node: Status(Code.Pending, ("soon",)) if node.name == "a" else None)
    refuses_b = fake("Refuses", filter=unschedulable("no"))
    _, outcome, _ = judged(framework_of(state, waits, refuses_b), a_pod())
    assert outcome.diagnosis.pending_plugins == {"Waits"}
    assert outcome.diagnosis.unschedulable_plugins == {"Waits", "Refuses"}
    assert outcome.diagnosis.message() == "0/2 nodes are available: 1 no, 1 soon."


# -- cycle state -------------------------------------------------------------------------------------------------------


class Counter:
    def __init__(self, n):
        self.n = n

    def clone(self):
        return Counter(self.n)


def test_cloning_a_cycle_state():
    state = CycleState()
    shared = []
    state.write("counter", Counter(1))
    state.write("shared", shared)
    state.skip_filter = {"P"}
    copy = state.clone()
    copy.read("counter").n = 2
    copy.write("new", 1)
    assert (state.read("counter").n, copy.read("shared") is shared, state.get("new")) == (1, True, None)
    assert copy.skip_filter == {"P"}


def test_missing_state():
    state = CycleState()
    state.write("key", 1)
    state.delete("key")
    state.delete("key")
    with pytest.raises(NotFoundError, match=r"^not found$"):
        state.read("key")
