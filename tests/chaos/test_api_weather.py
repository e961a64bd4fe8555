"""Random changes of a cluster under one kind of API fault at a time; afterwards nothing of the fault may remain.

Time is virtual and randomness is seeded, so failures are reproducible; STOWPLAN_EXAMPLES=20 tries twenty times as many
seeds of each fault. The engine is validated each second, as each validation reads the whole cluster. The scheduler's
inputs are recorded, and replayed at the end: the effects must be the same.
"""

from contextlib import asynccontextmanager
from datetime import datetime
from random import Random

import pytest

from stowplan.kube.timing.times import ManualTime
from stowplan.testing import a_node, a_pod
from support.api.faulty_api import yield_control
from support.chaos.checks import check_consistency, check_pending_pods_are_explained
from support.chaos.faults import NO_FAULTS, WRITES, FaultInjectingApi, Faults, refusing
from support.examples import SCALE
from support.live.live_scheduler import live
from support.live.recorded import Recorded
from support.scheduling.worlds import HOST, ZONE
from support.soak.changes import CONFIG, Changes, delaying_plugin, initial_objects
from support.soak.checks import Watcher

#: Seconds of each phase: normal, faulty, normal, faulty.
PHASES = (10, 30, 10, 30)
#: Rounds of the event loop after which everything that needs no time has happened, except for very large changes.
ROUNDS = 30
#: Longer than the unschedulable pods' timeout, which retries pods that no event woke.
UNTIL_ALL_ARE_TRIED_AGAIN = 400.0

GONE = refusing(1.0, "unreachable")
CUTS = ("unreachable", "lost", "500")

FAULTS = {
    "killed and restarted": Faults(refuses=GONE, cuts_every=60.0, cuts=("unreachable",)),
    "killed and restarted without its history": Faults(refuses=GONE, cuts_every=7.0, cuts=("410",)),
    "connections reset": Faults(
        refuses=refusing(0.2, "unreachable") | refusing(0.2, "unreachable", "lost", verbs=WRITES),
        loses=0.2,
        cuts_every=3.0,
        cuts=("unreachable",),
    ),
    "watches cut": Faults(refuses={}, cuts_every=1.0, cuts=CUTS),
    "watches cut and not to be had": Faults(
        refuses=refusing(0.5, "500", "429", verbs=["watch"]), cuts_every=2.0, cuts=CUTS
    ),
    "watches silent": Faults(refuses={}, silent=True, cuts_every=20.0, cuts=("silent",)),
    "watches forget": Faults(refuses=refusing(0.3, "410", verbs=["watch"]), cuts_every=2.0, cuts=("410",)),
    "binds answered 409": Faults(refuses=refusing(0.6, "409", verbs=["bind"])),
    "binds answered 404": Faults(refuses=refusing(0.6, "404", verbs=["bind"])),
    "binds answered 500": Faults(refuses=refusing(0.6, "500", verbs=["bind"])),
    "binds lost on their way": Faults(refuses=refusing(0.6, "lost", verbs=["bind"])),
    "binds lost after they took effect": Faults(refuses={}, loses=0.6, losing=("bind",)),
    "binds lost while watches are silent": Faults(
        refuses={}, loses=0.6, losing=("bind",), silent=True, cuts_every=20.0, cuts=("silent",)
    ),
    "slow": Faults(refuses={}, slow=2.0, cuts_every=15.0, cuts=("unreachable", "410")),
    "too many requests": Faults(refuses=refusing(0.8, "429"), cuts_every=5.0, cuts=("429",)),
    "no writing": Faults(refuses=refusing(1.0, "500", "unreachable", verbs=WRITES)),
    "nonsense in watches": Faults(refuses={}, cuts_every=1.0, cuts=("nonsense",)),
    "objects that cannot be read": Faults(refuses={}, unreadable=0.2, cuts_every=10.0, cuts=("410",)),
    "lists that fail half-way": Faults(
        refuses=refusing(0.3, "unreachable", "500", "410", verbs=["list"]), page=3, cuts_every=4.0, cuts=("410",)
    ),
    "clocks that jump": Faults(refuses={}, jumps=3600.0, cuts_every=5.0, cuts=("unreachable",)),
}


class JumpingTime(ManualTime):
    """The wall clock can be set; the monotonic clock only advances."""

    def jump(self, seconds):
        self._start += seconds


class Woken(Changes):
    """Changes after which the queueing hints wake all pods that might fit.

    Parity: they do not when a pod that blocks only by its nomination shrinks, when a node is added out of the reach of
    existing pods' anti-affinity, or when a namespace's labels change; pods that wait for that are retried after five
    minutes.
    """

    _constraints = (
        lambda self, pod: pod.spreads(ZONE, self._app(), max_skew=self.random.choice((1, 2))),
        lambda self, pod: pod.spreads(HOST, self._app(), when_unsatisfiable="ScheduleAnyway"),
        lambda self, pod: pod.requires_pods(ZONE, self._app()),
        lambda self, pod: pod.prefers_pods(50, ZONE, self._app()),
        lambda self, pod: pod.node_selector(disk="ssd"),
        lambda self, pod: pod.tolerates("dedicated", "x"),
        lambda self, pod: pod.host_port(self.random.choice((80, 443))),
    )

    def resize(self):
        pod = self.pick_pod(lambda pod: pod["spec"].get("nodeName"))
        if pod is None:
            return False
        container = pod["spec"]["containers"][0]
        cpu = self.random.choice(("50m", "100m", "500m", "1500m"))
        resources = {**container["resources"], "requests": {**container["resources"]["requests"], "cpu": cpu}}
        patch = {"spec": {"containers": [{**container, "resources": resources}]}}
        return self.patch_pod(pod, patch, subresource="resize")


