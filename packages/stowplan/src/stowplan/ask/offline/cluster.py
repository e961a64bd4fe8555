"""`Cluster`: a cluster in memory to query and experiment with; no API server, no clock, no background work.

This is the public Python API. Objects are dicts as Kubernetes serializes them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, Unpack

import msgspec

from stowplan.ask.explain.judging import judged, judged_group
from stowplan.ask.explain.suggestions.suggestions import advise
from stowplan.ask.explain.verdicts.group_verdict import GroupVerdict
from stowplan.ask.explain.verdicts.verdict import Verdict
from stowplan.ask.loading.admission import with_namespace
from stowplan.ask.loading.object_files import LoadedFiles, objects_of_files
from stowplan.ask.offline.arguments import (
    ClusterError,
    ClusterOptions,
    checked_gates,
    checked_plugins,
    configuration_of,
    custom_objects_of,
    custom_types,
    decoded,
    described,
    features_of,
    flattened,
    list_order,
    near_names,
    warn_of_workloads,
)
from stowplan.ask.offline.assumptions import Provision, assumed
from stowplan.ask.offline.cluster_tables import HeatMap, heat_map, node_rows, pod_rows
from stowplan.ask.offline.extender_calls import post_to_extender
from stowplan.ask.offline.scheduling import Scheduling, Stop, never
from stowplan.drivers.hang_guard.guarded_plugins import registry_with_installed
from stowplan.drivers.hang_guard.hang_guard import PLUGIN_TIMEOUT, CallGuard
from stowplan.drivers.virtual_time.volume_controllers import settled
from stowplan.kube.api import types as t
from stowplan.kube.api.documents import Documents
from stowplan.kube.api.pod import FINISHED
from stowplan.kube.claims.claim_terms import is_fully_bound
from stowplan.kube.config import Configuration
from stowplan.kube.klog import without_log
from stowplan.kube.kubernetes_versions import version_for
from stowplan.net.client.cluster_flags import ClusterFlags
from stowplan.scheduler.cluster.objects import STORED, key_of
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.cluster.pod_names import PodNames
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.cluster.transaction import Transaction
from stowplan.scheduler.engine.decision.decision import Decision
from stowplan.scheduler.engine.inputs import WallClock
from stowplan.scheduler.engine.watched_kind import WatchedKind
from stowplan.scheduler.engine.watched_kinds import watched_kinds
from stowplan.scheduler.extenders.calls import Calls, asking, kinds_wanted, posting_to
from stowplan.scheduler.framework.boundary import call, nothing
from stowplan.scheduler.framework.declarations import FeasibleSets, Plugin
from stowplan.scheduler.framework.events import TARGET_POD, ClusterEvent, Hint, events_of_change
from stowplan.scheduler.framework.explanations.formatting import count
from stowplan.scheduler.framework.handle import Random
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.in_tree.common.pod_hints import same_pod
from stowplan.scheduler.inspection.frames import to_frame

if TYPE_CHECKING:
    from stowplan.ask.loading.live_cluster import LiveCluster


def _unreported(problem: str) -> None:
    """For registrations of unknown kinds, which a live scheduler reports."""


class Cluster:
    """A cluster in memory with a scheduler for it.

    Pods are named `namespace/name`; the namespace defaults to `default`. `stowplan.ask.what_if` answers how many pods
    fit, and what a drain or the loss of a zone would do.

    Examples:
        >>> Cluster.from_files("shop/cluster.yaml")  # or from_kubeconfig(), or objects as dicts
        <Cluster: 9 nodes with 29 pods, 1 pending>
    """

    def __init__(
        self,
        objects: Iterable[Mapping[str, Any] | msgspec.Struct] = (),
        config: Mapping[str, Any] | str | os.PathLike[str] | Configuration | None = None,
        *,
        plugins: Sequence[type[Plugin]] = (),
        random: Random | None = None,
        reuse: bool = True,
        call_extender: Callable[[str, Mapping[str, Any]], Any] | None = None,
        feature_gates: Mapping[str, bool] | None = None,
        emulated_version: str | None = None,
        plugin_timeout: float = PLUGIN_TIMEOUT,
        now: float = 0.0,
    ) -> None:
        """Create a cluster of `objects`, with a scheduler for the given configuration and plugins.

        * `objects`: dicts as Kubernetes serializes them, including Lists; see also `from_files` and `from_kubeconfig`.
        * `config`: a KubeSchedulerConfiguration of any version, or a Policy, as a dict or a file path.
        * `plugins`: your own plugin classes. Plugins of installed packages are always available.
        * `call_extender`: answers for the extenders of the configuration. It gets the URL and the body of a call and
          returns the response body, both as JSON values. None: extenders are called over HTTP. They are never asked to
          bind.
        * `feature_gates`: gates that differ from their defaults, by name.
        * `emulated_version`: the version of kube-scheduler to decide as, such as "1.36"; None: that of the dump or of
          the live cluster, otherwise the default.
        * `random`: chooses among nodes with equal scores; None: the first one is taken.
        * `reuse`: whether equal pods share results; the decisions are the same without.
        * `now`: what the clock shows that plugins read, in seconds since the epoch. It stands still.
        * `plugin_timeout`: seconds after which a plugin call is interrupted; 0: never.

        Objects are decoded, but not validated as by an API server; `from_files` validates manifests. As with files,
        volumes without a phase become available; `bind_claims` binds claims that do not wait for a pod.

        Examples:
            >>> Cluster([a_node("n1").obj(), a_pod("web-0").obj()], feature_gates={"GenericWorkload": True})
            <Cluster: 1 node with 0 pods, 1 pending>
        """
        #: Plugins passed by the caller.
        self.plugins = checked_plugins(plugins)
        feature_gates = checked_gates(feature_gates)
        self._options = ClusterOptions(
            plugins=self.plugins,
            random=random,
            reuse=reuse,
            call_extender=call_extender,
            feature_gates=feature_gates,
            emulated_version=emulated_version,
            plugin_timeout=plugin_timeout,
            now=now,
        )
        guard = CallGuard(seconds=plugin_timeout)
        registry = registry_with_installed(self.plugins, guard)
        #: Notes for the user about what was skipped or added when objects were read.
        self.notes: tuple[str, ...] = ()
        features = features_of(config, feature_gates, emulated_version)
        with without_log():
            self.config = configuration_of(config, registry, features, [plugin.name for plugin in self.plugins])
        #: The original objects, as far as extenders get them.
        self.documents = Documents(kinds_wanted(self.config))
        post = post_to_extender if call_extender is None else posting_to(call_extender)
        self._ask = asking(Calls(self.config, self.documents), post)
        self._names = PodNames()
        self._scheduling = Scheduling(
            self.config,
            registry=registry,
            features=features,
            random=random,
            reuse=reuse,
            names=self._names,
            guard=guard,
            ask=self._ask,
        )
        self.engine = self._scheduling.engine
        self.now = now
        self.state = self.engine.state
        self.algorithm = self.engine.algorithm
        self._custom = custom_types(watched.kind for watched in self.kinds_read(report=_unreported))
        given = list(flattened(objects))
        warn_of_workloads(given, stacklevel=2)
        for obj in sorted((decoded(obj, self._custom) for obj in given), key=list_order):
            self.add(obj)
        # Volumes without a phase become available; claims stay as they are.
        self.bind_claims([])

    # -- constructors --------------------------------------------------------------------------------------------------

    @classmethod
    def from_files(
        cls, *paths: str | os.PathLike[str], recursive: bool = False, **options: Unpack[ClusterOptions]
    ) -> Self:
        """Create a cluster from files and directories: manifests, or the output of `kubectl get -o json` (or yaml).

        Directories are only read recursively with `recursive`.

        Files are read like those of `stowplan explain -f`: defaults are set as by an API server, and a workload without
        pods gets its pods, pending. `notes` lists what was skipped. Other arguments are those of `Cluster`. Raises
        LoadError, with one line per problem and its location.

        Examples:
            >>> Cluster.from_files("shop/cluster.yaml", "shop/new-service.yaml").notes
            ('Deployment shop/search has no pods yet; using its template: 6 pods (shop/search-0…)',)
        """
        if not paths or not all(isinstance(path, str | os.PathLike) for path in paths):
            given = next((repr(path) for path in paths if not isinstance(path, str | os.PathLike)), "nothing")
            raise ClusterError(f'from_files: want paths, got {given}: from_files("nodes.yaml", "pods.yaml")')
        return cls.of_loaded_files(
            objects_of_files([os.fspath(path) for path in paths], recursive=recursive), **options
        )

    @classmethod
    def of_loaded_files(cls, found: LoadedFiles, **options: Unpack[ClusterOptions]) -> Self:
        """Create a cluster from what was read from files; new claims are bound as controllers would."""
        version, note = version_for(found.version)
        if options.get("emulated_version") is None:
            options["emulated_version"] = str(version)
        else:
            note = ""
        cluster = cls(found.objects, **options)
        custom, notes = custom_objects_of(found, cluster._custom)
        for obj in custom:
            cluster.add(obj)
        claims = (one for one in found.objects if isinstance(one, t.PersistentVolumeClaim))
        new = [key_of(one.metadata) for one in claims if not one.metadata.resource_version]
        provisions = {
            Provision.of(volume.spec.storage_class_name, volume.spec.csi.driver, volume)
            for volume in cluster.bind_claims(new)
            if volume.spec.csi is not None
        }
        cluster.notes = (*([note] if note else ()), *notes, *assumed(provisions))
        return cluster

    @classmethod
    def from_kubeconfig(
        cls,
        kubeconfig: str | os.PathLike[str] | None = None,
        *,
        context: str | None = None,
        **options: Unpack[ClusterOptions],
    ) -> Self:
        """Copy the current state of a live cluster, selected as kubectl does. The cluster is only read.

        `notes` lists what could not be read. Other arguments are those of `Cluster`. Raises LiveClusterError.

        Examples:
            >>> Cluster.from_kubeconfig("admin.conf", context="staging").pending()  # doctest: +SKIP
            ['shop/web-0']
        """
        # The HTTP client is slow to import.
        from stowplan import __version__
        from stowplan.ask.loading.live_cluster import read_now, version_now
        from stowplan.net.client.http.user_agent import user_agent

        live = ClusterFlags(kubeconfig=None if kubeconfig is None else os.fspath(kubeconfig), context=context)
        agent = user_agent(command="stowplan", version=__version__, purpose="cluster")
        notes: list[str] = []
        if options.get("emulated_version") is None:
            version, note = version_now(live, agent=agent)
            options["emulated_version"] = str(version)
            notes += [note] if note else []
        cluster = cls((), **options)
        read = read_now(cluster.kinds_read(report=notes.append), live, agent=agent, documents=cluster.documents)
        cluster.take_in(read)
        cluster.notes = (*notes, *read.notes)
        return cluster

    def reconfigured(self, config: Mapping[str, Any] | str | os.PathLike[str] | Configuration) -> Cluster:
        """A copy of it with a scheduler of another configuration; a Configuration brings its own feature gates."""
        options = self._options.copy()
        options["config"] = config
        if isinstance(config, Configuration):
            options["feature_gates"] = None
        copy = Cluster.of_state(self.state, **options)
        copy._scheduling.attempts.failures = self._scheduling.attempts.failures
        return copy

    @classmethod
    def of_state(cls, state: ClusterState, **options: Unpack[ClusterOptions]) -> Self:
        """A copy of what a scheduler knows, in the same order."""
        copy = cls((), **options)
        regrouped = copy.state.declared_groups.kinds != state.declared_groups.kinds
        for obj in state.everything() if regrouped else state.all_but_pods():
            copy.add(obj)
        if regrouped:
            copy.bind_claims([])
            return copy
        for info in copy.state.place_copies(state):
            copy._names.put(info.key, info.uid)
        for info in state.pending.values():
            copy.add(info.pod)
        copy.bind_claims([])
        return copy

    @property
    def now(self) -> float:
        """What the clock shows that plugins read, in seconds since the epoch; it stands still until it is set."""
        return self._now

    @now.setter
    def now(self, seconds: float) -> None:
        self._now = seconds
        self.engine.step(WallClock(seconds), 0.0)

    @property
    def failures(self) -> tuple[str, ...]:
        """Why attempts failed for which not the cluster, but a plugin or an extender is to blame; different ones.

        Also those of the copies with other configurations.
        """
        return tuple(self._scheduling.attempts.failures)

    def forget_failures(self) -> None:
        """Begin again with none, for whoever asks more than one question."""
        self._scheduling.attempts.failures.clear()

    def kinds_read(self, *, report: Callable[[str], None]) -> Sequence[WatchedKind]:
        """The kinds of objects that this scheduler reads."""
        return watched_kinds(self.algorithm.frameworks.values(), report=report)

    def take_in(self, read: LiveCluster) -> None:
        """Add everything that was read from a live cluster."""
        for obj in read.objects:
            self.add(obj)
        # Like a live scheduler: disable plugins whose kinds are not served.
        idle = frozenset[str]().union(*(watched.needed_by for watched in read.unserved))
        for framework in self.algorithm.frameworks.values():
            framework.switch_off(idle)

    def __repr__(self) -> str:
        state = self.state
        placed = sum(1 for _ in state.placed_pods())
        nodes, pods = count(state.table.count, "node"), count(placed, "pod")
        return f"<Cluster: {nodes} with {pods}, {len(state.pending):,} pending>"

    # -- tables and pictures -------------------------------------------------------------------------------------------

    def nodes_frame(self) -> Any:
        """The nodes as a pandas or polars DataFrame: what each has, what is requested and free, taints and labels.

        CPU is in millicores, memory in bytes, as in all columns of resources.

        Examples:
            >>> cluster.nodes_frame()[["node", "nvidia.com/gpu.free"]]  # doctest: +SKIP
                 node  nvidia.com/gpu.free
            0  gpu-a1                    1
        """
        return to_frame(node_rows(self.state))

    def pods_frame(self) -> Any:
        """The pods as a pandas or polars DataFrame, with a column per requested resource and label.

        Examples:
            >>> cluster.pods_frame().groupby("workload")["requests.cpu"].sum()  # doctest: +SKIP
        """
        return to_frame(pod_rows(self.state))

    def heatmap(self, resource: str = "cpu", by: str | None = None) -> HeatMap:
        """The nodes by how much of a resource is requested; a picture in notebooks.

        `by`: the label of nodes that groups them, "" for none; by default the zone, if nodes have one.

        Examples:
            >>> cluster.heatmap("nvidia.com/gpu", by="")
            <HeatMap: 2 of 4 nvidia.com/gpu free, 7 nodes without any>
        """
        if resource not in (known := self.state.table.resources):
            raise ClusterError(f"heatmap: no node has {resource!r}; nodes have {', '.join(known)}")
        return heat_map(self.state, resource, by)

    # -- objects ------------------------------------------------------------------------------------------------------

    def add(self, obj: Mapping[str, Any] | msgspec.Struct | None) -> None:
        """Add an object, or update a known one. Kinds that the scheduler does not read are ignored.

        Examples:
            >>> cluster.add(a_pod("web-9", "shop").requests(cpu="1").obj())
            >>> cluster.pending()
            ['ml/notebook', 'shop/web-9']
        """
        found = None if obj is None else decoded(obj, self._custom)
        if isinstance(obj, Mapping) and found is not None:
            # Extenders get objects with all fields.
            self.documents.keep(found, msgspec.json.encode(obj))
        if isinstance(found, t.Node):
            self.state.add_node(found)
        elif isinstance(found, t.Pod):
            self._add_pod(self.state.declared_groups.pod(found))
        elif isinstance(found, STORED):
            self._change(None, with_namespace(found))

    def remove(self, obj: Mapping[str, Any] | msgspec.Struct) -> None:
        """Remove an object; no-op if unknown.

        Examples:
            >>> cluster.remove(a_node("node-c3").obj())
            >>> cluster
            <Cluster: 8 nodes with 29 pods, 1 pending>
        """
        found = decoded(obj, self._custom)
        if isinstance(found, t.Node):
            self.state.remove_node(found.metadata.name)
        elif isinstance(found, t.Pod):
            self._remove_pod(self.state.pod_info(self.state.declared_groups.pod(found)))
        elif isinstance(found, STORED):
            self._change(with_namespace(found), None)

    def _change(self, old: Any, new: Any) -> None:
        """Add or remove a lookup object, and the PodGroup that it is, too."""
        if new is None:
            self.state.remove_object(old)
        else:
            self.state.put_object(new)
        before, after = self.state.declared_groups.changed_with(old, new)
        if before is not after:
            self._change(before, after)

    def _add_pod(self, pod: t.Pod) -> None:
        info = self.state.pod_info(pod)
        self._scheduling.displace(info)
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
        self.state.follow_priority(pod, has_left=False)

    def _remove_pod(self, info: PodInfo) -> None:
        uid = self._names.remove(info.key)
        if uid is not None:
            self.state.remove_pod(uid)
            self.state.nominator.delete(uid)
        self.state.pending.remove(info.key)
        self.state.follow_priority(info.pod, has_left=True)

    def pending(self) -> list[str]:
        """Keys (`namespace/name`) of the pods without a node, in the order in which they were added.

        Examples:
            >>> cluster.pending()
            ['ml/notebook']
        """
        return list(self.state.pending)

    def pod(self, pod: Mapping[str, Any] | str | t.Pod) -> PodInfo:
        """Look up a pod by its object or by `namespace/name`.

        Examples:
            >>> cluster.pod("shop/db-0").node_name
            'node-a1'
        """
        if isinstance(pod, str):
            key = pod if "/" in pod else f"default/{pod}"
            known = self.state.placed(self._names.get(key) or "") or self.state.pending.get(key)
            if known is None:
                near = near_names(key, [*self.pending(), *(info.key for info in self.state.placed_pods())])
                raise ClusterError(f'pod "{key}" not found{near}')
            return known
        found = pod if isinstance(pod, t.Pod) or not isinstance(pod, Mapping) else decoded(pod)
        if not isinstance(found, t.Pod):
            kind = pod.get("kind") if isinstance(pod, Mapping) else type(pod).__name__
            got = f"a {kind}" if isinstance(pod, Mapping | msgspec.Struct) else described(pod)
            raise ClusterError(f"want a pod (an object, or its namespace/name), got {got}")
        info = self.state.pod_info(self.state.declared_groups.pod(found))
        return self.state.placed(info.uid) or info

    # -- questions -----------------------------------------------------------------------------------------------------

    def explain(self, pod: Mapping[str, Any] | str | t.Pod, *, extenders: bool = True) -> Verdict:
        """Judge a pod on every node without side effects. A placed pod is judged as if it were not placed.

        `extenders`: whether to call the extenders of the configuration.

        Examples:
            >>> cluster.explain("shop/db-0")
            <Verdict: shop/db-0 goes to node-a1: 1 of 9 nodes would take it>
        """
        info = self.pod(pod)
        self._scheduling.framework_of(info)
        return advise(self.engine, judged(self.engine, info, ask=self._ask if extenders else None))

    def explain_group(self, group: str, *, extenders: bool = True) -> GroupVerdict:
        """Judge a pod group, `namespace/name`, as a whole, without side effects.

        Needs `feature_gates` with GenericWorkload, and GangScheduling or TopologyAwareWorkloadScheduling for groups
        that use them. A group whose pods all have nodes is judged as if none had. `extenders`: whether to call the
        extenders of the configuration.

        Examples:
            >>> groups.explain_group("too-large")
            <GroupVerdict: default/too-large does not fit: 4 of 6 pods fit together in b, 2 more pods are needed>
        """
        key = group if "/" in group else f"default/{group}"
        if self.state.objects.get(t.PodGroup, key) is None and not self.state.pod_groups.known(key):
            raise ClusterError(f'pod group "{key}" not found, and no pod names it')
        return judged_group(self.engine, key, ask=self._ask if extenders else None)

    def transaction(self) -> Transaction:
        """A context in which anything may be changed; leaving it undoes all changes, unless they are committed.

        Examples:
            >>> with cluster.transaction():
            ...     cluster.evict("shop/db-0")
            ...     cluster
            <Cluster: 9 nodes with 28 pods, 1 pending>
            >>> cluster
            <Cluster: 9 nodes with 29 pods, 1 pending>
        """
        return self.state.transaction()

    def framework_of(self, info: PodInfo) -> Framework:
        """The profile that schedules a pod; raises ClusterError if there is none for its scheduler name."""
        return self._scheduling.framework_of(info)

    def hints(
        self,
        old: Mapping[str, Any] | None,
        new: Mapping[str, Any] | None,
        pod: Mapping[str, Any] | str | t.Pod,
    ) -> dict[str, Any]:
        """The events that a change of an object causes, and each plugin's queueing hint for a pod.

        `old` is None for an object that is added, `new` for one that is deleted.

        Examples:
            >>> cluster.hints(None, a_node("big").allocatable(cpu="64").obj(), "ml/notebook")["events"]
            ['NodeAdd']
        """
        before, after = (None if obj is None else decoded(obj, self._custom) for obj in (old, new))
        with self.transaction():
            # Apply the change, as in a live scheduler: hints look other objects up.
            if isinstance(after, STORED):
                self.add(after)
            elif after is None and isinstance(before, STORED):
                self.remove(before)
            return self._hints(before, after, self.pod(pod))

    def _hints(self, before: Any, after: Any, info: PodInfo) -> dict[str, Any]:
        events = events_of_change(before, after, self.state.emulated_version)
        hints: dict[str, str] = {}
        for name, registered in self.framework_of(info).registered_events(implied=False).items():
            for event in events:
                for listener in registered:
                    if listener.event.covers(event) and _concerns(event, after, info):
                        hint = _hint(listener, info, before, after)
                        # With several registrations for a change, one that returns Queue is sufficient.
                        hints[name] = hint if hints.get(name) != Hint.QUEUE.value else Hint.QUEUE.value
        return {"events": sorted({event.label for event in events}), "hints": hints}

    # -- changes ------------------------------------------------------------------------------------------------------

    def place(self, pod: Mapping[str, Any] | str | t.Pod, node_name: str) -> None:
        """Place a pending pod on a node, without running any plugin.

        Examples:
            >>> cluster.place("ml/notebook", "gpu-a1")
            >>> cluster.pod("ml/notebook").node_name
            'gpu-a1'
        """
        info = self.pod(pod)
        if node_name not in self.state.table.row_of:
            raise ClusterError(f'pod "{info.key}" cannot be placed: node "{node_name}" not found')
        if info.node_name:
            raise ClusterError(f'pod "{info.key}" cannot be placed: it is on node "{info.node_name}"; evict it first')
        self._scheduling.displace(info)
        self.state.assume(info, node_name)
        self._names.put(info.key, info.uid)
        self.state.pending.remove(info.key)

    def evict(self, pod: Mapping[str, Any] | str | t.Pod) -> None:
        """Remove a pod from its node and from the cluster. It is not recreated.

        Examples:
            >>> cluster.evict("shop/db-0")
            >>> cluster.explain("shop/db-0")
            Traceback (most recent call last):
            stowplan.ask.offline.arguments.ClusterError: pod "shop/db-0" not found; did you mean shop/db-1?
        """
        info = self.pod(pod)
        if not info.node_name:
            raise ClusterError(f'pod "{info.key}" cannot be evicted: it is on no node')
        self._remove_pod(info)

    def schedule(
        self, pods: Iterable[Mapping[str, Any] | str | t.Pod] | None = None, *, stop: Stop = never
    ) -> list[Decision]:
        """Place pods (None: all pending ones, in queue order); return the last decision for each.

        Runs the real queue, scheduling cycles and bindings until only time could change anything: victims of preemption
        leave and the preemptor follows, and a rejected pod is retried after an event that may help it. No time passes.
        A pod that still waits on Permit at the end is rejected as after a timeout, and a PreBind that waits for
        something fails; but claims are bound, and volumes provisioned for them, as soon as a pod has its node. The
        pods of a group, and those of a profile in which Permit makes pods wait for each other, are created together.
        `stop` is asked after each attempt at one of all pods; once it returns True, no more are tried.

        Examples:
            >>> cluster.schedule([a_pod("web-9", "shop").requests(cpu="500m").obj()])
            [<Decision: shop/web-9 goes to node-b2>]
        """
        if pods is None:
            # Pods of other schedulers stay pending.
            ours = [info for info in self.state.pending.values() if self.engine.framework_for(info) is not None]
            return self._scheduling.all_of(ours, stop)
        if not isinstance(pods, list) and (isinstance(pods, str | Mapping | t.Pod) or not isinstance(pods, Iterable)):
            raise ClusterError("schedule takes a list of pods: schedule([pod])")
        return self._scheduling.in_order([self.pod(pod) for pod in pods])

    def places(self, pods: Iterable[str], *, stop: Stop = never) -> list[Decision]:
        """Place pods (`namespace/name`) like `schedule`, but many equal ones in a fraction of the time.

        For counterfactuals: only the resulting nodes are recorded. Fewer decisions if `stop` returns True in between.
        """
        return self._scheduling.places([self.pod(pod) for pod in pods], stop)

    def bind_claims(self, claims: Sequence[str] | None = None) -> list[t.PersistentVolume]:
        """Make volumes available and bind claims as the PV controller would; the volumes that are created for them.

        No provisioner fails. `claims`: which claims, by `namespace/name` and in the order in which they were created;
        None: all.
        """
        objects, store = self.state.objects, self._scheduling.store
        created: list[t.PersistentVolume] = []
        wanted: Iterable[t.PersistentVolumeClaim] = objects.all(t.PersistentVolumeClaim)
        if claims is not None:
            wanted = [one for key in claims if (one := objects.get(t.PersistentVolumeClaim, key)) is not None]
        unbound = [one for one in wanted if not is_fully_bound(one)]
        for change in settled(store, [*objects.all(t.PersistentVolume), *unbound]):
            self.add(change.new)
            store.forget()
            if change.old is None and isinstance(change.new, t.PersistentVolume):
                created.append(change.new)
        return created

    def foreseen(self, infos: Sequence[PodInfo], *, stop: Stop = never) -> list[Decision] | None:
        """The decisions that `places` would make for new pods if they were added, without adding them.

        Their names may be those of pods on removed nodes, or that were preempted. The pods are on their nodes, and the
        preempted ones are gone, until the caller's transaction ends. Fewer decisions if `stop` returns True in between.
        None if the decisions cannot be computed this way, such as if a plugin has to be notified.
        """
        return self._scheduling.foreseen(infos, stop)

    def guaranteed_feasible_sets(self, info: PodInfo, lost: int) -> FeasibleSets | None:
        """Which rows a new pod fits once `lost` nodes and their pods are gone, while `places` places these pods again.

        So the pod finds a node if each mask has more rows left than there are other pods. None: unknown.
        """
        with self.transaction():
            return self._scheduling.guaranteed_feasible_sets(info, lost)


def _concerns(event: ClusterEvent, new: Any, info: PodInfo) -> bool:
    """Updates of a pod without a node, from 1.37 on, are for that pod alone."""
    return event.resource != TARGET_POD or same_pod(info, new)


def _hint(listener: Any, info: PodInfo, old: Any, new: Any) -> str:
    if listener.hint is None:
        return Hint.QUEUE.value
    # If the hint fails, the pod is retried.
    hint = call(listener.hint, info, old, new, check=None, failed=nothing)
    return "Error" if hint is None else str(hint.value)
