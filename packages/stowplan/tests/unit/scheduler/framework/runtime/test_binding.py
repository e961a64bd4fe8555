"""Plugins after a node was chosen: which are called, in which order, and the results of failures."""

import asyncio

import pytest

from stowplan.scheduler.framework.interface import BindPlugin, PostBindPlugin, PreBindPlugin, PreBindPreFlightResult
from stowplan.scheduler.framework.runtime import binding
from stowplan.scheduler.framework.runtime.binding import PreFlight, pre_bind_groups
from stowplan.scheduler.framework.status import SKIP, SUCCESS, Code, Status, error, unresolvable, unschedulable
from support.plugins.binding_calls import run_bind, run_post_bind, run_pre_bind
from support.plugins.raised import in_short
from support.plugins.recording_plugins import Recording, an_attempt, framework_of, recorder, shown

WAIT = Status(Code.Wait)
PENDING = Status(Code.Pending, ("later",))
OOPS = RuntimeError("oops")
PARALLEL = PreBindPreFlightResult(allow_parallel=True)
#: The end of a binding that failed.
UNRESERVED = ["C.unreserve", "B.unreserve", "A.unreserve"]


def attempt(**plugins):
    """The log, and the common arguments of calls; each keyword is a plugin with its answers."""
    log = []
    return log, an_attempt(framework_of(*(recorder(name, log, **answers) for name, answers in plugins.items())))


def failing(point, also=()):
    """Answers and results for points that pass rejections on."""
    running = f'running {point} plugin "B": '
    return [
        pytest.param(unschedulable("no"), ("Unschedulable", "B", "no"), id="unschedulable"),
        pytest.param(unresolvable("no"), ("UnschedulableAndUnresolvable", "B", "no"), id="unresolvable"),
        pytest.param(PENDING, ("Pending", "B", "later"), id="pending"),
        pytest.param(error("bad"), ("Error", "B", running + "bad"), id="error"),
        pytest.param(OOPS, ("Error", "B", running + "oops"), id="raises"),
        *also,
    ]


def misplaced(point, code):
    status = Status(code, ("odd",))
    return pytest.param(status, ("Error", "B", f'running {point} plugin "B": odd'), id=code.name.lower())


# -- Reserve ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [pytest.param(None, id="none"), pytest.param(SUCCESS, id="success")])
def test_reserve_calls_all_in_order(answer):
    log, call = attempt(A={"reserve": answer}, B={}, C={})
    assert binding.run_reserve(*call) is None
    assert log == ["A.reserve", "B.reserve", "C.reserve"]


@pytest.mark.parametrize(
    ("answer", "status"), failing("Reserve", [misplaced("Reserve", Code.Skip), misplaced("Reserve", Code.Wait)])
)
def test_a_failed_reserve_calls_unreserve(answer, status):
    log, call = attempt(A={}, B={"reserve": answer}, C={})
    assert shown(binding.run_reserve(*call)) == status
    assert log == ["A.reserve", "B.reserve", "C.unreserve", "B.unreserve", "A.unreserve"]


def test_an_unreserve_that_raises_does_not_stop_the_others():
    log, call = attempt(A={"unreserve": ValueError("a")}, B={"reserve": error("bad")}, C={"unreserve": OOPS})
    problems = ["earlier"]
    binding.run_reserve(*call, problems=problems)
    assert log[2:] == ["C.unreserve", "B.unreserve", "A.unreserve"]
    found = ['running Unreserve plugin "C": oops', 'running Unreserve plugin "A": a']
    assert [in_short(problem) for problem in problems] == ["earlier", *found]
    assert [in_short(problem) for problem in binding.run_unreserve(*call)] == found


def test_errors_keep_their_cause():
    _, call = attempt(A={"reserve": OOPS})
    assert binding.run_reserve(*call).error.__cause__.__cause__ is OOPS


# -- Permit -----------------------------------------------------------------------------------------------------------

ASKED = "one or more plugins asked to wait and no plugin rejected pod"


