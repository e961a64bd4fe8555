"""The cluster that a command is about, from files or live, and lookups in it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click
import msgspec

from stowplan.app.command_line.error_reporting import InputError
from stowplan.app.command_line.named_plugins import named_plugins
from stowplan.app.sources.missing_kinds import why_not_judged
from stowplan.app.sources.object_references import SINGULARS, Reference, kind_meant
from stowplan.ask.explain.reported_events import last_reported_time
from stowplan.ask.explain.text.reported_status import ReportedStatus
from stowplan.ask.explain.verdicts.group_verdict import GroupVerdict
from stowplan.ask.explain.verdicts.verdict import Verdict, condition_of
from stowplan.ask.explain.workload_status import workload_record
from stowplan.ask.loading.admission import admit
from stowplan.ask.loading.object_files import objects_of_files
from stowplan.ask.loading.workloads import WorkloadName, belongs_to, workload_of
from stowplan.ask.offline import Cluster, ClusterError
from stowplan.ask.offline.arguments import near_names
from stowplan.ask.what_if.hypothetical_changes import Put
from stowplan.ask.what_if.relief import group_relief, more_nodes, relief, together
from stowplan.drivers.hang_guard.guarded_plugins import registry_with_installed
from stowplan.drivers.hang_guard.hang_guard import InterruptedCalls
from stowplan.history.recordings.recording_files import moment_text
from stowplan.history.recordings.replaying import moment_of, note_of
from stowplan.kube.api.pod import FINISHED
from stowplan.kube.api.types import (
    CompositePodGroup,
    Event,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    PodGroup,
    PriorityClass,
    StorageClass,
)
from stowplan.kube.api.yaml_text import first_value
from stowplan.kube.claims.claim_terms import SELECTED_NODE, class_name_of, is_fully_bound
from stowplan.kube.config import ConfigError
from stowplan.kube.config.features import group_gates, known_gates
from stowplan.kube.kubernetes_versions import KubernetesVersion, emulated_version_of, version_for
from stowplan.net.client.cluster_flags import ClusterFlags
from stowplan.scheduler.cluster.declared_groups import is_declared
from stowplan.scheduler.cluster.pod_info import PodInfo, group_key, scheduler_name_of
from stowplan.scheduler.engine.dumped import DumpError
from stowplan.scheduler.engine.engine import Engine
from stowplan.scheduler.engine.input_log.recording import RecordingError
from stowplan.scheduler.engine.watched_kind import WatchedKind
from stowplan.scheduler.framework.explanations.formatting import joined, listed
from stowplan.scheduler.framework.status import error
from stowplan.scheduler.in_tree.common.volume_claims import claim_names
from stowplan.scheduler.inspection.queue_state import WAITS_FOR_CLAIM, WAITS_ON_PERMIT
from stowplan.scheduler.inspection.records import GroupVerdictRecord, ReliefRecord, SchedulerRecord, WorkloadRecord

if TYPE_CHECKING:
    from stowplan.app.sources.running_scheduler import SchedulerEndpoint
    from stowplan.ask.explain.text.overview import Group
    from stowplan.ask.loading.event_query import EventQuery
    from stowplan.ask.loading.live_cluster import LiveCluster
    from stowplan.ui.source_records import ConfigurationRecord

_OTHER_CONFIG = "--config FILE names one that has"


@dataclass
class ClusterSource:
    """The selected cluster."""

    cluster: Cluster
    #: Finished pods, and their phases.
    finished: dict[str, str]
    #: Objects of files that the scheduler does not read.
    others: Sequence[Mapping[str, Any]] = field(default=(), repr=False)
    #: The finished pods, if pods are read in full.
    finished_pods: tuple[Pod, ...] = field(default=(), repr=False)
    #: The source of the objects, for messages.
    where: str = "these files"
    #: The namespace of a bare pod name.
    namespace: str = "default"
    live: bool = False
    #: Whether pods have the status of the cluster's scheduler, and no kind of objects is missing.
    reports: bool = False
    whole: bool = False
    #: Whether extenders of the configuration are called.
    extenders: bool = True
    #: For a live cluster, Events about the requested pods.
    events: list[Event] | None = field(default=None, repr=False)
    #: Pods as known by a scheduler at the API server's address, by their keys.
    known: dict[str, SchedulerRecord] = field(default_factory=dict, repr=False)
    #: Workloads as decoded JSON: those of the files, or the named ones of a live cluster; None: it does not exist.
    workloads: Mapping[WorkloadName, Mapping[str, Any] | None] = field(default_factory=dict, repr=False)
    #: ResourceQuotas as decoded JSON: those of the files, or of a live cluster, if requested.
    quotas: Sequence[Mapping[str, Any]] = field(default=(), repr=False)

    @classmethod
    def of_files(
        cls,
        files: Sequence[str],
        config: str | None,
        plugins: Sequence[str],
        *,
        recursive: bool = False,
        version: KubernetesVersion | None = None,
        in_full: bool = False,
    ) -> ClusterSource:
        """Groups are scheduled as groups if the files contain any; `version` of None: that of the dumped cluster.

        `in_full`: whether to keep what the scheduler does not read of pods, and finished ones.
        """
        found = objects_of_files(files, sys.stdin.buffer if "-" in files else None, recursive=recursive)
        if version is None:
            version, said = version_for(found.version)
            note(*([said] if said else ()))
        trees = any(isinstance(obj, CompositePodGroup) for obj in found.objects)
        any_groups = trees or any(isinstance(obj, PodGroup) for obj in found.objects)
        gates = group_gates(version, trees=trees) if any_groups else None
        cluster = Cluster.of_loaded_files(
            found,
            config=config,
            plugins=named_plugins(plugins),
            feature_gates=gates,
            emulated_version=str(version),
        )
        note(*cluster.notes)
        source = cls(cluster, _finished(found.objects), found.skipped, workloads=found.manifests, quotas=found.quotas)
        if in_full:
            source._keep_pods(found.objects, found.pods)
        return source

    @classmethod
    def of_recording(
        cls,
        path: str,
        when: float | None,
        config: str | None,
        plugins: Sequence[str],
        version: KubernetesVersion | None = None,
        *,
        in_full: bool = False,
    ) -> ClusterSource:
        """A moment of a recording, None: its end; `config` of None: the active configuration at that time.

        `version` of None: the one that was recorded; `in_full`: whether what policies read must be recorded.
        """
        try:
            calls = InterruptedCalls()
            registry = registry_with_installed(named_plugins(plugins), calls)
            moment = moment_of(path, when, registry, interrupted=calls)
        except (RecordingError, DumpError) as error:
            text = str(error)
            raise InputError(text if path in text else f"{path}: {text}") from error
        if in_full and not moment.header.has_marks:
            raise InputError(
                f"{path}: recorded by an earlier version, without host paths and annotations that a policy's "
                "DefaultEvictor reads"
            )
        then = msgspec.structs.replace(moment.header, configuration=moment.configuration)
        header = then.as_version(version, registry.declarations)
        own, features = config is None, header.features
        cluster = Cluster(
            moment.objects,
            header.configuration if own else config,
            plugins=named_plugins(plugins),
            # A full kube-scheduler has gates that do not affect decisions.
            feature_gates=known_gates(features.gates, features.emulated_version) if own else None,
            emulated_version=str(features.emulated_version),
        )
        for framework in cluster.algorithm.frameworks.values():
            framework.switch_off(moment.switched_off)
        cluster.now = moment.at
        over = note_of(moment, when)
        note(f"as of {moment_text(moment.at)}", *((over,) if over else ()))
        return cls(cluster, {}, where=f"{path} at that time", reports=True, whole=True)

    @classmethod
    async def of_live_cluster(
        cls,
        *,
        live: ClusterFlags,
        config: str | Mapping[str, Any] | None,
        plugins: Sequence[str],
        events: EventQuery | None = None,
        workloads: Collection[WorkloadName] = (),
        quotas: bool = False,
        gates: Mapping[str, bool] | None = None,
        groups: bool = False,
        version: KubernetesVersion | None = None,
        in_full: bool = False,
    ) -> ClusterSource:
        """`events`, `workloads`, `quotas`: those to read as well. `version` of None: the server's.

        `in_full`: whether to keep what the scheduler does not read of pods, and finished ones.

        `gates`: feature gates that differ from their defaults; or `groups`: those of pod groups.
        """
        # The HTTP client is slow to import, and not needed for files.
        from stowplan import __version__
        from stowplan.ask.loading.live_cluster import LiveClusterError, read_live_cluster, read_version
        from stowplan.net.client.http.user_agent import user_agent

        agent = user_agent(command="stowplan", version=__version__, purpose="explain")
        try:
            if version is None:
                version, said = await read_version(live, agent=agent)
                note(*([said] if said else ()))
            if groups:
                gates = group_gates(version, trees=True)
            cluster = Cluster(
                (), config, plugins=named_plugins(plugins), feature_gates=gates, emulated_version=str(version)
            )
            kinds = cluster.kinds_read(report=note)
            if in_full:
                cluster.documents.keep_also((Pod,))
                kinds = _in_full(kinds)
            read = await read_live_cluster(
                kinds,
                live,
                agent=agent,
                events=events,
                workloads=workloads,
                quotas=quotas,
                documents=cluster.documents,
            )
        except LiveClusterError as error:
            hint = "; -f reads files instead" if error.nothing_named and not live.given else ""
            raise InputError(f"{error}{hint}") from error
        source = cls.of_read(cluster, read)
        if in_full:
            source._keep_pods(read.objects)
        if events is not None:
            await source._ask_beside(events.pod, live)
        return source

    @classmethod
    def of_read(cls, cluster: Cluster, read: LiveCluster) -> ClusterSource:
        """What was read from a live cluster, taken into a new one."""
        note(*read.notes)
        cluster.take_in(read)
        return cls(
            cluster,
            _finished(read.objects),
            where="the cluster",
            namespace=read.namespace,
            live=True,
            reports=True,
            whole=True,
            events=read.events,
            workloads=read.workloads,
            quotas=read.quotas,
        )

    @classmethod
    async def of_scheduler(
        cls,
        endpoint: SchedulerEndpoint,
        *,
        plugins: Sequence[str],
        groups: bool = False,
        quotas: bool = False,
        in_full: bool = False,
    ) -> ClusterSource:
        """The live cluster of the kubeconfig, with a running scheduler's configuration, feature gates and unbound
        decisions. `groups`: whether it must schedule pod groups as groups.
        """
        from stowplan.app.sources.running_scheduler import fetch_decisions

        configuration, unbound = await fetch_decisions(endpoint)
        version = emulated_version_of(configuration.emulated_version)
        gates = known_gates(configuration.gates, version)
        try:
            source = await cls.of_live_cluster(
                live=endpoint.live,
                config=_config_for_questions(configuration),
                plugins=plugins,
                quotas=quotas,
                gates=gates,
                version=version,
                in_full=in_full,
            )
        except ConfigError as error:
            # Such as a plugin or a file that only the scheduler has.
            told = f"--from-scheduler {endpoint.url}: its configuration cannot be used here: {error}"
            raise InputError(told, hints=error.hints) from error
        if groups and not source.cluster.engine.schedules_groups:
            raise InputError(
                f"--from-scheduler {endpoint.url}: this scheduler places the pods of a group one by one: its feature "
                "gate GenericWorkload is off"
            )
        state = source.cluster.state
        waiting = [key for key, node in unbound.items() if key in state.pending and node in state.table.row_of]
        for key in waiting:
            source.cluster.place(key, unbound[key])
        if waiting:
            note(f"as the scheduler has decided, though it has not bound them yet: {listed(waiting, 5)}")
        return source

    @property
    def has_pods_of_groups(self) -> bool:
        """An API server only keeps a pod's group where groups are enabled."""
        state = self.cluster.state
        return any(info.pod.spec.scheduling_group for info in (*state.placed_pods(), *state.pending.values()))

    @property
    def schedules_groups(self) -> bool:
        """Not if the scheduler has given a node to a pod of a group, or refused it one, without a word about the group.

        Only known if the groups were read.
        """
        state = self.cluster.state
        tried = (*state.placed_pods(), *(info for info in state.pending.values() if _is_refused(info.pod)))
        keys = {group_key(info.pod) for info in tried if info.pod.spec.scheduling_group}
        found = (state.objects.get(PodGroup, key) for key in keys)
        # Nothing is written to groups of custom resources.
        return all(group is None or is_declared(group) or condition_of(group) is not None for group in found)

    def _keep_pods(
        self, objects: Iterable[object], given: Mapping[tuple[str, str], Mapping[str, Any]] = MappingProxyType({})
    ) -> None:
        """`given`: pods in full, if the client has not stored them."""
        documents, pods = self.cluster.documents, [obj for obj in objects if isinstance(obj, Pod)]
        documents.keep_also((Pod,))
        for pod in pods:
            raw = given.get((pod.metadata.namespace, pod.metadata.name))
            if raw is not None:
                documents.keep(pod, msgspec.json.encode(raw))
        self.finished_pods = tuple(pod for pod in pods if pod.status.phase in FINISHED)

    async def _ask_beside(self, name: str, live: ClusterFlags) -> None:
        """Query the scheduler for its own state, if one is at the API server's address, as with `stowplan up`.

        `name`: of the single requested pod; "" for many.
        """
        from stowplan.app.sources.running_scheduler import known_to_local_scheduler, on_permit_in_local_scheduler

        if not name:
            if len(self.cluster.state.pending):
                nodes = await on_permit_in_local_scheduler(live)
                self.known = {key: SchedulerRecord(place=WAITS_ON_PERMIT, node=node) for key, node in nodes.items()}
            return
        key = self._key(name)
        if key in self.cluster.state.pending:
            known = await known_to_local_scheduler(key, live)
            if known is not None:
                self.known[key] = known

    def admitted(self, pod: Pod) -> Pod:
        """The pod as the cluster's API server would store it."""
        classes = self.cluster.state.objects.all(PriorityClass)
        found = admit([*classes, pod]).objects[-1]
        assert isinstance(found, Pod)
        return found

    # -- names --------------------------------------------------------------------------------------------------------

    def find(self, name: str) -> PodInfo:
        key = self._key(name)
        try:
            return self.cluster.pod(key)
        except ClusterError:
            known = [*self.cluster.pending(), *(info.key for info in self.cluster.state.placed_pods())]
            raise InputError(self._unknown(key, known)) from None

    def _key(self, name: str) -> str:
        return name if "/" in name else f"{self.namespace}/{name}"

    def _unknown(self, key: str, known: Sequence[str]) -> str:
        if key in self.finished:
            return f'pod "{key}" has finished ({self.finished[key]}): there is nothing to decide about it'
        if not known:
            return f'pod "{key}" not found; there is no pod in {self.where}'
        if hint := self.hint_about("Pod", key):
            return f'pod "{key}" not found{hint}'
        namespace, _, name = key.partition("/")
        given = name if namespace == self.namespace else key
        if hint := kind_meant(given):
            return f'pod "{key}" not found{hint}'
        there = sorted(other for other in known if other.partition("/")[0] == namespace)
        hint = f'; pods in namespace "{namespace}": {listed(there, 3)}' if there else ""
        return f'pod "{key}" not found{hint or self.hint_about_namespace(namespace)}'

    def hint_about_namespace(self, name: str) -> str:
        """Namespaces with pods, if there are none in this one."""
        namespaces = sorted({info.namespace for info in self.pods()})
        if name in namespaces:
            return ""
        return f'; there are no pods in namespace "{name}", but in {listed(namespaces, 5)}'

    def hint_about(self, kind: str, key: str) -> str:
        """Pods and workloads that may be meant: with this name, or with a similar one of this kind."""
        known: dict[str, set[str]] = {}
        for info in self.pods():
            known.setdefault("Pod", set()).add(info.key)
            if workload := workload_of(info.pod):
                known.setdefault(workload[0], set()).add(f"{info.namespace}/{workload[1]}")
        others = [SINGULARS.get(other, other.lower()) for other, keys in known.items() if other != kind and key in keys]
        if others:
            return f"; did you mean {' or '.join(f'{other}/{key}' for other in others)}?"
        prefix = "" if kind in ("", "Pod") else SINGULARS[kind]
        return near_names(key, sorted(known.get(kind, ())), kind=prefix)

    def check_nodes(self) -> None:
        """Raise InputError if there are no nodes, which were most likely forgotten."""
        if not self.live and not self.cluster.state.table.count:
            raise InputError(
                f"no Node in {self.where}; add a file with nodes: `stowplan dump` saves those of a cluster"
            )

    def applied(self, path: str) -> Put:
        """The change that `kubectl apply` of this file would be; "-": stdin. Raises LoadError."""
        filed = objects_of_files([path], sys.stdin.buffer, beside=self.cluster.state.everything())
        note(*filed.notes)
        return Put(tuple(filed.objects), "stdin" if path == "-" else path, filed.workloads)

    def note_unplaced(self) -> None:
        """Note that pods without a node are left out, if only placed ones are judged."""
        unplaced = self.cluster.pending()
        if unplaced:
            who = f"{unplaced[0]} has" if len(unplaced) == 1 else f"{len(unplaced):,} pods ({unplaced[0]}, …) have"
            note(f"{who} no node in {self.where}: only pods on nodes are judged")

    def find_node(self, wanted: Reference) -> str:
        """The name of an existing node; raises InputError."""
        if wanted.kind not in ("", "Node") or wanted.namespace is not None:
            raise InputError(f"{wanted} is not a node")
        name, known = wanted.name, self.cluster.state.table.row_of
        if name in known:
            return name
        near = get_close_matches(name, known, n=3, cutoff=0.6)
        if near:
            raise InputError(f'node "{name}" not found; did you mean {" or ".join(near)}?')
        there = f"nodes there: {listed(sorted(known), 3)}" if known else "there are none"
        raise InputError(f'node "{name}" not found in {self.where}; {there}')

    # -- pods ---------------------------------------------------------------------------------------------------------

    def pods(self) -> Iterator[PodInfo]:
        """All unfinished pods."""
        yield from self.cluster.state.pending.values()
        yield from self.cluster.state.placed_pods()

    def pending(self, takes: Callable[[Pod], bool] = lambda pod: True) -> list[PodInfo]:
        """Pods without a node, except for those of other schedulers."""
        infos = [info for info in map(self.cluster.pod, self.cluster.pending()) if takes(info.pod)]
        others: dict[str, list[str]] = {}
        for info in infos:
            if self.cluster.engine.framework_for(info) is None:
                others.setdefault(scheduler_name_of(info.pod), []).append(info.key)
        for scheduler, keys in others.items():
            who = keys[0] if len(keys) == 1 else f"{len(keys)} pods ({keys[0]}, …)"
            note(
                f'skipped {who}: for scheduler "{scheduler}", which the configuration has no profile for; '
                + _OTHER_CONFIG
            )
        return [info for info in infos if self.cluster.engine.framework_for(info) is not None]

    @property
    def engine(self) -> Engine:
        return self.cluster.engine

    def group_verdict(self, group: str) -> GroupVerdict:
        """The verdict on an existing group, by its key."""
        return self.cluster.explain_group(group, extenders=self.extenders)

    def group_record(self, group: str) -> GroupVerdictRecord:
        """The same with suggestions."""
        verdict = self.group_verdict(group)
        return msgspec.structs.replace(verdict.record(), relief=tuple(group_relief(self.cluster, verdict)))

    def verdict(self, info: PodInfo) -> Verdict:
        if self.cluster.engine.framework_for(info) is None:
            return self._nobody_schedules(info)
        verdict = self.cluster.explain(info.key, extenders=self.extenders)
        unjudged = "" if self.whole else why_not_judged(info, self.cluster.state.objects)
        return replace(verdict, error=error(unjudged), node_name="") if unjudged else verdict

    def _nobody_schedules(self, info: PodInfo) -> Verdict:
        name = scheduler_name_of(info.pod)
        profiles = joined([profile.scheduler_name for profile in self.cluster.config.profiles])
        why = f'no profile schedules it: its schedulerName is "{name}", this configuration is for {profiles}'
        # Known by a scheduler that was found.
        asks_it = f"; its scheduler tells more: stowplan explain --from-scheduler auto pod {info.key}"
        status = error(f"{why}; {_OTHER_CONFIG}{asks_it if info.key in self.known else ''}")
        state = self.cluster.state
        names = list(state.table.names)
        return Verdict(pod=info, names=names, version=state.version, error=status, without_profile=True)

    def find_group(self, wanted: Reference) -> str:
        """The key of a pod group; raises InputError."""
        state, key = self.cluster.state, wanted.in_namespace(self.namespace)
        known = {f"{obj.metadata.namespace}/{obj.metadata.name}" for obj in state.objects.all(PodGroup)}
        known |= {group_key(info.pod) for info in self.pods() if info.pod.spec.scheduling_group is not None}
        if key not in known:
            near = get_close_matches(key, sorted(known), n=3, cutoff=0.6)
            none = "" if known else f"; there is none in {self.where}"
            hint = f"; did you mean {' or '.join(near)}?" if near else none
            raise InputError(f'pod group "{key}" not found{hint}')
        return key

    def groups_of(self, pods: Iterable[PodInfo]) -> list[str]:
        """The groups of these pods, if groups are scheduled as groups."""
        if not self.cluster.engine.schedules_groups:
            return []
        members = (info.pod for info in pods if info.pod.spec.scheduling_group is not None)
        return list(dict.fromkeys(group_key(pod) for pod in members))

    def workload_record(self, name: WorkloadName) -> WorkloadRecord | None:
        """What it wants and has; None if only its pods are known."""
        manifest = self.workloads.get(name)
        if manifest is None:
            return None
        kind, namespace, own_name = name
        pods = (info.pod for info in self.pods() if info.namespace == namespace)
        own = [pod for pod in pods if belongs_to(pod, kind, own_name)]
        return workload_record(manifest, own, self.events or ())

    def more_nodes(self, group: Group) -> tuple[ReliefRecord, ...]:
        """Numbers of nodes, of kinds that exist, that would take equal pods."""
        with self._extenders_as_chosen():
            return more_nodes(self.cluster, group)

    def more_nodes_for(self, verdict: Verdict) -> tuple[ReliefRecord, ...]:
        """Nodes to add for one pod, which was judged."""
        from stowplan.ask.explain.text.overview import Group

        return self.more_nodes(Group(verdict))

    def relief(self, groups: Sequence[Group]) -> list[ReliefRecord]:
        """Suggestions for groups without a feasible node, each tried with all their pods."""
        with self._extenders_as_chosen():
            return relief(self.cluster, groups)

    def together(self, groups: Sequence[Group]) -> int | None:
        """How many of the pods that would each get a node now get one if all are scheduled; None if too many."""
        with self._extenders_as_chosen():
            return together(self.cluster, groups)

    @contextmanager
    def _extenders_as_chosen(self) -> Iterator[None]:
        """Within this context, pods are also scheduled without extenders if they are not to be called."""
        with ExitStack() as stack:
            for framework in () if self.extenders else self.cluster.algorithm.frameworks.values():
                stack.enter_context(framework.without_extenders())
            yield

    def starting_reason(self, info: PodInfo) -> str:
        """Why a pod does not run on its node yet, by its last Event; "" if that is unknown."""
        own = [event for event in self.events or () if event.regarding.uid == info.uid]
        last = max(own, key=last_reported_time, default=None)
        return f"{last.reason}: {last.note}" if last is not None and last.type == "Warning" else ""

    def permit_node(self, info: PodInfo) -> str:
        """The node for which the pod waits on Permit; "" if it does not, or that is unknown."""
        known = self.known.get(info.key)
        return known.node if known is not None and known.place == WAITS_ON_PERMIT else ""

    def reported(self, info: PodInfo) -> ReportedStatus | None:
        """The live cluster's scheduler's report about a pod."""
        if not self.reports:
            return None
        about = None if self.events is None else [event for event in self.events if event.regarding.uid == info.uid]
        return ReportedStatus.about(info.pod, about, self._awaiting_volume(info) or self.known.get(info.key))

    def _awaiting_volume(self, info: PodInfo) -> SchedulerRecord | None:
        """What is known of a pod with a node for which a provisioner is to create a volume."""
        name, maker, node = self.awaited_claim(info)
        if not name:
            return None
        known = self.known.get(info.key) or SchedulerRecord()
        return msgspec.structs.replace(known, place=f"{WAITS_FOR_CLAIM} {name}{maker} to run on", node=node)

    def awaited_claim(self, info: PodInfo) -> tuple[str, str, str]:
        """The claim for whose volume a pod waits that has been given a node, its provisioner in brackets, and the node;
        empty if there is none.
        """
        objects = self.cluster.state.objects
        for name in () if info.node_name else claim_names(info.pod):
            claim = objects.get(PersistentVolumeClaim, f"{info.namespace}/{name}")
            node = "" if claim is None else claim.metadata.annotations.get(SELECTED_NODE, "")
            if claim is not None and node in self.cluster.state.table.row_of and not is_fully_bound(claim):
                storage_class = objects.get(StorageClass, class_name_of(claim))
                maker = "" if storage_class is None else f" (provisioner {storage_class.provisioner})"
                return name, maker, node
        return "", "", ""


