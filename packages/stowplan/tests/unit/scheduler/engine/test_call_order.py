"""The order in which a live scheduler calls its plugins: up to a binding, and when a point fails or rejects.

Two plugins that record their calls, A before B, are at every point of a profile; there are two nodes. Expectations
follow docs/reference/behaviour.md (The scheduling cycle) and docs/extend/plugins.md.
"""

import asyncio
from itertools import product

import pytest

from stowplan.plugins import EnqueueExtensions, SignPlugin
from stowplan.scheduler.framework.cycle_state import PODS_TO_ACTIVATE
from stowplan.scheduler.framework.interface import EXTENSION_POINTS, PreBindPreFlightResult
from stowplan.scheduler.framework.status import SKIP, SUCCESS, Code, Status, error, unresolvable, unschedulable
from stowplan.scheduler.queue.queued_pod import Place
from stowplan.testing import a_node, a_pod
from support.live.live_scheduler import live
from support.plugins.raised import in_short
from support.plugins.recording_plugins import Recording, recorder

OOPS = ValueError("oops")
PENDING, WAIT = Status(Code.Pending, ("later",)), Status(Code.Wait, ("for friends",))
NO, NEVER, BAD = unschedulable("no"), unresolvable("never"), error("bad")
#: Those that are not called for pods.
OTHERS = ("queueSort", "placementGenerate", "placementScore", "podGroupPostFilter")
MULTIPLE = [point for point in EXTENSION_POINTS if point not in OTHERS]


class Quiet(Recording, EnqueueExtensions):
    """Registers no events, so that only time requeues its pods."""

    def events_to_register(self):
        return ()

    def filter(self, state, pod, nodes):
        # A per-node Filter is not called once no node is left; a column-level one is always called for all nodes.
        return super().filter(state, pod, nodes) if nodes.candidates.any() else None

    def close(self):
        self.log.append(f"{self.name}.close")


def configuration(names=("A", "B"), sort="PrioritySort"):
    everywhere = {"enabled": [{"name": name} for name in names], "disabled": [{"name": "*"}]}
    points = dict.fromkeys(MULTIPLE, everywhere)
    points["queueSort"] = {"enabled": [{"name": sort}], "disabled": [{"name": "*"}]}
    points["multiPoint"] = {"disabled": [{"name": "*"}]}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": points}],
    }


def run(log, *nodes, a=None, b=None, **options):
    """A scheduler with A and B and these answers."""
    plugins = [recorder("A", log, Quiet, **(a or {})), recorder("B", log, Quiet, **(b or {}))]
    nodes = nodes or (a_node("n1").obj(), a_node("n2").obj())
    return live(*nodes, config=configuration(), plugins=plugins, **options)


def both(text):
    """`x y`: x of A and B, then y of A and B; `A.x` is a single call."""
    calls = []
    for word in text.split():
        calls += [word] if "." in word else [f"{name}.{word}" for name in "AB"]
    return calls


QUEUED = "pre_enqueue"
FILTERED = f"{QUEUED} pre_filter filter"
SCORED = f"{FILTERED} pre_score A.score B.score A.normalize B.normalize"
PERMITTED = f"{SCORED} reserve permit"
FLOWN = f"{PERMITTED} pre_bind_pre_flight"
PREBOUND = f"{FLOWN} pre_bind"
BOUND = f"{PREBOUND} A.bind post_bind"
UNDONE = "B.unreserve A.unreserve"


async def test_a_successful_attempt():
    log = []
    async with run(log) as cluster:
        await cluster.create(a_pod("p").obj())
        assert log == both(BOUND)
        assert cluster.place("p") is None
        assert cluster.scheduler.state.placed(cluster.pod("p")["metadata"]["uid"]).node_name in ("n1", "n2")
        assert [event["reason"] for event in cluster.events("p")] == ["Scheduled"]
        assert cluster.condition("p") is None
        log.clear()
    assert log == both("close"), "plugins are closed at shutdown"


# -- one point rejects ------------------------------------------------------------------------------------------------

NONE_FIT = "0/2 nodes are available:"
ON_ONE = "0/1 nodes are available:"
HELPED = "did not help, did not help"
FAILED_FILTER = f"{FILTERED} post_filter"


def case(id_, calls, place, reason, message, plugins="", *, a=None, b=None):
    """Answers of A and B; then expected calls, place in the queue, condition, and plugins whose events requeue the
    pod."""
    # A pod in backoff may be popped as soon as no other is there, so PreEnqueue runs before that.
    end = QUEUED if place is Place.ERROR_BACKOFF else ""
    return pytest.param(a or {}, b or {}, both(f"{calls} {end}"), place, reason, message, set(plugins), id=id_)


