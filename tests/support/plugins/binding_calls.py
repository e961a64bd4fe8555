"""PreBind, Bind and PostBind of a profile's plugins as the engine calls them, without the rest of a binding cycle."""

import asyncio

from stowplan.scheduler.engine.binding_cycle import BindingCycle, BindingCycles, BindingStage
from stowplan.scheduler.engine.effects import Cancel, RunPlugin
from stowplan.scheduler.engine.schedule_one import Attempt, FailureHandler, Observers
from stowplan.scheduler.engine.statuses import PodStatuses
from stowplan.scheduler.framework.requests import Done
from stowplan.scheduler.framework.runtime.binding import call_plugin
from stowplan.scheduler.framework.status import error
from stowplan.scheduler.inspection.stories import NoStories
from stowplan.scheduler.queue.queued_pod import QueuedPod
from stowplan.scheduler.queue.scheduling_queue import SchedulingQueue
from support.observing.metrics import queue_metrics
from support.scheduling.engine_context import context


class _Outcome:
    """Follows a binding: `status` is the failure that ended it, None if none did."""

    def __init__(self):
        self.status = None

    def decided(self, decision):
        pass

    def bound(self, attempt):
        pass

    def failed(self, queued, failure):
        self.status = failure.status


class _BusyStatuses(PodStatuses):
    def __init__(self):
        pass

    def withdraw(self, uid, listener):
        return True


class _Calls(BindingCycles):
    """`problems` are the reports. PreBind is not followed by Bind; Bind is by PostBind, and a failure by Unreserve."""

    def __init__(self, framework, state, pod, node_name):
        self.problems = []
        cluster = framework.handle.cluster
        queue = SchedulingQueue({}, cluster.nominator, cluster.pending, now=lambda: 0.0, metrics=queue_metrics())
        made = context(
            state=cluster,
            queue=queue,
            stories=NoStories(),
            reports=self.problems,
            # A status patch is always in progress, so that Bind does not follow PreBind.
            statuses=_BusyStatuses(),
        )
        self.outcome = _Outcome()
        observers = Observers(listener=self.outcome)
        super().__init__(made, failures=FailureHandler(made, observers=observers), observers=observers)
        self.call = framework, state, pod, node_name
        attempt = Attempt(
            queued=QueuedPod(key=pod.key, pod=pod, timestamp=0.0),
            framework=framework,
            pod=pod,
            node_name=node_name,
            started=0.0,
            state=state,
        )
        self.binding = self.under_way[pod.uid] = BindingCycle(self, attempt)

    async def run(self):
        """Run the driver's part until nothing is in progress."""
        tasks = {}
        while True:
            self.context.outbox.finish()
            for effect in self.context.outbox.take():
                if isinstance(effect.action, RunPlugin):
                    tasks[effect.number] = asyncio.ensure_future(self._called(effect.action))
                elif isinstance(effect.action, Cancel):
                    tasks[effect.action.number].cancel(effect.action.why)
            if not tasks:
                return self.outcome.status
            await asyncio.wait(tasks.values(), return_when=asyncio.FIRST_COMPLETED)
            for number, task in list(tasks.items()):
                if task.done():
                    del tasks[number]
                    self.context.outbox.answered(number, Done(task.result()))

    async def _called(self, action):
        framework, state, pod, node_name = self.call
        try:
            cancelled = (asyncio.CancelledError,)
            return await call_plugin(framework, action.point, action.plugin, state, pod, node_name, cancelled=cancelled)
        except asyncio.CancelledError as stopped:
            return error(str(stopped))


async def run_pre_bind(framework, state, pod, node_name, groups):
    """Runs the plugins of each group in parallel, one group after the other; returns the failure."""
    calls = _Calls(framework, state, pod, node_name)
    calls.binding.groups = list(groups)
    calls.binding._pre_bind()
    return await calls.run()


async def run_bind(framework, state, pod, node_name):
    calls = _Calls(framework, state, pod, node_name)
    calls.binding._bind()
    return await calls.run()


async def run_post_bind(framework, state, pod, node_name):
    """Returns the reported problems."""
    calls = _Calls(framework, state, pod, node_name)
    calls.binding.stage = BindingStage.POST_BIND
    calls.binding.binders = iter([plugin.name for plugin in framework.post_bind])
    calls.binding._next_post_bind()
    await calls.run()
    return calls.problems
