"""The answers of `stowplan explain` about a cluster: as a page, or as data."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from stowplan.app.cli.data_output import answered_as, write_data
from stowplan.app.command_line.error_reporting import InputError
from stowplan.ask.explain.detailed_record import detailed, summarized
from stowplan.ask.explain.judging import kinds_of
from stowplan.ask.explain.node_view import NodeView, node_view
from stowplan.ask.explain.text.group_text import group_page
from stowplan.ask.explain.text.node_text import node_page
from stowplan.ask.explain.text.overview import STARTING, WITHOUT_NODE, Group, crowded, overview, placed_state, summary
from stowplan.ask.explain.text.tables import Block, Line, plain, write
from stowplan.ask.explain.text.verdict_text import explanation
from stowplan.ask.loading.workloads import belongs_to
from stowplan.ask.what_if.relief import group_relief
from stowplan.kube.kubernetes_versions import BINARY_VERSION, KubernetesVersion
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.engine.engine import Engine
from stowplan.scheduler.framework.explanations.formatting import count
from stowplan.scheduler.framework.status import Code
from stowplan.scheduler.inspection import records

if TYPE_CHECKING:
    from stowplan.app.sources.cluster_source import ClusterSource
    from stowplan.app.sources.object_references import Reference
    from stowplan.app.sources.selection import Selection
    from stowplan.ask.explain.text.reported_status import ReportedStatus

    _Told = tuple[Group, ReportedStatus | None]

#: Number of groups of equal pods that a page explains.
_GROUPS = 10
#: The field with the number of entries that are left out of a document, by field.
LEFT_OUT = "leftOut"
#: Number of pod groups that are judged as a whole in an answer about many pods.
_MAX_POD_GROUPS = 100


class Answer(PlainStruct, frozen=True, kw_only=True):
    """An answer as data or as a page."""

    version: KubernetesVersion
    data: Callable[[], dict[str, Any]]
    page: Callable[[], list[Block]]
    some_without_node: Callable[[], bool] = lambda: False
    #: Of each pod or group: whether it could not be judged.
    unjudged: Sequence[bool] = ()

    def document(self) -> dict[str, Any]:
        return self.data() | answered_as(self.version)

    def write(self, output: str) -> None:
        if output in ("json", "yaml"):
            write_data(self.document(), output)
        else:
            write(self.text(), sys.stdout)

    def text(self) -> list[Block]:
        """The page, and which version it is as, if that is not the newest."""
        if self.version == BINARY_VERSION:
            return self.page()
        return [*self.page(), Line(), Line(((f"as kube-scheduler {self.version} decides", "dim"),))]


def watch(answer: Callable[[], Answer], interval: float, sleep: Callable[[float], object] = time.sleep) -> None:
    """Answer repeatedly until interrupted; unchanged answers are not repeated.

    The first answer may fail; later ones are retried, as an API server restarts and pods are replaced.
    """
    said = ""
    while True:
        try:
            page = answer().text()
        except InputError as error:
            if not said:
                raise
            page = [Line(((f"{error.message} (asking again)", "bad"),))]
        text = plain(page)
        if text != said:
            stamp = time.strftime("%H:%M:%S")
            write([*([Line()] if said else []), Line(((f"-- {stamp}", "dim"),)), *page], sys.stdout)
            sys.stdout.flush()
            said = text
        sleep(interval)


# -- pods -----------------------------------------------------------------------------------------------------------


def about_pods(about: ClusterSource, selection: Selection, output: str, *, most: int | None = None) -> Answer:
    """`most`: groups of equal pods in the data, those first that a page shows first; None: all, as they come."""
    pods = selection.pods(about)
    kinds = list(_kinds(about, pods))
    groups = [group for _, group in kinds]
    reported = [about.reported(first) for first, _ in kinds]
    engine = about.cluster.engine
    wide = output == "wide"
    workloads = _workloads(about, selection, groups)

    @cache
    def summary_record() -> records.SummaryRecord:
        return summary(groups, about.relief(groups), about.together(groups))

    def data() -> dict[str, Any]:
        if selection.is_one_pod and groups:
            record = _record(detailed, engine, groups[0], reported[0])
            return records.document(
                replace(record, pod_group=_group_of(about, pods), relief=about.more_nodes(groups[0]))
            )
        told = list(zip(groups, reported, strict=True))
        if most is not None:
            told = _most_first(told, most)
        found = tuple(_record(summarized, engine, *one) for one in told)
        named = tuple(workload for workload, _ in workloads)
        listed = records.VerdictListRecord(
            kind="ExplainList", workloads=named, summary=summary_record(), verdicts=found
        )
        left_out = len(groups) - len(told)
        return records.document(listed) | ({LEFT_OUT: {"verdicts": left_out}} if left_out else {})

    def page() -> list[Block]:
        if not groups and not workloads:
            return [Line(_nobody(about, selection))]
        shown = _most_first(list(zip(groups, reported, strict=True)), len(groups) if wide else _GROUPS)
        several = len(groups) > 1
        blocks: list[Block] = []
        if several or workloads or (groups[0].alike and crowded(summary_record())):
            blocks = overview(summary_record(), workloads, wide=wide)
        for group, status in shown:
            blocks += [Line()] if blocks else []
            blocks += explanation(
                engine,
                group.verdict,
                wide=wide,
                alike=group.alike,
                reported=status,
                group=group.pod_group,
                relief=() if several and not group.alike else about.relief([group]),
                among_others=several,
            )
        for group_name in about.groups_of(pods)[:_GROUPS]:
            verdict = about.group_verdict(group_name)
            found = group_page(verdict, group_relief(about.cluster, verdict), wide=wide)
            blocks += [Line(), Line((("That is each pod alone. It is scheduled with its group:", "pending"),)), *found]
        left = sum(len(group.keys) for group in groups) - sum(len(group.keys) for group, _ in shown)
        if left:
            more = f"… and {count(left, 'more pod')} in {count(len(groups) - len(shown), 'group')} of equal ones"
            blocks += [Line(), Line(((f"{more}: -o wide explains all, `explain pod NAME` one", "dim"),))]
        return blocks

    def some_without_node() -> bool:
        return (
            any(group.state in WITHOUT_NODE for group in groups)
            or any(workload.missing for workload, _ in workloads)
            or crowded(summary_record())
        )

    return Answer(
        version=engine.features.emulated_version,
        data=data,
        page=page,
        some_without_node=some_without_node,
        unjudged=[group.verdict.unanswered for group in groups],
    )


def _kinds(about: ClusterSource, pods: Sequence[PodInfo]) -> Iterator[tuple[PodInfo, Group]]:
    """Equal pods, each kind with its first pod.

    Pods that wait on Permit have a node, and are not equal to any others; nor is a pod that runs to one that does not.
    """
    by_state: dict[tuple[str, str, str], list[PodInfo]] = {}
    for info in pods:
        pod_group = next(iter(about.groups_of([info])), "")
        by_state.setdefault((about.permit_node(info), placed_state(info, info.node_name), pod_group), []).append(info)
    judged = dict.fromkeys(pod_group for _, _, pod_group in by_state if pod_group)
    verdicts = {pod_group: about.group_verdict(pod_group) for pod_group in list(judged)[:_MAX_POD_GROUPS]}
    for (node, state, pod_group), infos in by_state.items():
        for first, alike in kinds_of(about.engine, infos):
            reason = about.starting_reason(first) if state == STARTING else ""
            claim, maker, _ = about.awaited_claim(first)
            yield (
                first,
                Group(
                    about.verdict(first),
                    alike,
                    permit_node=node,
                    starting_reason=reason,
                    claim_reason=claim and f"waits for its claim{maker}",
                    pod_group=verdicts.get(pod_group),
                ),
            )


def _workloads(
    about: ClusterSource, selection: Selection, groups: Sequence[Group]
) -> list[tuple[records.WorkloadRecord, Counter[str]]]:
    """The named workloads, and how many of their selected pods are in each state."""
    states = {key: group.state for group in groups for key in group.keys}
    found = []
    for name in selection.workloads(about.namespace):
        record = about.workload_record(name)
        if record is not None:
            kind, namespace, own_name = name
            pods = (info for info in map(about.find, states) if info.namespace == namespace)
            own = (states[info.key] for info in pods if belongs_to(info.pod, kind, own_name))
            found.append((record, Counter(own)))
    return found


def _group_of(about: ClusterSource, pods: Sequence[PodInfo]) -> records.GroupVerdictRecord | None:
    """The verdict on the pod's group."""
    for group in about.groups_of(pods):
        return about.group_record(group)
    return None