@pytest.mark.parametrize(
    ("answers", "status", "timeouts", "called"),
    [
        pytest.param({}, None, {}, "ABC", id="all permit"),
        pytest.param({"A": (WAIT, 10.0)}, ("Wait", "", ASKED), {"A": 10.0}, "ABC", id="one waits"),
        pytest.param(
            {"A": (Status(Code.Wait, ("for friends",)), 10.0), "C": (WAIT, 5.0)},
            ("Wait", "", f"for friends, {ASKED}"),
            {"A": 10.0, "C": 5.0},
            "ABC",
            id="two wait",
        ),
        pytest.param({"A": (WAIT, 901.0)}, ("Wait", "", ASKED), {"A": 900.0}, "ABC", id="a quarter of an hour at most"),
        pytest.param(
            {"A": (WAIT, 10.0), "B": (unschedulable("no"), 0.0)},
            ("Unschedulable", "B", "no"),
            {},
            "AB",
            id="a rejection beats waiting",
        ),
        pytest.param({"B": (PENDING, 0.0)}, ("Pending", "B", "later"), {}, "AB", id="pending"),
        pytest.param(
            {"B": (error("bad"), 0.0)}, ("Error", "B", 'running Permit plugin "B": bad'), {}, "AB", id="error"
        ),
        pytest.param({"B": OOPS}, ("Error", "B", 'running Permit plugin "B": oops'), {}, "AB", id="raises"),
        pytest.param(
            {"B": (Status(Code.Skip, ("odd",)), 0.0)},
            ("Error", "B", 'running Permit plugin "B": odd'),
            {},
            "AB",
            id="skip",
        ),
    ],
)
def test_permit(answers, status, timeouts, called):
    log, call = attempt(**{name: {"permit": answers[name]} if name in answers else {} for name in "ABC"})
    answer, found = binding.run_permit(*call)
    assert shown(answer) == status
    assert found == timeouts
    assert log == [f"{name}.permit" for name in called]


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(WAIT, id="no timeout"),
        pytest.param((WAIT, None), id="no seconds"),
        pytest.param((True, 1.0), id="no status"),
    ],
)
def test_a_malformed_permit_answer_is_the_plugins_error(answer):
    _, call = attempt(A={"permit": answer})
    status, timeouts = binding.run_permit(*call)
    assert (status.code, status.plugin, timeouts) == (Code.Error, "A", {})


# -- PreBind ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answers", "status", "results"),
    [
        pytest.param([], ("Skip", "", ""), [], id="no plugins"),
        pytest.param([SKIP, SKIP], ("Skip", "", ""), [PreFlight("P0", False), PreFlight("P1", False)], id="all skip"),
        pytest.param(
            [SKIP, PARALLEL],
            ("Success", "", ""),
            [PreFlight("P0", False), PreFlight("P1", allow_parallel=True)],
            id="one acts",
        ),
        pytest.param(
            [None, SUCCESS, PreBindPreFlightResult()],
            ("Success", "", ""),
            [PreFlight("P0"), PreFlight("P1"), PreFlight("P2")],
            id="none and success act alone",
        ),
        pytest.param(
            [SKIP, error("bad"), PARALLEL],
            ("Error", "P1", 'running PreBindPreFlight "P1": bad'),
            [PreFlight("P0", False)],
            id="error",
        ),
        pytest.param([OOPS], ("Error", "P0", 'running PreBindPreFlight "P0": oops'), [], id="raises"),
        pytest.param(
            [unschedulable("no")],
            (
                "Error",
                "P0",
                'PreBindPreFlight P0 returned "Unschedulable", which is unsupported. '
                "It is supposed to return Success, Skip, or Error status",
            ),
            [],
            id="rejection",
        ),
    ],
)
def test_pre_flights(answers, status, results):
    _, call = attempt(**{f"P{i}": {"pre_bind_pre_flight": answer} for i, answer in enumerate(answers)})
    answer, found = binding.run_pre_bind_pre_flights(*call)
    assert shown(answer) == status
    assert found == results


