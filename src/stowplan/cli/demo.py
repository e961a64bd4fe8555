"""`stowplan demo`: place a bundled workload, show where it went, explain three of its pods."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stowplan.api.decode import decode_object, to_dict
from stowplan.cli import demo_cluster
from stowplan.cli.admission import admit
from stowplan.cli.errors import InputError, reported
from stowplan.explain.suggestions import advise
from stowplan.explain.tables import Grid, Line, write
from stowplan.explain.text import explanation
from stowplan.explain.words import amount, count
from stowplan.offline import Cluster

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stowplan.api.meta import ApiStruct
    from stowplan.cluster.pod_info import PodInfo
    from stowplan.explain.tables import Block, Cell

#: The placed pod that is explained.
_SHOWN = "shop/api-0"
_BAR = 10


@click.command(short_help="Place and explain a bundled workload.")
@click.option("--save", metavar="FILE", help="Write the cluster as it then is, to try `stowplan explain` on it.")
def demo(save: str | None) -> None:
    """Place a small workload on a small cluster, in memory, and explain what happened.

    \b
    Examples:
      stowplan demo
      stowplan demo --save demo.yaml && stowplan explain -f demo.yaml --pod ml/train-0
    """
    with reported():
        objects = _decoded([*demo_cluster.cluster(), *demo_cluster.workload()])
        cluster = Cluster(objects)
        placed = sum(bool(decision.node_name) for decision in cluster.schedule())
        late = [obj for obj in _decoded([*demo_cluster.cluster(), *demo_cluster.latecomers()]) if obj not in objects]
        for obj in late:
            cluster.add(obj)
        if save:
            _save(save, [*objects, *late], cluster)
    write(_page(cluster, placed, save), sys.stdout)


def _decoded(objects: Iterable[dict[str, Any]]) -> list[ApiStruct]:
    return admit([decode_object(obj) for obj in objects]).objects


def _page(cluster: Cluster, placed: int, save: str | None) -> list[Block]:
    pending = cluster.pending()
    blocks: list[Block] = [
        Line(((f"{count(placed, 'pod')} placed on {count(cluster.state.table.count, 'node')}", "head"),)),
        Line(),
        _picture(cluster),
        *_chapter(f"Why is {_SHOWN} where it is?"),
        *_explained(cluster, _SHOWN),
    ]
    for key in pending:
        blocks += [
            *_chapter(f"Then came {key} and found no room. Why, and what would help?"),
            *_explained(cluster, key),
        ]
    return [*blocks, *_chapter("Try next"), *_next(save)]


def _chapter(title: str) -> list[Block]:
    return [Line(), Line((("── ", "dim"), (title, "head"), (" ──", "dim"))), Line()]


def _explained(cluster: Cluster, key: str) -> list[Block]:
    verdict = cluster.explain(key)
    framework = cluster.framework_of(verdict.pod)
    return explanation(framework, advise(framework, verdict))


def _next(save: str | None) -> list[Block]:
    file = save or "demo.yaml"
    commands = [] if save else [f"stowplan demo --save {file}"]
    commands += [
        f"stowplan explain -f {file} --pod shop/checkout-0 -o wide",
        "kubectl get ns,no,po,svc,rs,rc,sts,pdb,pc -A -o json | stowplan explain -f -",
    ]
    return [Line(command, 2) for command in commands]


# -- the picture ------------------------------------------------------------------------------------------------------


def _picture(cluster: Cluster) -> Grid:
    table = cluster.state.table
    order = sorted(table.row_of.items(), key=lambda item: item[0])
    rows = [
        [((name, "name"),), *_usage(cluster, row, "cpu"), *_usage(cluster, row, "memory"), _pods(cluster, row)]
        for name, row in order
    ]
    return Grid(rows, ("node", "cpu", "", "memory", "", "pods"), frozenset((2, 4)))


def _usage(cluster: Cluster, row: int, resource: str) -> list[Cell]:
    """A bar, and `3500m of 4`."""
    table = cluster.state.table
    index = table.resources[resource]
    used, total = int(table.requested[index, row]), int(table.allocatable[index, row])
    filled = round(_BAR * used / total) if total else 0
    bar = (("█" * filled, "full" if filled == _BAR else "bar"), ("░" * (_BAR - filled), "dim"))
    return [bar, f"{amount(resource, used)} of {amount(resource, total)}"]


def _pods(cluster: Cluster, row: int) -> Cell:
    """Pods by what they are part of."""
    counts = Counter(_app_of(info) for info in cluster.state.row_pods[row])
    listed = ", ".join(app if number == 1 else f"{app} ×{number}" for app, number in sorted(counts.items()))
    if cluster.state.table.unschedulable[row]:
        return (("cordoned", "pending"),)
    return listed or (("none", "dim"),)


def _app_of(info: PodInfo) -> str:
    return info.labels.get("app") or info.pod.metadata.name


# -- saving -----------------------------------------------------------------------------------------------------------


def _save(file: str, objects: Iterable[ApiStruct], cluster: Cluster) -> None:
    """Everything as one would get it from an API server: bound pods name their node."""
    import yaml

    documents = []
    for obj in objects:
        document = to_dict(obj)
        if document["kind"] == "Pod":
            info = cluster.pod(f"{document['metadata']['namespace']}/{document['metadata']['name']}")
            if info.node_name:
                document["spec"]["nodeName"] = info.node_name
        documents.append(document)
    try:
        Path(file).write_text(yaml.safe_dump_all(documents, sort_keys=False), encoding="utf-8")
    except OSError as error:
        raise InputError(f"{file}: {error.strerror or error}") from error
    click.echo(f"note: {count(len(documents), 'object')} written to {file}", err=True)