def _nobody(about: ClusterSource, selection: Selection) -> str:
    if selection.names:
        return "No pod that was named has these labels and fields."
    if selection.narrows:
        where = about.hint_about_namespace(selection.namespace) if selection.namespace is not None else ""
        return f"None of the selected pods is pending{where}."
    # The others are mentioned in a note.
    others = " for the schedulers of this configuration" if about.cluster.pending() else ""
    return f"No pod is pending{others}."


def _most_first(found: list[_Told], most: int) -> list[_Told]:
    """Pending pods with suggestions before those that have a node, or will get one; the largest group first."""
    if len(found) <= most:
        return found
    return sorted(found, key=lambda one: (one[0].state not in WITHOUT_NODE, one[0].state, -len(one[0].keys)))[:most]


def _record(
    made: Callable[..., records.VerdictRecord], engine: Engine, group: Group, reported: ReportedStatus | None
) -> records.VerdictRecord:
    # The record includes advice that was requested.
    _ = group.verdict.advice
    record = made(engine, group.verdict, group.alike) if made is summarized else made(engine, group.verdict)
    return replace(record, scheduler=None if reported is None else reported.record())


# -- a group --------------------------------------------------------------------------------------------------------


def about_group(about: ClusterSource, wanted: Reference, output: str) -> Answer:
    verdict = about.cluster.explain_group(about.find_group(wanted), extenders=about.extenders)
    found = group_relief(about.cluster, verdict)
    return Answer(
        version=about.engine.features.emulated_version,
        data=lambda: records.document(replace(verdict.record(), relief=tuple(found))),
        page=lambda: group_page(verdict, found, wide=output == "wide"),
        some_without_node=lambda: not verdict.fits,
        unjudged=[verdict.status.code == Code.Error],
    )


# -- a node ---------------------------------------------------------------------------------------------------------


def about_node(about: ClusterSource, wanted: Reference, output: str) -> Answer:
    view = _view(about, about.find_node(wanted))
    return Answer(
        version=about.engine.features.emulated_version,
        data=lambda: records.document(view.record()),
        page=lambda: node_page(view, wide=output == "wide"),
    )


def _view(about: ClusterSource, name: str) -> NodeView:
    kinds = kinds_of(about.engine, about.pending())
    questions = ((about.verdict(first), (first.key, *alike)) for first, alike in kinds)
    return node_view(about.cluster.engine, name, questions)
