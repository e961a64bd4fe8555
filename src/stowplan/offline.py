"""A cluster from objects, to ask and to try things on: no API server, no clock, nothing in the background.

This is the public Python API. Objects are dicts as Kubernetes serialises them.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from stowplan.api import types as t
from stowplan.api.changes import Change
from stowplan.api.decode import DecodeError, UnknownKindError, decode_object, validate_object
from stowplan.api.documents import Documents
from stowplan.api.pod import FINISHED
from stowplan.cluster.objects import STORED
from stowplan.cluster.pod_info import group_key
from stowplan.cluster.pod_names import PodNames
from stowplan.config import Configuration, FeatureGates, load_config
from stowplan.config.features import GateError, with_chosen
from stowplan.engine.algorithm import Decision
from stowplan.engine.engine import Engine, EngineSettings
from stowplan.engine.inputs import Cancelled, Changes, Rejected, Started, Stopped
from stowplan.engine.watched_kinds import watched_kinds
from stowplan.explain.group_verdict import GroupVerdict
from stowplan.explain.judging import judged
from stowplan.explain.suggestions import advise
from stowplan.extenders.asking import asking, extenders_without_binders, posting_to
from stowplan.extenders.calls import Calls, kinds_wanted
from stowplan.framework.binding import run_unreserve
from stowplan.framework.events import Hint, events_of_change
from stowplan.framework.explanations.formatting import count
from stowplan.framework.registry import installed_plugins
from stowplan.guarding.guarded_plugins import guarded_registry
from stowplan.guarding.hang_guard import PLUGIN_TIMEOUT, CallGuard
from stowplan.klog import get_logger
from stowplan.loading.files import objects_of_files
from stowplan.simulate.driver import VirtualTime
from stowplan.simulate.state_store import StateStore
from stowplan.simulate.stopped_clock import StoppedClock
from stowplan.simulate.virtual_api import VirtualApi

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from typing import Self

    from stowplan.cluster.pod_info import PodInfo
    from stowplan.cluster.transaction import Transaction
    from stowplan.engine.attempt import Attempt, Failure
    from stowplan.engine.engine import Chance
    from stowplan.engine.watched_kinds import WatchedKind
    from stowplan.explain.verdict import Verdict
    from stowplan.extenders.calls import Call
    from stowplan.framework.cycle_state import CycleState
    from stowplan.framework.interface import Plugin
    from stowplan.framework.registry import Registry
    from stowplan.framework.requests import Ask, Outcome
    from stowplan.framework.runtime import Framework
    from stowplan.loading.live_cluster import LiveCluster
    from stowplan.queue.queued_pod import QueuedPod

_log = get_logger(__name__)

#: Kinds of manifests of which somebody might expect pods.
_WITHOUT_EFFECT = frozenset(("Deployment", "Job", "CronJob", "DaemonSet"))
#: How often a pod is tried at most: a plugin that words its refusal anew each time wakes its pod by that.
MAX_ATTEMPTS = 100
#: Why a binding that waits for time to pass fails here.
NO_TIME_PASSES = "no time passes in a Cluster, and PreBind waits for something that does not come without"

PodLike = "Mapping[str, Any] | str | t.Pod"


class ClusterError(ValueError):
    """An object or a name that makes no sense here; says which and why."""


class Cluster:
    """A cluster in memory with a scheduler for it."""

    def __init__(
        self,
        objects: Iterable[Mapping[str, Any] | msgspec.Struct] = (),
        config: Mapping[str, Any] | str | os.PathLike[str] | Configuration | None = None,
        *,
        plugins: Sequence[type[Plugin]] = (),
        random: Chance | None = None,
        reuse: bool = True,
        call_extender: Callable[[str, Mapping[str, Any]], Any] | None = None,
        feature_gates: Mapping[str, bool] | None = None,
        plugin_timeout: float = PLUGIN_TIMEOUT,
    ) -> None:
        """A cluster of `objects`, and a scheduler with a configuration and plugins.

        * `objects`: dicts as Kubernetes serialises them, Lists too; `from_files` and `from_kubeconfig` read them.
        * `config`: a KubeSchedulerConfiguration of any version, or a Policy, as a dict or the path of a file.
        * `plugins`: classes of your own; plugins of installed packages are known already.
        * `call_extender`: answers for the extenders of the configuration. It gets the URL of a call and its body, and
          returns the answer, both as JSON values. None: extenders are called over HTTP. They are never asked to bind.
        * `plugin_timeout`: seconds after which a call of a plugin that hangs is interrupted; 0: never.
        """
        #: Plugins that the caller has handed over.
        self.plugins = tuple(plugins)
        # A caller may hand over installed plugins too; each joins once.
        known = dict.fromkeys((*installed_plugins(), *plugins))
        guard = CallGuard(seconds=plugin_timeout)
        registry = guarded_registry(known, guard)
        #: What was skipped or made up when objects were read, for the user to know.
        self.notes: tuple[str, ...] = ()
        features = _features(config, feature_gates or {})
        self.config = _configuration(config, registry, features, [plugin.name for plugin in plugins])
        #: Objects as they came, as far as extenders get them.
        self.documents = Documents(kinds_wanted(self.config))
        post = post_to_extender if call_extender is None else posting_to(call_extender)
        self._ask = asking(Calls(self.config, self.documents), post)
        self._names = PodNames()
        self._reservations = _Reservations()
        self._scheduling = _Scheduling(self, self._names, self._reservations, guard)
        self.engine = Engine(
            self.config,
            registry=registry,
            now=0.0,
            meter=StoppedClock(),
            random=random,
            features=features,
            settings=EngineSettings(stories=False, events=False, rejections_are_errors=False, reuse=reuse),
            api=VirtualApi(),
            listener=self._scheduling,
            extenders=extenders_without_binders(self.config),
        )
        self._scheduling.begin(self.engine, self._ask)
        self.state = self.engine.state
        self.algorithm = self.engine.algorithm
        for obj in sorted((_decoded(obj) for obj in _flattened(objects)), key=_list_order):
            self.add(obj)
        self.state.transactions.register("pod names", self._names)
        self.state.transactions.register("reservations", self._reservations)

    # -- from elsewhere -----------------------------------------------------------------------------------------------

    @classmethod
    def from_files(cls, *paths: str | os.PathLike[str], recursive: bool = False, **options: Any) -> Self:
        """A cluster from files and folders: manifests, and what `kubectl get -o json` (or yaml) writes.

        Of a folder its own files are read; with `recursive` also those of the folders in it.

        Files are read as by `stowplan explain -f`: defaults are filled in as by an API server, and a workload without
        pods gets the pods that it asks for, pending. `notes` lists what was skipped. Other arguments are those of
        `Cluster`. Raise LoadError, which has a line with the place of each problem.
        """
        found = objects_of_files([os.fspath(path) for path in paths], recursive=recursive)
        cluster = cls(found.objects, **options)
        cluster.notes = found.notes
        return cluster

    @classmethod
    def from_kubeconfig(
        cls, kubeconfig: str | os.PathLike[str] | None = None, *, context: str | None = None, **options: Any
    ) -> Self:
        """A copy of a live cluster as it is now, found as kubectl finds it. The cluster is only read.

        `notes` lists what could not be read. Other arguments are those of `Cluster`. Raise LiveClusterError.
        """
        # What talks HTTP takes a while to import.
        from stowplan import __version__
        from stowplan.client.http.user_agent import user_agent
        from stowplan.loading.live_cluster import read_now

        cluster = cls((), **options)
        notes: list[str] = []
        read = read_now(
            cluster.kinds_read(report=notes.append),
            kubeconfig=None if kubeconfig is None else os.fspath(kubeconfig),
            context=context,
            agent=user_agent(command="stowplan", version=__version__, purpose="cluster"),
            documents=cluster.documents,
        )
        cluster.take_in(read)
        cluster.notes = (*notes, *read.notes)
        return cluster

    def kinds_read(self, *, report: Callable[[str], None]) -> Sequence[WatchedKind]:
        """The kinds of objects that this scheduler reads."""
        return watched_kinds(self.algorithm.frameworks.values(), report=report)

    def take_in(self, read: LiveCluster) -> None:
        """Take in what was read of a live cluster."""
        for obj in read.objects:
            self.add(obj)
        # As a live scheduler does: what cannot work here takes no part.
        idle = frozenset[str]().union(*(watched.needed_by for watched in read.unserved))
        for framework in self.algorithm.frameworks.values():
            framework.switch_off(idle)

    def __repr__(self) -> str:
        state = self.state
        placed = sum(1 for _ in state.placed_pods())
        nodes, pods = count(state.table.count, "node"), count(placed, "pod")
        return f"<Cluster: {nodes} with {pods}, {len(state.pending):,} pending>"

    # -- objects ------------------------------------------------------------------------------------------------------

    def add(self, obj: Mapping[str, Any] | msgspec.Struct | None) -> None:
        """Add an object, or update a known one. Kinds that the scheduler does not read are ignored."""
        found = None if obj is None else _decoded(obj)
        if isinstance(obj, Mapping) and found is not None:
            # What is passed on to extenders has all its fields.
            self.documents.keep(found, msgspec.json.encode(obj))
        if isinstance(found, t.Node):
            self.state.add_node(found)
        elif isinstance(found, t.Pod):
            self._add_pod(found)
        elif isinstance(found, STORED):
            self.state.put_object(found)

    def remove(self, obj: Mapping[str, Any] | msgspec.Struct) -> None:
        """Remove an object; no-op if unknown."""
        found = _decoded(obj)
        if isinstance(found, t.Node):
            self.state.remove_node(found.metadata.name)
        elif isinstance(found, t.Pod):
            self._remove_pod(self.state.pod_info(found))
        elif isinstance(found, STORED):
            self.state.remove_object(found)

    def _add_pod(self, pod: t.Pod) -> None:
        info = self.state.pod_info(pod)
        self._displace(info)
        if pod.status.phase in FINISHED:
            self._remove_pod(info)
            return
        self._names.put(info.key, info.uid)
        if pod.spec.node_name:
            self.state.add_pod(pod)
        else:
            self.state.remove_pod(info.uid)
            self.state.pending.put(info)
            self.state.nominator.add(info, pod.status.nominated_node_name)

    def _displace(self, info: PodInfo) -> None:
        """The same name, another pod: the old one is gone."""
        known = self._names.get(info.key)
        if known is not None and known != info.uid:
            self.state.remove_pod(known)
            self.state.nominator.delete(known)

    def _remove_pod(self, info: PodInfo) -> None:
        uid = self._names.remove(info.key)
        if uid is not None:
            self.state.remove_pod(uid)
            self.state.nominator.delete(uid)
        self.state.pending.remove(info.key)

    def pending(self) -> list[str]:
        """Keys (`namespace/name`) of the pods without a node, in the order in which they were added."""
        return list(self.state.pending)

    def pod(self, pod: Mapping[str, Any] | str | t.Pod) -> PodInfo:
        """Look up a pod by its object or by `namespace/name`."""
        if isinstance(pod, str):
            key = pod if "/" in pod else f"default/{pod}"
            found = self.state.placed(self._names.get(key) or "") or self.state.pending.get(key)
            if found is None:
                raise ClusterError(f'pod "{key}" not found')
            return found
        decoded = _decoded(pod)
        if not isinstance(decoded, t.Pod):
            raise ClusterError(f"want a Pod, got a {type(decoded).__name__}")
        info = self.state.pod_info(decoded)
        return self.state.placed(info.uid) or info

    # -- questions ----------------------------------------------------------------------------------------------------

    def explain(self, pod: Mapping[str, Any] | str | t.Pod, *, extenders: bool = True) -> Verdict:
        """Judge a pod on every node without changing anything. A placed pod is judged as if it were not placed.

        `extenders`: whether to call the extenders of the configuration for filtering and prioritizing.
        """
        info = self.pod(pod)
        self.framework_of(info)
        return advise(self.engine, judged(self.engine, info, ask=self._ask if extenders else None))

    def explain_group(self, group: str) -> GroupVerdict:
        """Judge a pod group, `namespace/name`, as a whole without changing anything.

        Needs `feature_gates` with GenericWorkload, and GangScheduling or TopologyAwareWorkloadScheduling for groups
        that use them. A group whose pods all have nodes is judged as if it were to be placed now.
        """
        key = group if "/" in group else f"default/{group}"
        if self.state.objects.get(t.PodGroup, key) is None and not self.state.pod_groups.known(key):
            raise ClusterError(f'pod group "{key}" not found, and no pod names it')
        with self.engine.asking_about_group(key) as question:
            return GroupVerdict(**vars(question.judgement()))

    def transaction(self) -> Transaction:
        """A context in which anything may be changed; leaving it undoes all changes that were not committed.

        with cluster.transaction():
            cluster.evict("shop/web-0")
            verdict = cluster.explain("shop/api-0")
        """
        return self.state.transaction()

    def framework_of(self, info: PodInfo) -> Framework:
        framework = self.engine.framework_for(info)
        if framework is None:
            name = info.pod.spec.scheduler_name
            raise ClusterError(f'pod "{info.key}": no profile for scheduler name "{name}" in the configuration')
        return framework

    def hints(
        self,
        old: Mapping[str, Any] | None,
        new: Mapping[str, Any] | None,
        pod: Mapping[str, Any] | str | t.Pod,
    ) -> dict[str, Any]:
        """The events that a change of an object causes, and each plugin's queueing hint for a pod."""
        before, after = (None if obj is None else _decoded(obj) for obj in (old, new))
        with self.transaction():
            # Made, as when a live scheduler judges it: hints look other objects up.
            if isinstance(after, STORED):
                self.add(after)
            elif after is None and isinstance(before, STORED):
                self.remove(before)
            return self._hints(before, after, self.pod(pod))

    def _hints(self, before: Any, after: Any, info: PodInfo) -> dict[str, Any]:
        events = events_of_change(before, after)
        hints: dict[str, str] = {}
        for name, registered in self.framework_of(info).registered_events(implied=False).items():
            for event in events:
                for listener in registered:
                    if listener.event.covers(event):
                        hint = _hint(listener, info, before, after)
                        # Several registrations may hear a change: one that says Queue is enough.
                        hints[name] = hint if hints.get(name) != Hint.QUEUE.value else Hint.QUEUE.value
        return {"events": sorted({event.label for event in events}), "hints": hints}

    # -- changes ------------------------------------------------------------------------------------------------------

    def place(self, pod: Mapping[str, Any] | str | t.Pod, node_name: str) -> None:
        """Put a pod without a node on a node, without asking any plugin."""
        info = self.pod(pod)
        if node_name not in self.state.table.row_of:
            raise ClusterError(f'pod "{info.key}" cannot be placed: node "{node_name}" not found')
        if info.node_name:
            raise ClusterError(f'pod "{info.key}" cannot be placed: it is on node "{info.node_name}"; evict it first')
        self._displace(info)
        self.state.assume(info, node_name)
        self._names.put(info.key, info.uid)
        self.state.pending.remove(info.key)

    def evict(self, pod: Mapping[str, Any] | str | t.Pod) -> None:
        """Remove a pod from its node and from the cluster. Nothing recreates it."""
        info = self.pod(pod)
        if not info.node_name:
            raise ClusterError(f'pod "{info.key}" cannot be evicted: it is on no node')
        self._remove_pod(info)

    def schedule(self, pods: Iterable[Mapping[str, Any] | str | t.Pod] | None = None) -> list[Decision]:
        """Place pods one after the other (None: all pending ones, in queue order); return the last decision about each.

        Runs the real queue, scheduling cycles and bindings until only time could help: victims of preemption leave and
        the preemptor follows, and a refused pod is tried again after an event that may help it. No time passes. A pod
        that still waits on Permit at the end is rejected as after a timeout, and nothing arrives that PreBind waits
        for; but claims are bound, and volumes provisioned for them, as soon as a pod has its node.
        """
        if pods is None:
            # Those of other schedulers are theirs to place.
            ours = [info for info in self.state.pending.values() if self.engine.framework_for(info) is not None]
            return self._scheduling.all_of(ours)
        return self._scheduling.in_order([self.pod(pod) for pod in pods])

    def displace(self, info: PodInfo) -> None:
        """The same name, another pod: the old one is gone."""
        self._displace(info)


