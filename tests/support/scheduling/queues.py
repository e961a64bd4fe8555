"""A scheduling queue with a manual clock and plugins with scripted answers."""

from stowplan.kube.config.features import default_features
from stowplan.kube.kubernetes_versions import DEFAULT_VERSION
from stowplan.plugins import EnqueueExtensions
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.framework.events import Action, ClusterEvent, events_of_change
from stowplan.scheduler.queue.observer import QueueObserver
from stowplan.scheduler.queue.scheduling_queue import QueueSettings, SchedulingQueue
from support.observing.metrics import queue_metrics
from support.plugins.fake_plugins import fake, framework_of
from support.scheduling.worlds import struct

DEFAULT = "default-scheduler"


def plugin_waiting_for(name, *registered, **answers):
    """A plugin class that registers these events; a Filter plugin by default."""
    base = fake(name, **(answers or {"filter": None}))
    return type(name, (base, EnqueueExtensions), {"events_to_register": lambda self: list(registered)})


def event(resource, action=Action.Add):
    return ClusterEvent(resource, action)


class Observer(QueueObserver):
    """Records in a harness what happens in its queue."""

    def __init__(self, harness):
        self._room = harness

    def moved(self, queued, place, cause):
        self._room.moves.append((queued.pod.pod.metadata.name, place.name, cause))

    def woken(self, pods, event, changed):
        self._room.wakes.append(([queued.pod.pod.metadata.name for queued in pods], event.label, changed))

    def problem(self, text):
        self._room.problems.append(text)


class QueueHarness:
    """A queue and its surroundings: `profiles` maps names to plugin classes.

    `framework` makes the only profile from a cluster instead, such as `profiles.framework` with the in-tree plugins.
    """

    def __init__(
        self,
        *plugins,
        profiles=None,
        framework=None,
        sort=None,
        version=DEFAULT_VERSION,
        features=None,
        start=1000.0,
        groups=None,
        **settings,
    ):
        """`groups`: the PodGroups that exist, a set that may change; None: groups have no entries."""
        self.now = start
        self.state = ClusterState(emulated_version=version)
        self.moves, self.wakes, self.problems = [], [], []
        self.frameworks = {}
        for name, classes in (profiles or {DEFAULT: plugins}).items():
            built = framework(self.state) if framework else framework_of(self.state, *classes)
            self.frameworks[name] = _adjusted(built, sort, features or default_features(version))
        self.queue = SchedulingQueue(
            self.frameworks,
            self.state.nominator,
            self.state.pending,
            now=lambda: self.now,
            metrics=queue_metrics(),
            settings=QueueSettings(**settings),
            observer=Observer(self),
            emulated_version=version,
            root_of=None if groups is None else lambda group: group if group in groups else "",
        )

    # -- pods ---------------------------------------------------------------------------------------------------------

    def info(self, pod):
        return self.state.pod_info(struct(pod))

    def add(self, *pods):
        """Queue builders; returns the info of the last one."""
        for pod in pods:
            info = self.info(pod)
            self.state.pending.put(info)
            self.queue.add(info)
        return info

    def update(self, old, new):
        info = self.info(new)
        self.state.pending.put(info)
        self.queue.update(struct(old), info)
        return info

    def delete(self, pod):
        info = self.info(pod)
        self.state.pending.remove(info.key)
        self.queue.delete(info)
        return info

    # -- attempts -----------------------------------------------------------------------------------------------------

    def pop(self):
        """Name of the next pod; None if no pod is ready."""
        queued = self.queue.pop()
        return queued and queued.pod.pod.metadata.name

    def fail_attempt(self, queued, *rejected_by, pending=()):
        queued.unschedulable_plugins, queued.pending_plugins = set(rejected_by), set(pending)
        self.queue.add_unschedulable_if_not_present(queued)

    def add_rejected(self, pod, *plugins, pending=()):
        """Queue a pod, pop it and reject it; without plugins the attempt ends in an error."""
        self.add(pod)
        queued = self.queue.pop()
        assert queued.pod.pod.metadata.name == struct(pod).metadata.name, "another pod was popped first"
        self.fail_attempt(queued, *plugins, pending=pending)
        return queued

    def events(self, old, new):
        return events_of_change(struct(old), struct(new), self.state.emulated_version)

    def handle_event(self, what, old=None, new=None, **more):
        self.queue.move_all(what, struct(old), struct(new), **more)

    # -- time ---------------------------------------------------------------------------------------------------------

    def advance(self, seconds):
        """Advance time in one go, then flush."""
        self.now += seconds
        self.queue.flush()

    def advance_flushing(self, seconds):
        """Advance time as the scheduler's loop would: flush whenever something is due."""
        end = self.now + seconds
        while (due := self.queue.next_flush()) is not None and due <= end:
            assert due >= self.now, "flushing at the due time must clear it"
            self.now = max(due, self.now)
            self.queue.flush()
        self.now = end

    # -- views --------------------------------------------------------------------------------------------------------

    def place(self, name, namespace="default"):
        queued = self.queue.get(f"{namespace}/{name}")
        return queued and queued.place.name

    def gate_of(self, name):
        return self.queue.get(f"default/{name}").gating_plugin

    def take_moves(self):
        taken, self.moves[:] = list(self.moves), []
        return taken


def _adjusted(framework, sort, features):
    if sort is not None:
        framework.queue_sort = (sort(None, framework.handle),)
    if features is not None:
        framework.handle.features = features
    return framework