@pytest.mark.parametrize(
    ("spec", "groups"),
    [
        pytest.param("", [], id="nobody"),
        pytest.param("a+ b+ c+", ["abc"], id="adjacent plugins run in parallel"),
        pytest.param("a b c", ["a", "b", "c"], id="none allows it"),
        pytest.param("a+ b c+ d+", ["a", "b", "cd"], id="a sequential plugin separates groups"),
        pytest.param("a+ b- c+", ["a", "c"], id="a sequential plugin separates groups even if it skips"),
        pytest.param("a+ b-+ c+", ["ac"], id="a parallel plugin that skips does not"),
        pytest.param("a- b- c-", [], id="all skip"),
        pytest.param("a b+ c+", ["a", "bc"], id="a group does not join a sequential plugin"),
        pytest.param("a+ b+ c", ["ab", "c"], id="a sequential plugin does not join a group"),
    ],
)
def test_groups(spec, groups):
    """`+` allows parallel execution, `-` skips."""
    results = [PreFlight(item[0], "-" not in item, "+" in item) for item in spec.split()]
    assert ["".join(group) for group in pre_bind_groups(results)] == groups


def pre_bind(call, *groups):
    return shown(asyncio.run(run_pre_bind(*call, groups)))


def test_groups_run_one_after_the_other():
    log, call = attempt(A={}, B={}, C={})
    assert pre_bind(call, ("B",), ("A", "C")) is None
    assert log == ["B.pre_bind", "A.pre_bind", "C.pre_bind"]


def test_without_pre_flights_all_run_in_sequence():
    assert pre_bind_groups([PreFlight("A"), PreFlight("B")]) == (("A",), ("B",))


@pytest.mark.parametrize(
    ("answer", "status"), failing("PreBind", [misplaced("PreBind", Code.Skip), misplaced("PreBind", Code.Wait)])
)
@pytest.mark.parametrize("groups", [pytest.param([("A",), ("B",), ("C",)], id="sequence")])
def test_a_failed_pre_bind_stops(groups, answer, status):
    log, call = attempt(A={}, B={"pre_bind": answer}, C={})
    assert pre_bind(call, *groups) == status
    assert log == ["A.pre_bind", "B.pre_bind", *UNRESERVED]


async def _wait_for_ever(plugin):
    try:
        await asyncio.get_running_loop().create_future()
    except asyncio.CancelledError as e:
        plugin.log.append(f"{plugin.name}: {e}")
        raise


def test_the_first_failure_cancels_the_others():
    async def fails(plugin):
        return unschedulable("no room")

    log, call = attempt(A={"pre_bind": _wait_for_ever}, B={"pre_bind": fails}, C={})
    assert pre_bind(call, ("A", "B"), ("C",)) == ("Unschedulable", "B", "no room")
    assert log == ["A.pre_bind", "B.pre_bind", "A: some other PreBind operation failed", *UNRESERVED]


# -- Bind and PostBind ------------------------------------------------------------------------------------------------


def bind(call):
    return shown(asyncio.run(run_bind(*call)))


@pytest.mark.parametrize(
    ("answers", "status", "called"),
    [
        pytest.param({}, None, "A", id="the first binds"),
        pytest.param({"A": SUCCESS}, None, "A", id="success"),
        pytest.param({"A": SKIP}, None, "AB", id="skip leaves it to the next"),
        pytest.param(
            {"A": SKIP, "B": SKIP, "C": Status(Code.Skip, ("me too",))}, ("Skip", "", "me too"), "ABC", id="all skip"
        ),
    ],
)
def test_bind(answers, status, called):
    log, call = attempt(**{name: {"bind": answers.get(name)} for name in "ABC"})
    assert bind(call) == status
    after = UNRESERVED if status else [f"{name}.post_bind" for name in "ABC"]
    assert log == [*(f"{name}.bind" for name in called), *after]


def test_without_a_bind_plugin_it_is_skipped():
    assert bind(attempt()[1]) == ("Skip", "", "")


