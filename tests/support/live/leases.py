"""Contenders for a Lease with broken connections, diverging clocks and dying processes, in virtual time."""

import asyncio
from contextlib import asynccontextmanager
from random import Random

from stowplan.kube.api.api_errors import Conflict, InternalError
from stowplan.kube.api.port import Unreachable
from stowplan.kube.api.types import Lease
from stowplan.kube.config import LeaderElection
from stowplan.kube.timing.times import ManualTime, settle
from stowplan.net.client.client_errors import OutcomeUnknown
from stowplan.net.client.election.leader_election import LeaderElector, LeadershipLost
from stowplan_cluster.apiserver.embedded import EmbeddedApi
from support.api.embedded import Api as ApiInMemory

NAMESPACE, NAME = "kube-system", "kube-scheduler"
#: Longer than the request timeout, so that writes arrive after their sender has given up.
SLOWEST = 12.0
#: Clock drift, far more than that of real clocks.
MAX_DRIFT = 0.1


class Elections:
    """A Lease's API server and its contenders; only time makes progress."""

    def __init__(self, *, chance=0.5, config=None, drift=MAX_DRIFT):
        self.drift = drift
        self.time = ManualTime(chance)
        self.config = config or LeaderElection()
        self.server = ApiInMemory(clock=self.time.wall_clock)
        self.api = EmbeddedApi(self.server.server)
        self.tasks = []

    def elector(self, identity="me", *, api=None, times=None, **options):
        config = options.pop("config", self.config)
        return LeaderElector(api or self.api, config, identity=identity, times=times or self.time, **options)

    def start(self, coroutine):
        task = asyncio.create_task(coroutine)
        self.tasks.append(task)
        return task

    async def lead(self, elector):
        """Wait until it leads; then it renews for as long as the test runs."""
        await elector.acquire()
        task = self.start(elector.renew())
        await settle()
        return task

    @property
    def stored(self):
        return self.server.get("leases.coordination.k8s.io", NAMESPACE, NAME)

    @property
    def spec(self):
        return self.stored["spec"]

    async def lease(self):
        return await self.api.get(Lease, NAME, namespace=NAMESPACE)

    def put(self, **spec):
        """Another process writes the Lease without checking it."""
        name = "leases.coordination.k8s.io"
        if NAME not in self.server.names(name, NAMESPACE):
            return self.server.create(name, {"metadata": {"name": NAME, "namespace": NAMESPACE}, "spec": spec})
        return self.server.update(name, {**self.stored, "spec": spec})

    async def close(self):
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


@asynccontextmanager
async def elections(**options):
    world = Elections(**options)
    try:
        yield world
    finally:
        await world.close()


class ScriptedApi:
    """Answers as the next of `fates` for the verb says: "hang", "lost" (it took effect), or an exception; then
    normally."""

    def __init__(self, api, time):
        self._api = api
        self._time = time
        self.fates = {"get": [], "create": [], "update": []}
        #: (when, verb)
        self.asked = []

    async def get(self, *args, **options):
        return await self._request("get", lambda: self._api.get(*args, **options))

    async def create(self, *args, **options):
        return await self._request("create", lambda: self._api.create(*args, **options))

    async def update(self, *args, **options):
        return await self._request("update", lambda: self._api.update(*args, **options))

    async def _request(self, verb, call):
        self.asked.append((self._time.now, verb))
        fate = self.fates[verb].pop(0) if self.fates[verb] else ""
        if fate == "hang":
            await asyncio.Event().wait()
        if isinstance(fate, Exception):
            raise fate
        if isinstance(fate, float):
            await self._time.sleep(fate)
        answer = await call()
        if fate == "lost":
            raise OutcomeUnknown("the answer is lost")
        return answer