class _Scheduling:
    """Has pods placed by the engine in a time that stands still."""

    def __init__(self, cluster: Cluster, names: PodNames, reservations: _Reservations, guard: CallGuard) -> None:
        self._cluster = cluster
        self._guard = guard
        self._names = names
        self._reservations = reservations
        #: UID -> what was decided last, in the order in which pods were tried first.
        self._decisions: dict[str, Decision] = {}
        self._attempts: dict[str, int] = {}

    def begin(self, engine: Engine, ask: Callable[[Ask], Outcome]) -> None:
        self._engine = engine
        self._store = StateStore(engine.state, self._names)
        self._time = VirtualTime(engine, self._store, ask=ask, binds_volumes_after=0.0, pauses=0.0)

    def in_order(self, infos: Sequence[PodInfo]) -> list[Decision]:
        """One after the other; pods of a group go together, when the first of them does."""
        if not self._engine.schedules_groups:
            return [self.one(info) for info in infos]
        together: dict[str, list[PodInfo]] = {}
        for info in infos:
            together.setdefault(_turn(info), []).append(info)
        found: dict[str, Decision] = {}
        for pods in together.values():
            free = [info for info in pods if not info.node_name]
            for info in free:
                self._cluster.framework_of(info)
                self._cluster.displace(info)
            found |= {info.uid: Decision(info, info.node_name) for info in pods if info.node_name}
            found |= {decision.pod.uid: decision for decision in self.all_of(free)} if free else {}
        return [found[info.uid] for info in infos]

    def one(self, info: PodInfo) -> Decision:
        if info.node_name:
            return Decision(info, info.node_name)
        self._cluster.framework_of(info)
        self._cluster.displace(info)
        return self.all_of([info])[0]

    def all_of(self, infos: Sequence[PodInfo]) -> list[Decision]:
        """Decisions of pods, in the order in which they were tried; at the end those that were not, being gated."""
        with self._guard.series():
            return self._all_of(infos)

    def _all_of(self, infos: Sequence[PodInfo]) -> list[Decision]:
        time, decisions = self._time, self._decisions
        time.submit(Changes(t.Pod, [Change(None, info.pod) for info in infos]))
        try:
            time.run()
            self._give_up_waiting()
            found = list(decisions.values())
            if len(found) < len(infos):
                found += [self._gated(info) for info in infos if info.uid not in decisions]
            return found
        finally:
            self._engine.queue.clear()
            self._store.forget()
            decisions.clear()
            self._attempts.clear()

    def _give_up_waiting(self) -> None:
        """End what only time could end. Nobody is tried after that: time would have passed."""
        time, waiting, preparing = self._time, self._engine.waiting_pods, self._engine.parts.pods_in_pre_bind.uids()
        if not len(waiting) and not preparing:
            return
        time.submit(Stopped())
        for pod in waiting:
            time.submit(Rejected(pod.uid, pod.timeout))
        for uid in preparing:
            time.submit(Cancelled(uid, NO_TIME_PASSES))
        time.run()
        time.submit(Started())

    def _gated(self, info: PodInfo) -> Decision:
        return Decision(info, status=self._cluster.framework_of(info).run_pre_enqueue(info))

    # -- what the engine tells ----------------------------------------------------------------------------------------

    def decided(self, decision: Decision) -> None:
        uid = decision.pod.uid
        self._decisions[uid] = decision
        self._attempts[uid] = attempts = self._attempts.get(uid, 0) + 1
        if attempts == MAX_ATTEMPTS:
            _log.error(None, "a pod is tried again and again, as if time passed; it is left", pod=decision.pod)
            self._time.at(self._time.now, Stopped())

    def failed(self, queued: QueuedPod, failure: Failure) -> None:
        known = self._decisions.get(queued.pod.uid)
        if known is not None and known.node_name:
            self._decisions[queued.pod.uid] = replace(known, node_name="", status=failure.status)

    def bound(self, attempt: Attempt) -> None:
        pod = attempt.pod
        self._names.put(pod.key, pod.uid)
        self._reservations.add(attempt.framework, attempt.state, pod)


