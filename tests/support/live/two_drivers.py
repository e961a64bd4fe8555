"""One script run by both drivers: first by the live one, whose outside changes are recorded, then in simulated time.

The live driver runs on an embedded API, in virtual time; the simulated one has its own object store. Outside changes
are recorded with their time: created objects as the API server stored them, everything else as requested.

Where the drivers may differ, the order is fixed: each request has its own latencies in both directions, so no two
answers arrive at the same time, and plugins' coroutines ask the API server before they answer. All times are sums of
binary fractions, and so exact.
"""

import asyncio
import re
from collections import Counter
from random import Random
from zlib import crc32

from stowplan.drivers.virtual_time.latency import Latency
from stowplan.drivers.virtual_time.object_store import ObjectStore, runs
from stowplan.kube.api.api_errors import ApiError, Conflict, InternalError, ServiceUnavailable
from stowplan.kube.api.types import Namespace, Pod
from stowplan.kube.timing.times import ManualTime
from stowplan.scheduler.engine.effects import Wake
from stowplan.scheduler.framework.requests import Bind, Create, Delete, Patch, Read
from support.live.live_scheduler import live
from support.simulate.simulations import simulation

START = 1024.0
#: Turns of the event loop without a step of the engine after which nothing more happens at this time.
QUIET_TURNS = 20
#: Label of a pod -> the requests about it that are refused, as often as the label says.
REFUSED = {"refuse-bind": Bind, "refuse-patch": Patch, "refuse-delete": Delete}


class PermitDecision:
    """Allows or rejects a pod that waits on Permit."""

    def __init__(self, pod, plugin, *, allow):
        self.pod, self.plugin, self.allow = pod, plugin, allow

    def __repr__(self):
        return f"{'allow' if self.allow else 'reject'} {self.pod}"

    def apply(self, engine):
        waiting = next((one for one in engine.waiting_pods if one.pod.pod.metadata.name == self.pod), None)
        if waiting is None:
            return
        if self.allow:
            waiting.allow(self.plugin)
        else:
            waiting.reject(self.plugin, "not today")


# -- latencies and refusals --------------------------------------------------------------------------------------------


class Seconds:
    """Latencies of requests, each different; `scale` is a power of two."""

    def __init__(self, scale):
        self._scale = scale

    def there(self, kind, *about):
        return self._some("there", kind.__name__, *about)

    def back(self, kind, *about):
        return self._some("back", kind.__name__, *about)

    def _some(self, *what):
        return (1 + crc32(repr(what).encode()) % 2**18) / 2**26 * self._scale

    def latency(self):
        return Latency(
            requests=lambda request: self.there(type(request), *_about(request)),
            answers=lambda request: self.back(type(request), *_about(request)),
            deletions=_grace,
        )


def _about(request):
    return (request.name, request.subresource) if type(request) is Patch else (request.name,)


def _grace(pod):
    return float(pod.spec.termination_grace_period_seconds or 0)


class Refusals:
    """Refuses the scheduler's requests as often as a pod's labels say."""

    errors = (ServiceUnavailable, InternalError, Conflict)

    def __init__(self):
        self._wanted = {}
        self._seen = Counter()

    def learn(self, obj):
        for label, kind in REFUSED.items():
            if label in obj.metadata.labels:
                self._wanted[kind, obj.metadata.name] = int(obj.metadata.labels[label])

    def check(self, kind, name):
        self._seen[kind, name] += 1
        seen = self._seen[kind, name]
        if seen <= self._wanted.get((kind, name), 0):
            raise self.errors[(seen + len(name)) % 3](f"no {kind.__name__} of {name} this time")


# -- results -----------------------------------------------------------------------------------------------------------


class Run:
    """The result of a script on one driver."""

    def __init__(self):
        #: The state of pods after each action.
        self.snapshots = []
        #: The engine's effects, without wake-ups.
        self.effects = []
        #: Outside requests that were refused.
        self.refused = []
        self.steps = 0
        #: The engine's pending pods at the end; None before.
        self.queue = None

    def follows(self, effects, now):
        self.steps += 1
        if self.queue is None:
            self.effects += [_comparable(effect, now) for effect in effects if not isinstance(effect.action, Wake)]

    def look(self, pods):
        self.snapshots.append({pod.metadata.name: _pod_state(pod) for pod in pods})

    def end(self, engine):
        self.queue = {key: (queued.place.name, queued.attempts) for key, queued in _queued(engine)}