def unfit(id_, calls, message, plugins="A", **answers):
    return case(id_, calls, Place.UNSCHEDULABLE, "Unschedulable", message, plugins, **answers)


def failed(id_, calls, message, **answers):
    return case(id_, calls, Place.ERROR_BACKOFF, "SchedulerError", message, **answers)


def gated(id_, answer):
    return case(id_, "A.pre_enqueue", Place.UNSCHEDULABLE, None, None, "A", a={"pre_enqueue": answer})


ALL_OF_A = {"filter": "refuse all"}

PRE_ENQUEUE = [
    gated(name, answer)
    for name, answer in [
        ("PreEnqueue refuses", NO),
        ("PreEnqueue refuses for good", NEVER),
        ("PreEnqueue says Pending", PENDING),
        ("PreEnqueue says Skip", SKIP),
        ("PreEnqueue says Wait", WAIT),
        ("PreEnqueue fails", BAD),
        ("PreEnqueue raises", OOPS),
    ]
]
PRE_FILTER = [
    unfit("PreFilter refuses", f"{QUEUED} pre_filter post_filter", f"{NONE_FIT} no. {HELPED}", a={"pre_filter": NO}),
    unfit(
        "PreFilter of both refuses: the last one counts",
        f"{QUEUED} pre_filter post_filter",
        f"{NONE_FIT} me neither. {HELPED}",
        "B",
        a={"pre_filter": NO},
        b={"pre_filter": unschedulable("me neither")},
    ),
    unfit(
        "PreFilter refuses for good",
        f"{QUEUED} A.pre_filter post_filter",
        f"{NONE_FIT} never. {HELPED}",
        a={"pre_filter": NEVER},
    ),
    failed("PreFilter says Pending", f"{QUEUED} A.pre_filter", 'running PreFilter plugin "A": later',
           a={"pre_filter": PENDING}),
    failed("PreFilter says Wait", f"{QUEUED} A.pre_filter", 'running PreFilter plugin "A": for friends',
           a={"pre_filter": WAIT}),
    failed("PreFilter fails", f"{QUEUED} A.pre_filter", 'running PreFilter plugin "A": bad', a={"pre_filter": BAD}),
    failed("PreFilter raises", f"{QUEUED} pre_filter", 'running PreFilter plugin "B": oops', b={"pre_filter": OOPS}),
]  # fmt: skip
FILTER = [
    unfit("Filter refuses", f"{QUEUED} pre_filter A.filter post_filter", f"{NONE_FIT} 2 no. {HELPED}", a=ALL_OF_A),
    unfit("Filter of the last refuses", FAILED_FILTER, f"{NONE_FIT} 2 no. {HELPED}", "B", b=ALL_OF_A),
    failed("Filter fails", f"{QUEUED} pre_filter A.filter", 'running "A" filter plugin: bad', a={"filter": BAD}),
    failed("Filter raises", FILTERED, 'running "B" filter plugin: oops', b={"filter": OOPS}),
]
POST_FILTER = [
    unfit(
        f"PostFilter {what}",
        f"{QUEUED} pre_filter A.filter {calls}",
        f"{NONE_FIT} 2 no.{f' {text}' if text else ''}",
        a={**ALL_OF_A, "post_filter": answer},
    )
    for what, answer, calls, text in [
        ("helps", SUCCESS, "A.post_filter", ""),
        ("does not help", NO, "post_filter", "no, did not help"),
        ("says Pending", PENDING, "post_filter", "later, did not help"),
        ("ends it", NEVER, "A.post_filter", "never"),
        ("fails", BAD, "A.post_filter", "bad"),
        ("raises", OOPS, "A.post_filter", 'running PostFilter plugin "A": oops'),
    ]
]
SCORE = [
    failed(
        f"PreScore {what}",
        f"{FILTERED} A.pre_score",
        f'running PreScore plugin "A": {text}',
        a={"pre_score": answer},
    )
    for what, answer, text in [
        ("refuses", NO, "no"),
        ("says Pending", PENDING, "later"),
        ("says Wait", WAIT, "for friends"),
        ("fails", BAD, "bad"),
        ("raises", OOPS, "oops"),
    ]
] + [
    failed(
        "Score raises",
        f"{FILTERED} pre_score A.score",
        'running Score plugins: plugin "A" failed with: oops',
        a={"score": OOPS},
    ),
    failed(
        "Normalize raises",
        f"{FILTERED} pre_score A.score B.score A.normalize",
        'running Normalize on Score plugins: plugin "A" failed with: oops',
        a={"normalize": OOPS},
    ),
]
RESERVE = [
    unfit("Reserve refuses", f"{SCORED} A.reserve {UNDONE}", f"{ON_ONE} 1 no.", a={"reserve": NO}),
    unfit("Reserve of the last refuses", f"{SCORED} reserve {UNDONE}", f"{ON_ONE} 1 never.", "B", b={"reserve": NEVER}),
    unfit("Reserve says Pending", f"{SCORED} A.reserve {UNDONE}", f"{ON_ONE} 1 later.", a={"reserve": PENDING}),
    failed("Reserve says Skip", f"{SCORED} A.reserve {UNDONE}", 'running Reserve plugin "A": ', a={"reserve": SKIP}),
    failed("Reserve fails", f"{SCORED} A.reserve {UNDONE}", 'running Reserve plugin "A": bad', a={"reserve": BAD}),
    failed("Reserve raises", f"{SCORED} reserve {UNDONE}", 'running Reserve plugin "B": oops', b={"reserve": OOPS}),
]
PERMIT = [
    unfit("Permit refuses", f"{SCORED} reserve A.permit {UNDONE}", f"{ON_ONE} 1 no.", a={"permit": (NO, 0)}),
    unfit(
        "Permit of the last refuses, the first would wait",
        f"{PERMITTED} {UNDONE}",
        f"{ON_ONE} 1 never.",
        "B",
        a={"permit": (WAIT, 10)},
        b={"permit": (NEVER, 0)},
    ),
    unfit("Permit says Pending", f"{SCORED} reserve A.permit {UNDONE}", f"{ON_ONE} 1 later.",
          a={"permit": (PENDING, 0)}),
    failed("Permit says Skip", f"{SCORED} reserve A.permit {UNDONE}", 'running Permit plugin "A": ',
           a={"permit": (SKIP, 0)}),
    failed("Permit fails", f"{SCORED} reserve A.permit {UNDONE}", 'running Permit plugin "A": bad',
           a={"permit": (BAD, 0)}),
    failed("Permit raises", f"{PERMITTED} {UNDONE}", 'running Permit plugin "B": oops', b={"permit": OOPS}),
]  # fmt: skip
UNSUPPORTED = (
    'PreBindPreFlight A returned "Unschedulable", which is unsupported. '
    "It is supposed to return Success, Skip, or Error status"
)
ONE_FLOWN = f"{PERMITTED} A.pre_bind_pre_flight"
PRE_BIND = [
    failed("PreBindPreFlight refuses", f"{ONE_FLOWN} {UNDONE}", UNSUPPORTED, a={"pre_bind_pre_flight": NO}),
    failed("PreBindPreFlight fails", f"{ONE_FLOWN} {UNDONE}", 'running PreBindPreFlight "A": bad',
           a={"pre_bind_pre_flight": BAD}),
    failed("PreBindPreFlight raises", f"{FLOWN} {UNDONE}", 'running PreBindPreFlight "B": oops',
           b={"pre_bind_pre_flight": OOPS}),
    # From here on failures do not depend on events that arrive meanwhile: the pod is no longer in flight.
    case("PreBind refuses", f"{FLOWN} A.pre_bind {UNDONE}", Place.ERROR_BACKOFF, "Unschedulable", "no",
         a={"pre_bind": NO}),
    case("PreBind says Pending", f"{PREBOUND} {UNDONE}", Place.ERROR_BACKOFF, "Unschedulable", "later",
         b={"pre_bind": PENDING}),
    failed("PreBind says Skip", f"{FLOWN} A.pre_bind {UNDONE}", 'running PreBind plugin "A": ', a={"pre_bind": SKIP}),
    failed("PreBind fails", f"{FLOWN} A.pre_bind {UNDONE}", 'running PreBind plugin "A": bad', a={"pre_bind": BAD}),
    failed("PreBind raises", f"{PREBOUND} {UNDONE}", 'running PreBind plugin "B": oops', b={"pre_bind": OOPS}),
]  # fmt: skip
BIND = [
    case("Bind refuses", f"{PREBOUND} A.bind {UNDONE}", Place.ERROR_BACKOFF, "Unschedulable", "no", a={"bind": NO}),
    failed("Bind fails", f"{PREBOUND} A.bind {UNDONE}", 'running Bind plugin "A": bad', a={"bind": BAD}),
    failed("Bind raises", f"{PREBOUND} A.bind {UNDONE}", 'running Bind plugin "A": oops', a={"bind": OOPS}),
    failed("Bind of the second fails", f"{PREBOUND} bind {UNDONE}", 'running Bind plugin "B": bad',
           a={"bind": SKIP}, b={"bind": BAD}),
]  # fmt: skip
TABLE = [*PRE_ENQUEUE, *PRE_FILTER, *FILTER, *POST_FILTER, *SCORE, *RESERVE, *PERMIT, *PRE_BIND, *BIND]