def _config_for_questions(configuration: ConfigurationRecord) -> dict[str, Any]:
    """A running scheduler's configuration, without the extenders that only the scheduler itself can call."""
    found: dict[str, Any] = first_value(configuration.yaml)
    secret = configuration.without_secrets
    if not secret:
        return found
    # Resources that they manage are still ignored: profiles' arguments have them.
    kept = [one for one in found["extenders"] if one["urlPrefix"] not in secret]
    those = "extender" if len(secret) == 1 else "extenders"
    note(
        f"the scheduler's {those} {joined(secret)} cannot be asked: a running scheduler keeps passwords and keys to "
        "itself. The answer is as if nothing there refused or preferred a node; with --config FILE instead of "
        "--from-scheduler they are asked"
    )
    return {**found, "extenders": kept}


#: Notes of a server's question, which its answer shows; None: they are the command's.
_COLLECTED: ContextVar[list[str] | None] = ContextVar("notes", default=None)


def note(*notes: str) -> None:
    """Show a note to the user."""
    collected = _COLLECTED.get()
    if collected is not None:
        collected += notes
        return
    for one in notes:
        click.echo(f"note: {one}", err=True)


@contextmanager
def collected_notes() -> Iterator[list[str]]:
    """Within the context, notes are put into this list."""
    found: list[str] = []
    token = _COLLECTED.set(found)
    try:
        yield found
    finally:
        _COLLECTED.reset(token)


def _is_refused(pod: Pod) -> bool:
    return any(one.type == "PodScheduled" and one.reason == "Unschedulable" for one in pod.status.conditions)


def _in_full(kinds: Sequence[WatchedKind]) -> list[WatchedKind]:
    """Finished pods, too, and what policies read."""
    known = {watched.kind for watched in kinds}
    more = (WatchedKind(kind) for kind in (PodDisruptionBudget, PriorityClass, PersistentVolumeClaim))
    read = [msgspec.structs.replace(watched, finished=watched.kind is Pod) for watched in kinds]
    return [*read, *(watched for watched in more if watched.kind not in known)]


def _finished(objects: Iterable[object]) -> dict[str, str]:
    done = (obj for obj in objects if isinstance(obj, Pod) and obj.status.phase in FINISHED)
    return {f"{obj.metadata.namespace}/{obj.metadata.name}": obj.status.phase for obj in done}