def _queued(engine):
    return ((key, engine.queue.get(key)) for key in sorted(engine.state.pending) if engine.queue.get(key) is not None)


def _comparable(effect, now):
    """An effect without its number and without versions of objects: each API server counts its own writes."""
    text = re.sub(r'"resourceVersion":"\d+",?|^{"number":\d+,', "", effect.encoded().decode())
    return f"{now - START:.9f} {text}"


def _pod_state(pod):
    """Its node, or why it is pending."""
    return (
        pod.metadata.uid,
        pod.spec.node_name,
        pod.status.nominated_node_name,
        bool(pod.metadata.deletion_timestamp),
        tuple(sorted(pod.metadata.labels.items())),
        tuple((one.type, one.status, one.reason, one.message) for one in pod.status.conditions),
    )


# -- live --------------------------------------------------------------------------------------------------------------


class DistantApi:
    """An `Api` whose requests take time on a test's clock; some of them are refused."""

    def __init__(self, outside, seconds):
        self._outside = outside
        self._seconds = seconds
        self.refusals = Refusals()

    def __getattr__(self, name):
        return getattr(self._outside.api, name)

    async def get(self, kind, name, *, namespace=""):
        return await self._request(Read, name, self._outside.api.get(kind, name, namespace=namespace))

    async def patch(self, kind, name, patch, *, lane="default", subresource="", **options):
        call = self._outside.api.patch(kind, name, patch, lane=lane, subresource=subresource, **options)
        return await (call if lane == "event" else self._request(Patch, name, call, subresource))

    async def bind(self, *, name, **options):
        await self._request(Bind, name, self._outside.api.bind(name=name, **options))

    async def delete(self, kind, name, **options):
        await self._request(Delete, name, self._outside.delete(kind, name, **options))

    async def _request(self, kind, name, call, *about):
        there, back = self._seconds.there(kind, name, *about), self._seconds.back(kind, name, *about)
        try:
            await self._outside.time.sleep(there)
            self.refusals.check(kind, name)
            answer = await call
        except ApiError:
            await self._outside.time.sleep(back)
            raise
        finally:
            call.close()
        await self._outside.time.sleep(back)
        return answer


class Outside:
    """Everything else that writes to the live cluster: users and kubelets."""

    def __init__(self, api, time):
        self.api = api
        self.time = time
        self._endings = {}

    async def do(self, request):
        """Carry a request out, and return it in the form in which it is to be repeated."""
        match request:
            case Create():
                return Create(obj=await self.api.create(request.obj))
            case Patch():
                await self.api.patch(
                    request.kind,
                    request.name,
                    request.body,
                    type_=request.type_,
                    namespace=request.namespace,
                    subresource=request.subresource,
                )
            case Delete():
                await self.delete(request.kind, request.name, namespace=request.namespace)
            case Bind():
                await self.api.bind(namespace=request.namespace, name=request.name, uid="", node=request.node)
        return request

    async def delete(self, kind, name, *, namespace="", **options):
        await self.api.delete(kind, name, namespace=namespace, **options)
        if kind is Pod:
            await self._end(name, namespace)

    async def _end(self, name, namespace):
        """Finish a deleted pod after its grace period, if it runs."""
        left = await self._left(name, namespace)
        if left is not None and runs(left) and left.metadata.uid not in self._endings:
            ending = asyncio.create_task(self._ends(left))
            self._endings[left.metadata.uid] = ending

    async def _ends(self, pod):
        await self.time.sleep(_grace(pod))
        metadata = pod.metadata
        left = await self._left(metadata.name, metadata.namespace)
        if left is not None and runs(left) and left.metadata.uid == metadata.uid:
            # Parity: a kubelet reports a deleted pod's containers as finished before the pod is removed.
            body = {"status": {"phase": "Failed"}}
            where = {"namespace": metadata.namespace}
            await self.api.patch(Pod, metadata.name, body, type_="merge", subresource="status", **where)
            await self.api.delete(Pod, metadata.name, grace_period_seconds=0, **where)

    async def _left(self, name, namespace):
        pods = (await self.api.list(Pod, namespace=namespace)).items
        return next((pod for pod in pods if pod.metadata.name == name), None)

    async def close(self):
        for ending in self._endings.values():
            ending.cancel()
        await asyncio.gather(*self._endings.values(), return_exceptions=True)