def _features(config: object, gates: Mapping[str, bool]) -> FeatureGates:
    if gates and isinstance(config, Configuration):
        raise ClusterError("feature_gates: the Configuration was loaded with its own; load it with these")
    try:
        return with_chosen(gates)
    except GateError as e:
        raise ClusterError(f"feature_gates: {e}") from None


def _configuration(
    config: Mapping[str, Any] | str | os.PathLike[str] | Configuration | None,
    registry: Registry,
    features: FeatureGates,
    loaded: Collection[str],
) -> Configuration:
    if isinstance(config, Configuration):
        return config
    return load_config(config, plugins=registry.declarations, features=features, asked_for=loaded)


def _turn(info: PodInfo) -> str:
    """Pods that have it in common are placed together."""
    return info.uid if info.pod.spec.scheduling_group is None else f"group {group_key(info.pod)}"


def _flattened(objects: Iterable[Mapping[str, Any] | msgspec.Struct]) -> Iterator[Mapping[str, Any] | msgspec.Struct]:
    """Objects, those of Lists too."""
    if isinstance(objects, str | os.PathLike):
        raise ClusterError(f"want objects, got the path {os.fspath(objects)!r}: Cluster.from_files reads files")
    if isinstance(objects, Mapping):
        objects = (objects,)
    for obj in objects:
        if isinstance(obj, str | os.PathLike):
            raise ClusterError(f"want an object, got {os.fspath(obj)!r}: Cluster.from_files reads files")
        if not isinstance(obj, Mapping):
            yield obj
        elif str(obj.get("kind") or "").endswith("List") and isinstance(obj.get("items"), list | tuple):
            kind = str(obj["kind"]).removesuffix("List")
            about = {"apiVersion": obj.get("apiVersion"), "kind": kind} if kind else {}
            yield from _flattened({**about, **item} for item in obj["items"])
        else:
            _warn_of_templates(obj)
            yield obj


