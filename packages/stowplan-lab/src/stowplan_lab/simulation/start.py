"""The initial objects of a scenario, from files, a live cluster, a trace and groups of nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from stowplan.ask.loading.object_files import objects_of_files
from stowplan.ask.loading.workloads import WorkloadName
from stowplan.kube.api.manifest_files import LoadError
from stowplan.kube.api.meta import ApiStruct
from stowplan.scheduler.engine.watched_kinds import WatchedKind
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


def objects_at_start(spec: ClusterSpec, folder: Path, kinds: Sequence[WatchedKind]) -> Start:
    """Raises ScenarioError."""
    objects, workloads, quotas, policies, notes = found = Start([], {}, [], [], [])
    if spec.files:
        try:
            filed = objects_of_files([str(folder / path) for path in spec.files])
        except LoadError as error:
            raise ScenarioError(*error.errors) from None
        objects += filed.objects
        workloads |= filed.manifests
        quotas += filed.quotas
        policies += filed.policies
        notes += filed.notes
    if spec.live or spec.kubeconfig or spec.context:
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


def _live(spec: ClusterSpec, folder: Path, kinds: Sequence[WatchedKind]) -> Any:
    # The HTTP client is slow to import.
    from stowplan import __version__
    from stowplan.ask.loading.live_cluster import LiveClusterError, read_now
    from stowplan.net.client.cluster_flags import ClusterFlags
    from stowplan.net.client.http.user_agent import user_agent

    try:
        return read_now(
            kinds,
            ClusterFlags(
                kubeconfig=None if spec.kubeconfig is None else str(folder / spec.kubeconfig), context=spec.context
            ),
            agent=user_agent(command="stowplan", version=__version__, purpose="simulate"),
            quotas=True,
        )
    except LiveClusterError as error:
        raise ScenarioError(f"cluster: {error}") from None