@pytest.mark.parametrize(("a", "b", "calls", "place", "reason", "message", "plugins"), TABLE)
async def test_a_point_that_rejects_or_fails(a, b, calls, place, reason, message, plugins):
    log = []
    async with run(log, a=a, b=b) as cluster:
        await cluster.create(a_pod("p").obj())
        assert log == calls
        assert cluster.place("p") is place
        queued = cluster.scheduler.queue.get("default/p")
        assert queued.unschedulable_plugins == plugins
        condition = cluster.condition("p")
        assert (condition and condition["reason"], condition and in_short(condition["message"])) == (reason, message)
        assert [(e["reason"], in_short(e["note"])) for e in cluster.events("p")] == (
            [("FailedScheduling", message)] if reason else []
        )
        assert cluster.scheduler.state.placed(cluster.pod("p")["metadata"]["uid"]) is None, "everything is unreserved"
        assert len(cluster.scheduler.waiting_pods) == 0


# -- what Skip leaves out ---------------------------------------------------------------------------------------------

REST = "reserve permit pre_bind_pre_flight pre_bind A.bind post_bind"


@pytest.mark.parametrize(
    ("a", "b", "calls"),
    [
        pytest.param({"pre_filter": SKIP}, {}, f"{QUEUED} pre_filter B.filter {SCORED[len(FILTERED) :]} {REST}",
                     id="PreFilter: its Filter"),
        pytest.param({"pre_score": SKIP}, {}, f"{FILTERED} pre_score B.score B.normalize {REST}",
                     id="PreScore: its Score"),
        pytest.param({"pre_score": SKIP}, {"pre_score": SKIP}, f"{FILTERED} pre_score {REST}",
                     id="PreScore of both: all scores"),
        pytest.param({"pre_bind_pre_flight": SKIP}, {}, f"{FLOWN} B.pre_bind A.bind post_bind",
                     id="PreBindPreFlight: its PreBind"),
        pytest.param({"pre_bind_pre_flight": SKIP}, {"pre_bind_pre_flight": SKIP}, f"{FLOWN} A.bind post_bind",
                     id="PreBindPreFlight of both: PreBind"),
        pytest.param({"bind": SKIP}, {}, f"{PREBOUND} bind post_bind", id="Bind: the next binds"),
    ],
)  # fmt: skip
async def test_skip(a, b, calls):
    log = []
    async with run(log, a=a, b=b) as cluster:
        await cluster.create(a_pod("p").obj())
        assert log == both(calls)
        assert [event["reason"] for event in cluster.events("p")] == ["Scheduled"]