class Line:
    """A process' connection to the server, on which a share of the requests (`rate`) fails in every possible way."""

    def __init__(self, api, time, random):
        self._api = api
        self._time = time
        self._random = random
        self.rate = 0.0
        self.cut = False
        #: Requests in progress on the server's side, whether or not anybody waits for them.
        self.tasks = set()

    async def get(self, *args, **options):
        return await self._request(lambda: self._api.get(*args, **options))

    async def create(self, *args, **options):
        return await self._request(lambda: self._api.create(*args, **options))

    async def update(self, *args, **options):
        return await self._request(lambda: self._api.update(*args, **options))

    async def _request(self, call):
        if self.cut:
            raise Unreachable("the line is cut")
        if self._random.random() >= self.rate:
            return await call()
        fate = self._random.choice(("500", "conflict", "never arrives", "slow there", "slow back", "lost", "hangs"))
        if fate == "500":
            raise InternalError("the test says no")
        if fate == "conflict":
            raise Conflict("the test says conflict")
        if fate == "never arrives":
            raise OutcomeUnknown("the test lost the request")
        there = self._random.random() * SLOWEST if fate in ("slow there", "hangs") else 0.0
        served = self._serve(call, there)
        if fate == "hangs":
            await asyncio.Event().wait()
        answer = await asyncio.shield(served)
        if fate == "lost":
            raise OutcomeUnknown("the test lost the answer")
        if fate == "slow back":
            await self._time.sleep(self._random.random() * SLOWEST)
        return answer

    def _serve(self, call, seconds):
        """A request that was sent is carried out even if its sender dies."""

        async def serve():
            if seconds:
                await self._time.sleep(seconds)
            return await call()

        task = asyncio.ensure_future(serve())
        self.tasks.add(task)
        # Its outcome may be ignored.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return task


class WithWallClock:
    """Another clock's times, with its own wall clock."""

    def __init__(self, times, wall_clock):
        self.clock, self.sleep, self.random = times.clock, times.sleep, times.random
        self.wall_clock = wall_clock


class Contender:
    """A process that contends, and starts again when it has lost; it has its own clocks."""

    def __init__(self, world, number, random):
        self._world = world
        self._number = number
        self._random = random
        self._lives = 0
        self._rate = 1.0 + world.drift * (2 * random.random() - 1)
        self._offset = random.random() * 1e6
        #: Offset of its wall clock in seconds.
        self.wrong = 0.0
        #: Time until which its event loop hangs.
        self.hangs_until = 0.0
        self.line = Line(world.api, world.time, random)
        self.elector = None
        self.task = None
        self.run()

    @property
    def is_leader(self):
        return self.task is not None and self.elector.is_leader

    @property
    def alive(self):
        return self.task is not None

    def run(self):
        self._lives += 1
        identity = f"host-{self._number}_{self._lives}"
        self.elector = self._world.elector(identity, api=self.line, times=self)
        self.task = asyncio.create_task(self._contend(self.elector))

    async def die(self):
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)
            self.task = None

    async def end(self):
        """What SIGTERM does."""
        if self.task is not None:
            elector = self.elector
            await self.die()
            self._world.start(elector.release())

    async def _contend(self, elector):
        while True:
            await elector.acquire()
            try:
                await elector.renew()
            except LeadershipLost:
                self._lives += 1
                elector = self._world.elector(f"host-{self._number}_{self._lives}", api=self.line, times=self)
                self.elector = elector
                await self._world.time.sleep(1.0)

    # Its times

    def clock(self):
        return self._offset + self._world.time.now * self._rate

    def wall_clock(self):
        return self._world.time.wall_clock() + self.wrong

    async def sleep(self, seconds):
        time = self._world.time
        await time.sleep(seconds / self._rate)
        while time.now < self.hangs_until:
            await time.sleep(self.hangs_until - time.now)

    def random(self):
        return self._random.random()


class Contest:
    """Several contenders; every step checks that at most one of them leads."""

    def __init__(self, world, *, contenders, seed):
        self.world = world
        random = Random(seed)
        self.contenders = [Contender(world, number, Random(random.random())) for number in range(contenders)]
        #: (time, leader) of each change of the leader.
        self.reigns = []

    @property
    def leaders(self):
        return [one.elector._identity for one in self.contenders if one.is_leader]

    def check(self):
        leaders = self.leaders
        assert len(leaders) <= 1, f"at {self.world.time.now}: {leaders}"
        if leaders and (not self.reigns or self.reigns[-1][1] != leaders[0]):
            self.reigns.append((self.world.time.now, leaders[0]))

    async def pass_time(self, seconds):
        await self.world.time.advance(seconds, settle=self._settle)

    async def _settle(self):
        for _ in range(40):
            await asyncio.sleep(0)
            self.check()

    async def until_led(self, most):
        """Seconds until there is a leader."""
        since = self.world.time.now
        while not self.leaders:
            assert self.world.time.now - since <= most, f"no leader after {most} seconds"
            await self.pass_time(0.05)
        return self.world.time.now - since

    async def close(self):
        for one in self.contenders:
            await one.die()
            for task in one.line.tasks:
                task.cancel()
            await asyncio.gather(*one.line.tasks, return_exceptions=True)