class FaultyRun:
    def __init__(self, cluster, sky, random):
        self.cluster, self.sky, self.random = cluster, sky, random
        self.changes = Woken(cluster.api, random, cluster.scheduler.waiting_pods)
        self.watcher = Watcher(cluster.api, cluster.scheduler, sky)

    async def phase(self, seconds, faults):
        self.sky.faults = faults
        due = 0.0
        for second in range(seconds):
            if faults.cuts_every and second >= due:
                due += faults.cuts_every
                self._cut(faults)
            await self._second()
        # Events of the last changes arrive last.
        pod = a_pod(f"nowhere-{self.cluster.time.now:.0f}").requests(cpu="100m").node_selector(disk="none").obj()
        self.cluster.api.create("pods", pod)
        if faults.silent:
            # Clients that wait for a response time out.
            self._cut(faults)

    def _cut(self, faults):
        self.sky.cut(self.random.choice(faults.cuts))
        if faults.jumps:
            self.cluster.time.jump(self.random.choice((-1, 1)) * faults.jumps)

    async def _second(self):
        begin = self.cluster.time.now
        for moment in sorted(self.random.random() for _ in range(self.random.randrange(5))):
            await self._pass_until(begin + moment)
            self.changes.step()
            await yield_control(self.random.choice((0, 1, 2, 5)))
        await self._pass_until(begin + 1.0)
        self.changes.kubelets()
        self.cluster.scheduler.engine.validate()

    async def _pass_until(self, moment):
        while self.cluster.time.next_alarm(moment):
            await yield_control(ROUNDS)

    async def settle(self):
        """Victims terminate, waits on Permit end, backoffs pass."""
        self.sky.faults = NO_FAULTS
        self._touch_unread_objects()
        if not self.cluster.api.names("nodes"):
            # Parity: without any node, pods are tried again and again.
            self.changes.add_node()
        for _ in range(75):
            for waiting in self.cluster.scheduler.waiting_pods:
                waiting.allow("Delaying")
            self.changes.kubelets(at_once=True)
            await self._pass_until(self.cluster.time.now + 1.0)
        await self.cluster.advance(30)
        self.cluster.scheduler.engine.validate()

    def _touch_unread_objects(self):
        """A change sends an event again, which can be decoded now."""
        api = self.cluster.api
        for kind, namespace, name in sorted(self.sky.unread, key=str):
            resource = next(one for one in api.server.catalogue if one.kind == kind.__name__)
            if name in api.names(resource.storage, namespace):
                api.patch(resource.storage, namespace, name, {"metadata": {"annotations": {"chaos": "touched"}}})


@asynccontextmanager
async def faulty_run(seed):
    random, found, recorded = Random(seed), {}, Recorded()

    def wrap(api):
        found["sky"] = FaultInjectingApi(api, random, found["time"])
        return found["sky"]

    async def sleep(seconds):
        await found["time"].sleep(seconds)

    found["time"] = JumpingTime()
    plugin = delaying_plugin(sleep)
    options = {"config": CONFIG, "plugins": [plugin], "wrap": wrap, "recorder": recorded.recorder, "validate": False}
    # The engine has its own random source, so that a replay does not draw the faults again.
    async with live(*initial_objects(), time=found["time"], random=Random(seed), **options) as cluster:
        yield FaultyRun(cluster, found["sky"], random)
    recorded.check(plugin)


@pytest.mark.parametrize("seed", range(SCALE))
@pytest.mark.parametrize("trouble", FAULTS)
async def test_nothing_remains_of_api_faults(trouble, seed, caplog):
    faults = FAULTS[trouble]
    async with faulty_run(seed) as it:
        for seconds, now in zip(PHASES, (NO_FAULTS, faults, NO_FAULTS, faults), strict=True):
            await it.phase(seconds, now)
        await it.settle()
        api, scheduler = it.cluster.api, it.cluster.scheduler
        assert not [record for record in caplog.records if "stacktrace" in record.getMessage()], "no exception"
        check_consistency(api, scheduler, it.watcher)
        assert faults.slow or faults.jumps or sum(it.sky.fates.values()) > 5, "the fault was injected"
        assert it.watcher.bound
        await it.cluster.advance(UNTIL_ALL_ARE_TRIED_AGAIN)
        check_consistency(api, scheduler, it.watcher)
        assert check_pending_pods_are_explained(api, scheduler) > 0


@pytest.mark.parametrize("jump", [3600.0, -3600.0])
async def test_setting_the_wall_clock_changes_written_times_and_no_timers(jump):
    time = JumpingTime()
    async with live(a_node("small").allocatable(cpu="1", pods="10").obj(), time=time) as cluster:
        await cluster.create(a_pod("before").requests(cpu="2").obj())
        time.jump(jump)
        await cluster.create(a_pod("after").requests(cpu="2").obj())
        for name, then in (("before", time.wall_clock() - jump), ("after", time.wall_clock())):
            (event,) = cluster.events(name)
            assert _seconds(event["eventTime"]) == pytest.approx(then, abs=1)
            assert _seconds(cluster.condition(name)["lastTransitionTime"]) == pytest.approx(then, abs=1)
        await cluster.create(a_node("large").allocatable(cpu="4", pods="10").obj())
        await cluster.advance(2)
        assert [cluster.node_of(name) for name in ("before", "after")] == ["large", "large"]


def _seconds(text):
    return datetime.fromisoformat(text).timestamp()