async def test_a_pod_that_every_bind_plugin_skips_fails_silently():
    log = []
    async with run(log, a={"bind": SKIP}, b={"bind": SKIP}) as cluster:
        await cluster.create(a_pod("p").obj())
        assert log == both(f"{PREBOUND} bind {UNDONE} {QUEUED}")
        assert cluster.place("p") is Place.ERROR_BACKOFF
        assert cluster.events("p") == []
        assert cluster.condition("p") is None


async def test_post_bind_is_called_for_all_plugins_despite_failures():
    log = []
    async with run(log, a={"post_bind": OOPS}) as cluster:
        await cluster.create(a_pod("p").obj())
        assert log == both(BOUND)
        assert [event["reason"] for event in cluster.events("p")] == ["Scheduled"]


# -- waiting on Permit -------------------------------------------------------------------------------------------------


async def waiting(cluster, log):
    await cluster.create(a_pod("p").obj())
    assert log == both(FLOWN), "all Permit plugins are asked, and PreBind what it will do"
    assert cluster.pod("p")["status"]["nominatedNodeName"] in ("n1", "n2")
    log.clear()
    return next(iter(cluster.scheduler.waiting_pods))


async def test_a_pod_waits_until_all_have_allowed_it():
    log = []
    async with run(log, a={"permit": (WAIT, 10)}, b={"permit": (WAIT, 20)}) as cluster:
        pod = await waiting(cluster, log)
        assert pod.pending_plugins == ("A", "B")
        pod.allow("A")
        await cluster.advance(15)
        assert log == []
        pod.allow("B")
        await cluster.settle()
        assert log == both("pre_bind A.bind post_bind")