def _warn_of_templates(obj: Mapping[str, Any]) -> None:
    metadata = obj.get("metadata") or {}
    if obj.get("kind") in _WITHOUT_EFFECT and not metadata.get("uid"):
        name = f"{obj['kind']} {metadata.get('namespace') or 'default'}/{metadata.get('name')}"
        message = f"{name} has no effect in a Cluster: give its pods; Cluster.from_files makes those of a file"
        warnings.warn(message, stacklevel=5)


def post_to_extender(call: Call) -> tuple[int, bytes]:
    """Over HTTP, which takes a while to import."""
    from stowplan import __version__
    from stowplan.client.extender_http import post_blocking
    from stowplan.client.http.user_agent import user_agent

    return post_blocking(
        call.extender,
        call.url,
        call.body,
        longest=call.longest_answer,
        repeatable=True,
        agent=user_agent(command="stowplan", version=__version__, purpose="extender"),
    )


class _Reservations:
    """What plugins set aside inside transactions, as a participant: undoing it is Unreserve, last pod first."""

    def __init__(self) -> None:
        self._depth = 0
        self._made: list[tuple[Framework, CycleState, PodInfo, str]] = []

    def add(self, framework: Framework, state: CycleState, info: PodInfo) -> None:
        if self._depth:
            self._made.append((framework, state, info, info.node_name))

    def begin(self) -> int:
        self._depth += 1
        return len(self._made)

    def undo(self, mark: int) -> None:
        while len(self._made) > mark:
            _report(run_unreserve(*self._made.pop()))
        self.keep(mark)

    def keep(self, mark: int) -> None:
        self._depth -= 1
        if not self._depth:
            self._made.clear()

    def changed_nodes(self, mark: int) -> tuple[str, ...]:
        return ()

    def dump(self) -> None:
        """Nothing: no transaction is open in a dump."""

    def load(self, dumped: None) -> None:
        pass


def _report(problems: Iterable[str]) -> None:
    for problem in problems:
        _log.error(None, problem)


def _hint(listener: Any, info: PodInfo, old: Any, new: Any) -> str:
    if listener.hint is None:
        return Hint.QUEUE.value
    try:
        hint: Hint = listener.hint(info, old, new)
    except Exception:
        # What cannot be judged is worth a try.
        return "Error"
    return hint.value


def _list_order(obj: Any) -> tuple[str, str]:
    """Where an API server would list an object among its kind: by namespace, then name.

    The order in which a node's pods are listed decides between equally important victims.
    """
    return ("", "") if obj is None else (obj.metadata.namespace, obj.metadata.name)


def _decoded(obj: Mapping[str, Any] | msgspec.Struct) -> Any:
    if isinstance(obj, msgspec.Struct):
        return obj
    try:
        found = decode_object(obj)
        validate_object(found)
    except UnknownKindError:
        return None
    except DecodeError as e:
        metadata = obj.get("metadata") or {}
        name = "/".join(str(part) for part in (metadata.get("namespace"), metadata.get("name")) if part)
        raise ClusterError(f'{obj.get("kind", "object")} "{name}": {e}') from e
    return found
