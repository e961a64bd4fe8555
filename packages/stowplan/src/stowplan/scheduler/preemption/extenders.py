"""Extenders in preemption: filter the candidates and their victims.

Extenders are called one after the other, each with the candidates that the previous one left. The dry run is finished
by then, and none of its state is held while waiting: candidates are plain values. By the last answer, the cluster may
have changed, and a wrong decision would evict pods in vain. So the dry run is repeated for the remaining candidates. A
candidate stays if it has the same victims; if none stays, or a candidate fits the pod without evictions by now, the
attempt restarts.

Upstream: callExtenders in pkg/scheduler/framework/preemption/preemption.go, ProcessPreemption in
pkg/scheduler/extender.go.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence

import numpy as np

from stowplan.kube.klog import get_logger
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.cluster.view import Nodes
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.diagnosis import Diagnosis
from stowplan.scheduler.framework.eviction_plan import Candidate
from stowplan.scheduler.framework.extender import ClusterChangedError, Extender, Victims, answer_of
from stowplan.scheduler.framework.requests import Ask, Outcome
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.framework.runtime.nominated_pods import statuses_with_nominated_pods
from stowplan.scheduler.framework.status import Status, error, unschedulable
from stowplan.scheduler.preemption.candidates import Candidates
from stowplan.scheduler.preemption.dry_run import dry_run

NO_CANDIDATE = "preemption: no candidate node for preemption"

_log = get_logger(__name__)


def interested_extenders(extenders: Iterable[Extender], pod: PodInfo) -> tuple[Extender, ...]:
    return tuple(extender for extender in extenders if extender.preempts and extender.is_interested(pod))


def ask_extenders(
    framework: Framework, pod: PodInfo, run: Candidates, extenders: Sequence[Extender]
) -> Generator[Ask, Outcome, Candidates | Status]:
    """The candidates that the extenders leave; a Status if there are none, or some extender failed."""
    cluster = framework.handle.cluster
    found, left, version = run.candidates, run.candidates, cluster.version
    for extender in extenders:
        if not left:
            break
        try:
            question = extender.preempt_question(pod, tuple(left.values()))
            answer = yield Ask(who=extender.name, verb="preempt", question=question)
            left = _named(cluster, extender, left, extender.read_candidates(answer_of(answer)))
        except Exception as e:
            if not extender.ignorable:
                return error(e)
            text = "Skipped extender as it returned error and has ignorable flag set"
            _log.info(text, extender=extender.name, err=str(e))
    if not left:
        return unschedulable(NO_CANDIDATE)
    if cluster.version != version:
        left = _still_candidates(framework, pod, found, left)
    return Candidates.of(cluster, tuple(left.values()), run.nodes_total)


def _named(
    cluster: ClusterState, extender: Extender, sent: Mapping[str, Candidate], received: Mapping[str, Victims]
) -> dict[str, Candidate]:
    """The candidates of an answer; raises if one is invalid."""
    found = {}
    for node_name, victims in received.items():
        if not victims.uids:
            if extender.ignorable:
                _log.info("Ignored node for which the extender didn't report any victims", node=node_name)
                continue
            raise ValueError(f'expected at least one victim pod on node "{node_name}"')
        infos = _victims(cluster, extender, sent.get(node_name), node_name, victims)
        if infos:
            found[node_name] = Candidate(node_name, infos, victims.pdb_violations)
    return found


def _victims(
    cluster: ClusterState, extender: Extender, sent: Candidate | None, node_name: str, victims: Victims
) -> tuple[PodInfo, ...]:
    """The victims of an answer; none if some of the pods in the question have left since."""
    proposed = set() if sent is None else {victim.uid for victim in sent.victims}
    infos = []
    for uid in victims.uids:
        info = cluster.placed(uid)
        if info is not None and info.node_name == node_name and info.row >= 0:
            infos.append(info)
        elif uid in proposed:
            return ()
        else:
            raise ValueError(
                f"extender: {extender.name} claims to preempt pod (UID: &{{{uid}}}) on node: {node_name}, "
                "but the pod is not found on that node"
            )
    return tuple(infos)


def _still_candidates(
    framework: Framework, pod: PodInfo, found: Mapping[str, Candidate], left: Mapping[str, Candidate]
) -> dict[str, Candidate]:
    """The remaining candidates for which a new dry run finds the same victims."""
    again = _dry_run_on(framework, pod, found.keys() | left.keys())
    still = {
        name: now
        for name, candidate in left.items()
        if name in again
        and (name not in found or _uids(again[name]) == _uids(found[name]))
        and (now := _up_to_date(framework.handle.cluster, candidate)) is not None
    }
    if not still:
        raise ClusterChangedError
    return still


def _dry_run_on(framework: Framework, pod: PodInfo, names: Iterable[str]) -> dict[str, Candidate]:
    """The candidates among some nodes in the current cluster; raises if one of them fits the pod without evictions."""
    cluster = framework.handle.cluster
    state = CycleState()
    pre = framework.run_pre_filter(state, pod, Nodes(cluster))
    row_of = cluster.table.row_of
    rows = sorted(
        row_of[name] for name in names if name in row_of and (pre.node_names is None or name in pre.node_names)
    )
    if pre.status is not None or not rows:
        raise ClusterChangedError
    view = Nodes(cluster, np.array(rows, np.intp))
    refused = statuses_with_nominated_pods(framework, state, pod, view)
    if isinstance(refused, Status) or len(refused) < len(rows):
        raise ClusterChangedError
    considered = np.zeros(cluster.table.n, np.bool_)
    considered[rows] = True
    diagnosis = Diagnosis(considered, considered, nominated={row_of[name]: status for name, status in refused.items()})
    return dry_run(framework, state, pod, diagnosis).candidates


def _uids(candidate: Candidate) -> set[str]:
    return {victim.uid for victim in candidate.victims}


def _up_to_date(cluster: ClusterState, candidate: Candidate) -> Candidate | None:
    """The candidate with the current versions of its victims; None if one has left."""
    now = [cluster.placed(victim.uid) for victim in candidate.victims]
    victims = tuple(info for info in now if info is not None and info.node_name == candidate.node_name)
    if len(victims) < len(now):
        return None
    return Candidate(candidate.node_name, victims, candidate.pdb_violations)