@pytest.mark.parametrize(
    ("end", "calls", "place", "reason", "message", "plugins"),
    [
        pytest.param(
            lambda pod: pod.reject("B", "go away"),
            UNDONE,
            Place.UNSCHEDULABLE,
            "Unschedulable",
            f"{ON_ONE} 1 go away.",
            {"B"},
            id="rejected",
        ),
        pytest.param(
            lambda pod: pod.preempt("B", "make way"),
            f"{UNDONE} {QUEUED}",
            Place.ERROR_BACKOFF,
            "SchedulerError",
            "waiting on permit for pod: make way",
            set(),
            id="preempted",
        ),
    ],
)
async def test_a_wait_on_permit_that_is_ended_early(end, calls, place, reason, message, plugins):
    log = []
    async with run(log, a={"permit": (WAIT, 10)}) as cluster:
        assert end(await waiting(cluster, log))
        await cluster.settle()
        assert log == both(calls)
        assert cluster.place("p") is place
        assert cluster.scheduler.queue.get("default/p").unschedulable_plugins == plugins
        condition = cluster.condition("p")
        assert (condition["reason"], condition["message"]) == (reason, message)
        assert "nominatedNodeName" not in cluster.pod("p")["status"]


# -- PreBind in groups -------------------------------------------------------------------------------------------------


async def taking_a_while(plugin):
    await asyncio.sleep(0)
    plugin.log.append(f"{plugin.name}.done")


@pytest.mark.parametrize(
    ("a_parallel", "b_parallel"),
    [*product((True, False), repeat=2)],
    ids=lambda parallel: "beside" if parallel else "alone",
)
async def test_adjacent_plugins_that_allow_it_run_in_parallel(a_parallel, b_parallel):
    log = []
    answers = [
        {"pre_bind_pre_flight": PreBindPreFlightResult(allow_parallel=parallel), "pre_bind": taking_a_while}
        for parallel in (a_parallel, b_parallel)
    ]
    async with run(log, a=answers[0], b=answers[1]) as cluster:
        await cluster.create(a_pod("p").obj())
    found = [entry for entry in log if "pre_bind" in entry.split(".") or entry.endswith("done")]
    side_by_side = ["A.pre_bind", "B.pre_bind", "A.done", "B.done"]
    one_by_one = ["A.pre_bind", "A.done", "B.pre_bind", "B.done"]
    assert found == (side_by_side if a_parallel and b_parallel else one_by_one)


# -- around the attempts -----------------------------------------------------------------------------------------------


async def test_a_failed_attempt_is_tried_again_from_the_start():
    """PreEnqueue runs when the backoff starts, the rest when it is over."""
    log = []
    answers = {"reserve": BAD}
    async with run(log, a=answers) as cluster:
        await cluster.create(a_pod("p").obj())
        log.clear()
        cluster.scheduler.frameworks["default-scheduler"].plugins["A"].answers.clear()
        await cluster.advance(3)
        assert [entry for entry in log if "pre_enqueue" not in entry] == both(BOUND)[2:]


async def test_equal_pods_share_filter_and_score_but_not_later_points():
    """Filter and Score may be reused; points that reserve something are called for each pod."""
    log = []

    class Signing(Quiet, SignPlugin):
        def sign_pod(self, pod):
            self.log.append(f"{self.name}.sign_pod")
            return {}

    plugins = [recorder(name, log, Signing) for name in "AB"]
    async with live(a_node("n1").obj(), a_node("n2").obj(), config=configuration(), plugins=plugins) as cluster:
        for name in ("p", "q"):
            log.clear()
            await cluster.create(a_pod(name).obj())
            assert log[2:4] == both("sign_pod")
            assert log[-len(both(REST)) :] == both(REST)


async def test_pods_to_activate_are_tried_after_a_successful_cycle():
    log = []

    class Waking(Quiet):
        def pre_filter(self, state, pod, nodes):
            log.append(pod.pod.metadata.name)
            assert state.get(PODS_TO_ACTIVATE) is None or not len(state.pods_to_activate)
            if pod.pod.metadata.name == "second":
                state.pods_to_activate.add(self.handle.cluster.pod_info(pending[0]))
            return unschedulable("not yet") if log == ["first"] else None

    pending = []
    async with live(
        a_node("n1").obj(), a_node("n2").obj(), config=configuration(["A"]), plugins=[recorder("A", [], Waking)]
    ) as cluster:
        await cluster.create(a_pod("first").obj())
        pending.append(cluster.scheduler.state.pending.get("default/first").pod)
        assert cluster.place("first") is Place.UNSCHEDULABLE
        await cluster.create(a_pod("second").obj())
        assert log == ["first", "second", "first"]
