"""The initial objects of a scenario, from files, a live cluster, a trace and groups of nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from stowplan.ask.loading.object_files import LoadedFiles, objects_of_files
from stowplan.ask.loading.workloads import WorkloadName
from stowplan.ask.offline.arguments import ClusterError, custom_objects_of, custom_types
from stowplan.kube.api.manifest_files import LoadError
from stowplan.kube.api.meta import ApiStruct
from stowplan.kube.kubernetes_versions import ClusterVersion, version_for
from stowplan.net.client.cluster_flags import ClusterFlags
from stowplan.scheduler.engine.watched_kind import WatchedKind
from stowplan_lab.simulation.definition.scenario_fields import ClusterSpec
from stowplan_lab.simulation.scenario_errors import ScenarioError
from stowplan_lab.traces.trace import Trace, TraceError, open_trace


class Start(NamedTuple):
    #: Except for groups of nodes.
    objects: list[ApiStruct]
    #: Workloads of files.
    workloads: dict[WorkloadName, Mapping[str, Any]]
    quotas: list[Mapping[str, Any]]
    #: LimitRanges and RuntimeClasses.
    policies: list[Mapping[str, Any]]
    #: For the user.
    notes: list[str]


def files_at_start(spec: ClusterSpec, folder: Path) -> LoadedFiles:
    """Raises ScenarioError."""
    try:
        return objects_of_files([str(folder / path) for path in spec.files])
    except LoadError as error:
        raise ScenarioError(*error.errors) from None


def version_at_start(spec: ClusterSpec, folder: Path, filed: LoadedFiles) -> ClusterVersion:
    """The version of the cluster that it starts with, a live one first; raises ScenarioError."""
    if not _is_live(spec):
        return version_for(filed.version)
    # The HTTP client is slow to import.
    from stowplan.ask.loading.live_cluster import LiveClusterError, version_now

    try:
        return version_now(_flags(spec, folder), agent=_agent())
    except LiveClusterError as error:
        raise ScenarioError(f"cluster: {error}") from None


def objects_at_start(spec: ClusterSpec, folder: Path, kinds: Sequence[WatchedKind], filed: LoadedFiles) -> Start:
    """Raises ScenarioError."""
    objects, workloads, quotas, policies, notes = found = Start([], {}, [], [], [])
    if spec.files:
        objects += filed.objects
        try:
            custom, told = custom_objects_of(filed, custom_types(watched.kind for watched in kinds))
        except ClusterError as error:
            raise ScenarioError(f"cluster.files: {error}") from None
        objects += custom
        workloads |= filed.manifests
        quotas += filed.quotas
        policies += filed.policies
        notes += told
    if _is_live(spec):
        read = _live(spec, folder, kinds)
        objects += read.objects
        quotas += read.quotas
        notes += read.notes
    if spec.trace is not None:
        try:
            objects += trace_of(spec.trace, folder).nodes()
        except TraceError as error:
            raise ScenarioError(f"cluster.trace: {error}") from None
    return found


def trace_of(given: Mapping[str, Any], folder: Path) -> Trace:
    """Load a trace; raises TraceError."""
    options = dict(given)
    return open_trace(str(options.pop("format", "")), options, folder)


def _is_live(spec: ClusterSpec) -> bool:
    return bool(spec.live or spec.kubeconfig or spec.context)


def _live(spec: ClusterSpec, folder: Path, kinds: Sequence[WatchedKind]) -> Any:
    from stowplan.ask.loading.live_cluster import LiveClusterError, read_now

    try:
        return read_now(kinds, _flags(spec, folder), agent=_agent(), quotas=True)
    except LiveClusterError as error:
        raise ScenarioError(f"cluster: {error}") from None


def _flags(spec: ClusterSpec, folder: Path) -> ClusterFlags:
    kubeconfig = None if spec.kubeconfig is None else str(folder / spec.kubeconfig)
    return ClusterFlags(kubeconfig=kubeconfig, context=spec.context)


def _agent() -> str:
    from stowplan import __version__
    from stowplan.net.client.http.user_agent import user_agent

    return user_agent(command="stowplan", version=__version__, purpose="simulate")
