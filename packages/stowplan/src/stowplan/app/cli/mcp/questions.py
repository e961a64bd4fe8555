"""The questions about the cluster, as tools: what each takes, and the command's function that answers it."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Annotated, Any

from msgspec import Meta, field

from stowplan.app.cli.drain import drained, labels_of
from stowplan.app.cli.explain.answers import about_group, about_node, about_pods
from stowplan.app.cli.fit import groups_that_fit, not_a_node, pods_that_fit, room_left, workloads_of
from stowplan.app.cli.mcp.tools import Answer, Arguments, Host, Tool, no_extenders
from stowplan.app.cli.survive import losses
from stowplan.app.cli.what_if import changed_cluster
from stowplan.app.command_line.error_reporting import InputError
from stowplan.app.sources.cluster_source import ClusterSource
from stowplan.app.sources.followed_cluster import Reads
from stowplan.app.sources.object_references import reference
from stowplan.app.sources.selection import Selection
from stowplan.app.sources.templates import claim_templates_of, pod_in, pod_named
from stowplan.ask.loading.event_query import EventQuery
from stowplan.ask.offline.scheduling import Stop
from stowplan.ask.rebalance.gained_room import RoomAnswer
from stowplan.ask.what_if.answer_records import DrainRecord, FitRecord, GroupFitRecord, SurviveRecord, WhatIfRecord
from stowplan.ask.what_if.hypothetical_changes import Reconfigure
from stowplan.ask.what_if.hypothetical_nodes import NodeKind
from stowplan.kube.api.manifest_files import LoadError
from stowplan.scheduler.inspection.records import GroupVerdictRecord, NodeRecord, VerdictListRecord, VerdictRecord
from stowplan.ui.workbench import WhatIfChange, changes_of

#: Seconds that pods are decided, if the agent does not say: the rest of an answer takes a fifth of a second.
_SECONDS, _MAX_SECONDS = 0.8, 60.0
#: Of changes, whose pods are placed one by one.
_MAX_NODES, _MAX_PODS = 200, 5_000
#: Groups of equal pods that are explained in full, the largest first.
_MAX_GROUPS = 20
_Seconds = Annotated[
    float,
    Meta(
        gt=0,
        le=_MAX_SECONDS,
        description="Stop after so many seconds, with what is known by then: `partial` says of how many pods.",
    ),
]
_NAMESPACE = Meta(description="For names without a namespace; the context's by default.")


class Explain(Arguments, frozen=True):
    of: Annotated[
        str,
        Meta(description="[NAMESPACE/]NAME of a pod, KIND/[NAMESPACE/]NAME of a workload, node/NAME or podgroup/NAME."),
    ]
    namespace: Annotated[str | None, _NAMESPACE] = None


class Pending(Arguments, frozen=True):
    namespace: Annotated[str | None, Meta(description="Only pods of this namespace.")] = None
    selector: Annotated[str, Meta(description="Only pods with these labels, in kubectl's syntax.")] = ""
    field_selector: Annotated[str, Meta(description="Only pods with these fields, in kubectl's syntax.")] = ""


class NodeLike(Arguments, frozen=True):
    node: str
    price: Annotated[float, Meta(ge=0)] | None = None


class Fit(Arguments, frozen=True):
    of: Annotated[
        str | None,
        Meta(
            description="What to copy: [NAMESPACE/]NAME of a pod, KIND/[NAMESPACE/]NAME of a workload, or "
            "podgroup/NAME. Without it and manifest: the room for pods of common shapes."
        ),
    ] = None
    manifest: Annotated[str | None, Meta(description="Instead of it: a Pod or workload as YAML or JSON.")] = None
    more: Annotated[int, Meta(ge=0, le=_MAX_PODS)] | None = None
    like: Annotated[
        tuple[NodeLike, ...],
        Meta(description="Kinds of nodes to add if there is too little room: nodes that exist, and their prices."),
    ] = ()
    namespace: Annotated[str | None, _NAMESPACE] = None


class Drain(Arguments, frozen=True):
    nodes: tuple[str, ...] = ()
    zone: Annotated[str | None, Meta(description="All nodes of this zone.")] = None
    selector: Annotated[str | None, Meta(description="All nodes with these labels.")] = None
    all_nodes: bool = field(default=False, name="all")
    max_unavailable: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="At most so many at a time, which come back empty. Without it, all are gone for good."),
    ] = None
    pod_selector: Annotated[str | None, Meta(description="Only pods with these labels.")] = None
    disable_eviction: Annotated[bool, Meta(description="Delete pods: budgets do not block.")] = False
    seconds: _Seconds = _SECONDS


class Survive(Arguments, frozen=True):
    by: Annotated[
        str | None,
        Meta(description='"node", or the label whose values are lost one by one. Default: zones if there are several.'),
    ] = None
    only: Annotated[str | None, Meta(description="Only the loss of this node, or of this value of the label.")] = None
    seconds: _Seconds = _SECONDS


class WhatIf(WhatIfChange, kw_only=True):
    seconds: _Seconds = _SECONDS


def _explain(about: ClusterSource, given: Explain) -> Answer:
    wanted = reference(given.of)
    if wanted.kind == "Node":
        return about_node(about, wanted, "text")
    if wanted.kind == "PodGroup":
        return about_group(about, wanted, "text")
    return about_pods(about, Selection.of([wanted], namespace=given.namespace), "text", most=_MAX_GROUPS)


def _read_to_explain(given: Explain) -> Reads:
    wanted = reference(given.of)
    if wanted.kind in ("Node", "PodGroup"):
        return Reads()
    selection = Selection.of([wanted], namespace=given.namespace)
    where = wanted.namespace or given.namespace
    if selection.is_one_pod:
        return Reads(events=EventQuery(pod=f"{where}/{wanted.name}" if where else wanted.name))
    return Reads(events=EventQuery(namespace=where or "", of_workloads=True), workloads=selection.workloads())


def _pending(about: ClusterSource, given: Pending) -> Answer:
    chosen = Selection.of((), namespace=given.namespace, labels=given.selector, fields=given.field_selector)
    return about_pods(about, chosen, "text", most=_MAX_GROUPS)


def _fit(about: ClusterSource, given: Fit) -> Answer:
    kinds = [NodeKind(about.find_node(reference(one.node, kind="Node")), one.price) for one in given.like] or None
    if given.of is None and given.manifest is None:
        if given.more is not None or kinds:
            raise InputError("more and like are about a pod, a workload or a manifest: give of or manifest")
        return room_left(about)
    if given.of is None:
        # It may be added to the cluster, for its pods.
        with about.cluster.transaction():
            with _read_from("manifest"):
                pod = about.admitted(pod_in(about, "-", io.BytesIO((given.manifest or "").encode())))
            return pods_that_fit(about, pod, {}, replicas=given.more, kinds=kinds)
    if given.manifest is not None:
        raise InputError("give one of the arguments of and manifest")
    wanted = not_a_node(reference(given.of))
    if wanted.kind == "PodGroup":
        return groups_that_fit(about, wanted, replicas=given.more, kinds=kinds)
    pod = about.admitted(pod_named(about, (), wanted))
    return pods_that_fit(about, pod, claim_templates_of(pod, (), recursive=False), replicas=given.more, kinds=kinds)


def _read_to_fit(given: Fit) -> Reads:
    return Reads(
        workloads=[] if given.of is None else workloads_of(reference(given.of), given.namespace),
        quotas=given.of is not None or given.manifest is not None,
    )


def _drain(about: ClusterSource, given: Drain, stop: Stop) -> Answer:
    if not (given.nodes or given.zone or given.selector or given.all_nodes):
        raise InputError("say which nodes: nodes, zone, selector or all")
    return drained(
        about,
        [reference(node, kind="Node") for node in given.nodes],
        zone=given.zone,
        selector=given.selector,
        all_nodes=given.all_nodes,
        max_unavailable=given.max_unavailable,
        pods=labels_of("--pod-selector", given.pod_selector),
        disable_eviction=given.disable_eviction,
        stop=stop,
    )


def _survive(about: ClusterSource, given: Survive, stop: Stop) -> Answer:
    return losses(about, given.by, given.only, stop=stop)


@contextmanager
def _read_from(field: str) -> Iterator[None]:
    """Report what is wrong with the text of an argument."""
    try:
        yield
    except LoadError as error:
        raise InputError(*(problem.replace("stdin", field, 1) for problem in error.errors)) from error


def _what_if(about: ClusterSource, given: WhatIf, stop: Stop) -> Answer:
    if len(given.remove) + len(given.drain) > _MAX_NODES:
        raise InputError(
            f"remove and drain: want at most {_MAX_NODES} nodes; ask the tools drain or survive about more"
        )
    if any(one.replicas > _MAX_PODS for one in given.scale):
        raise InputError(f"scale: replicas: want at most {_MAX_PODS:,}; the tool fit says how many more fit")
    with _read_from("manifests"):
        changes = list(changes_of(given, about.cluster, stop))
    if not changes:
        raise InputError(f"say what changes: one of {', '.join(WhatIfChange.__struct_encode_fields__)}")
    if given.config.strip():
        no_extenders("config", next(one.config for one in changes if isinstance(one, Reconfigure)))
    return changed_cluster(about, changes, stop=stop)


def _nothing(given: Any) -> Reads:
    return Reads()


def _limited(ask: Callable[[ClusterSource, Any, Stop], Answer]) -> Callable[[Host, ClusterSource, Any], Answer]:
    """Others wait for a question, as all are asked about the one cluster."""

    def within(host: Host, about: ClusterSource, given: Any) -> Answer:
        end = host.now() + given.seconds
        return ask(about, given, lambda: host.now() >= end)

    return within


def _about(
    ask: Callable[[ClusterSource, Any], Answer], reads: Callable[[Any], Reads] = _nothing
) -> Callable[[Host, Any], Any]:
    return _about_host(lambda host, about, given: ask(about, given), reads)


def _about_host(
    ask: Callable[[Host, ClusterSource, Any], Answer], reads: Callable[[Any], Reads] = _nothing
) -> Callable[[Host, Any], Any]:
    async def call(host: Host, given: Any) -> Answer:
        about = await host.about(reads(given))
        about.check_nodes()
        if namespace := getattr(given, "namespace", None):
            about = replace(about, namespace=namespace)
        return ask(host, about, given)

    return call


QUESTIONS = (
    Tool(
        name="explain",
        title="Explain a pod, workload, node or pod group",
        description="Why a pod or the pods of a workload got their node or none, which plugin refused which nodes and "
        "what would help; what is on a node and which pending pods it would take; whether a pod group fits.",
        arguments=Explain,
        records=(VerdictRecord, VerdictListRecord, NodeRecord, GroupVerdictRecord),
        call=_about(_explain, _read_to_explain),
    ),
    Tool(
        name="pending",
        title="Explain all pending pods",
        description="Why pods have no node: a summary first, then each group of equal pods with its reasons and with "
        "changes that were tried and would help.",
        arguments=Pending,
        records=(VerdictListRecord,),
        call=_about(_pending, lambda given: Reads(events=EventQuery(namespace=given.namespace))),
    ),
    Tool(
        name="fit",
        title="How many more pods fit",
        description="How many more pods like a pod, a workload or a manifest fit, on which nodes, why the next one "
        "does not, and how many nodes to add so that `more` of them fit. Quotas count.",
        arguments=Fit,
        records=(FitRecord, GroupFitRecord, RoomAnswer),
        call=_about(_fit, _read_to_fit),
    ),
    Tool(
        name="drain",
        title="What a drain would do",
        description="Where the pods of drained nodes would go, which would find no node, and which disruption budgets "
        "would block the drain. Nothing is drained.",
        arguments=Drain,
        records=(DrainRecord,),
        call=_about_host(_limited(_drain)),
    ),
    Tool(
        name="survive",
        title="What the loss of nodes would cost",
        description="Which pods would find no node if a zone, a rack or a node were lost, one loss at a time. In a "
        "large cluster, some losses take longer than `seconds`: name one with `only`, or give more.",
        arguments=Survive,
        records=(SurviveRecord,),
        call=_about_host(_limited(_survive)),
    ),
    Tool(
        name="what_if",
        title="The cluster before and after changes",
        description="Which pods would get a node, lose or change it if nodes were added, removed, drained, labelled or "
        "tainted, workloads scaled, manifests applied, pods moved for a goal (`rebalance`), or the scheduler had "
        "another configuration (`config`) or other weights. Nothing is changed.",
        arguments=WhatIf,
        records=(WhatIfRecord,),
        call=_about_host(_limited(_what_if), lambda given: Reads(quotas=bool(given.scale or given.manifests))),
    ),
)