class _Recorder:
    """Records a run's steps, in place of the live scheduler's recorder."""

    def __init__(self, run):
        self._run = run

    def begin(self, config, **options):
        """No-op: the test builds the other driver's engine."""

    def step(self, engine, input_, now):
        effects = engine.step(input_, now)
        self._run.follows(effects, now)
        return effects


async def run_live(script, *, objects, plugins, config, scale, seed, rest):
    """`script`: pauses and the actions after each; `rest`: seconds at the end.

    Returns the run, and the outside changes with their times.
    """
    run, time, recorded = Run(), ManualTime(start=START), []
    parts = []

    def distant(api):
        outside = Outside(api, time)
        parts.extend((outside, DistantApi(outside, Seconds(scale))))
        return parts[1]

    # Validation happens in simulated time: the steps are the same.
    options = {"plugins": plugins, "config": config, "random": Random(seed), "validate": False}
    async with live(*objects, time=time, wrap=distant, recorder=_Recorder(run), **options) as cluster:
        outside, api = parts
        settle = _Settling(run, cluster)
        system = [Create(obj=one) for one in (await outside.api.list(Namespace)).items]
        for pause, what in script:
            await time.advance(pause, settle=settle)
            recorded.append((time.now, await _do(outside, api, cluster, what, run)))
            await settle()
            run.look((await outside.api.list(Pod)).items)
        await time.advance(rest, settle=settle)
        run.look((await outside.api.list(Pod)).items)
        run.end(cluster.scheduler.engine)
        await outside.close()
    return run, [*((0.0, one) for one in system), *recorded]


class _Settling:
    """Runs everything that belongs to the current time; requests may stay in progress."""

    def __init__(self, run, cluster):
        self._run = run
        self._cluster = cluster

    async def __call__(self):
        calm, steps = 0, self._run.steps
        while calm < QUIET_TURNS or self._cluster.scheduler.engine.wants_turn:
            await asyncio.sleep(0)
            calm = calm + 1 if steps == self._run.steps else 0
            steps = self._run.steps


async def _do(outside, api, cluster, what, run):
    if isinstance(what, PermitDecision):
        what.apply(cluster.scheduler.engine)
        return what
    if isinstance(what, Create):
        api.refusals.learn(what.obj)
    try:
        return await outside.do(what)
    except ApiError as error:
        run.refused.append((what, type(error).__name__))
        return what


# -- in simulated time -------------------------------------------------------------------------------------------------


class RefusingStore(ObjectStore):
    """Refuses some of the scheduler's requests."""

    def __init__(self):
        super().__init__()
        self.refusals = Refusals()
        self.is_outside = False

    def write(self, request, now):
        self._refuse(request)
        return super().write(request, now)

    def delete(self, request, now, grace=0.0):
        self._refuse(request)
        return super().delete(request, now, grace)

    def _refuse(self, request):
        if not self.is_outside:
            self.refusals.check(type(request), request.name)


def run_simulated(recorded, *, plugins, config, scale, seed, rest):
    run, store = Run(), RefusingStore()
    engine, time = simulation(
        *plugins, config=config, seed=seed, store=store, start=START, latency=Seconds(scale).latency()
    )
    step = engine.step

    def seen(input_, now):
        effects = step(input_, now)
        run.follows(effects, now)
        return effects

    engine.step = seen
    for at, what in recorded:
        time.advance(START + at - time.now)
        _repeat(time, engine, store, what, run)
        time.run(until=time.now)
        if not (isinstance(what, Create) and isinstance(what.obj, Namespace)):
            run.look(store.list(Pod))
    time.advance(rest)
    run.look(store.list(Pod))
    run.end(engine)
    return run


def _repeat(time, engine, store, what, run):
    if isinstance(what, PermitDecision):
        what.apply(engine)
        return
    if isinstance(what, Create):
        store.refusals.learn(what.obj)
    store.is_outside = True
    try:
        time.write(what)
    except ApiError as error:
        run.refused.append((what, type(error).__name__))
    finally:
        store.is_outside = False