@pytest.mark.parametrize(("answer", "status"), failing("Bind", [misplaced("Bind", Code.Wait)]))
def test_a_failed_bind_is_not_left_to_the_next(answer, status):
    log, call = attempt(A={"bind": SKIP}, B={"bind": answer}, C={})
    assert bind(call) == status
    assert log == ["A.bind", "B.bind", *UNRESERVED]


def test_a_post_bind_that_raises_does_not_stop_the_others():
    log, call = attempt(A={"post_bind": OOPS}, B={})
    assert [in_short(text) for text in asyncio.run(run_post_bind(*call))] == ['running PostBind plugin "A": oops']
    assert log == ["A.post_bind", "B.post_bind"]


def test_other_malformed_answers_are_the_plugins_error():
    methods = ("reserve", "pre_bind_pre_flight", "pre_bind", "bind")
    _, call = attempt(A=dict.fromkeys(methods, True))
    answers = {
        "Reserve plugin": shown(binding.run_reserve(*call)),
        "PreBindPreFlight": shown(binding.run_pre_bind_pre_flights(*call)[0]),
        "PreBind plugin": pre_bind(call, ("A",)),
        "Bind plugin": bind(call),
    }
    wanted = {what: ("Error", "A", f'running {what} "A": want a Status or None, got True') for what in answers}
    wanted["PreBindPreFlight"] = (
        *wanted["PreBindPreFlight"][:2],
        'running PreBindPreFlight "A": want a PreBindPreFlightResult, a Status or None, got True',
    )
    assert answers == wanted


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        pytest.param(None, "want (a Status or None, seconds), got None", id="nothing"),
        pytest.param((None,), "want (a Status or None, seconds), got (None,)", id="no seconds"),
        pytest.param(("wait", 1), "want a Status or None, got 'wait'", id="a word"),
        pytest.param((Status("Wait"), 1), "want a Code as the code of a Status, got 'Wait'", id="the name of a code"),
        pytest.param((Status(Code.Wait), "1m"), "want a number of seconds beside Wait, got '1m'", id="a text"),
        pytest.param((Status(Code.Wait), float("nan")), "want a number of seconds beside Wait, got nan", id="NaN"),
    ],
)
def test_invalid_permit_answers(answer, wanted):
    _, call = attempt(A={"permit": None})
    call[0].permit[0].permit = lambda *args: answer
    status, timeouts = binding.run_permit(*call)
    assert (shown(status), timeouts) == (("Error", "A", f'running Permit plugin "A": {wanted}'), {})


def test_only_waiting_points_may_be_coroutines():
    _, call = attempt(A={"permit": None, "pre_bind": None})
    [plugin] = call[0].permit

    async def waits(*args):
        return None

    def pre_bind_at_once(*args):
        return None

    plugin.permit, plugin.pre_bind = waits, pre_bind_at_once
    status, _ = binding.run_permit(*call)
    assert in_short(status.message).endswith("got a coroutine: this method is not `async def`")
    text = "want pre_bind_at_once to be `async def` or a generator of steps, got None"
    assert in_short(pre_bind(call, ("A",))[2]).endswith(text)


def test_forgotten_async_is_the_plugins_error():
    class Forgetful(PreBindPlugin, BindPlugin, PostBindPlugin):
        name = "Forgetful"

        def pre_bind(self, state, pod, node_name):
            return None

        bind = post_bind = pre_bind

    call = an_attempt(framework_of(Forgetful))
    assert pre_bind(call, ("Forgetful",))[0] == "Error"
    assert bind(call)[0] == "Error"
    assert len(asyncio.run(run_post_bind(*call))) == 1


# -- all extension points of a pod -------------------------------------------------------------------------------------


def test_the_recording_plugin_covers_every_point():
    framework = framework_of(recorder("A", [], Recording))
    assert [point for point, names in framework.points.items() if not names] == [
        "placementGenerate",
        "placementScore",
        "podGroupPostFilter",
    ]
