"""`stowplan explain`: why a pod goes where it goes, or nowhere."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import click

from stowplan.api.load import load_files
from stowplan.api.pod import FINISHED
from stowplan.api.types import Pod
from stowplan.cli.admission import admit
from stowplan.cli.errors import InputError, reported
from stowplan.explain.inspection import inspecting
from stowplan.explain.suggestions import advise
from stowplan.explain.tables import Line, write
from stowplan.explain.text import explanation
from stowplan.framework.registry import load_plugin
from stowplan.offline import Cluster

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stowplan.cluster.pod_info import PodInfo
    from stowplan.explain.tables import Block
    from stowplan.explain.verdict import Verdict
    from stowplan.framework.interface import Plugin


@click.command(short_help="Why a pod goes where it goes, or nowhere.")
@click.option(
    "-f",
    "--filename",
    "files",
    metavar="FILE",
    multiple=True,
    required=True,
    help="File, directory or - for stdin. Repeatable.",
)
@click.option("--config", metavar="FILE", help="KubeSchedulerConfiguration; without it, the default one.")
@click.option("--pod", "pod", metavar="[NS/]NAME", help="The pod to explain, pending or placed.")
@click.option("--pending", is_flag=True, help="All pods without a node. This is what happens without --pod.")
@click.option("-o", "--output", type=click.Choice(["text", "wide", "json", "yaml"]), default="text", show_default=True)
@click.option("--plugin", "plugins", metavar="MODULE:CLASS", multiple=True, help="A plugin of your own. Repeatable.")
def explain(
    files: tuple[str, ...], config: str | None, pod: str | None, pending: bool, output: str, plugins: tuple[str, ...]
) -> None:
    """Say where a pod goes and why there, why not elsewhere, and what would help a pod that goes nowhere.

    Reads what `kubectl get -o json` (or yaml, which takes longer) writes and what people write. Nothing is changed
    anywhere. A pod that has a node is judged as if it were to be placed anew.

    \b
    Examples:
      kubectl get ns,no,po,svc,rs,rc,sts,pdb,pc -A -o json | stowplan explain -f -
      stowplan explain -f cluster.json --pod shop/web-0
      stowplan explain -f cluster.json -f new-pod.yaml --pod new-pod -o wide
      stowplan explain -f cluster.json --config scheduler.yaml -o json
    """
    if pod and pending:
        raise click.UsageError("--pod and --pending exclude each other.")
    with reported():
        question = _Question.of(files, config, plugins)
        pods = [question.find(pod)] if pod else question.pending()
        _answer(question, pods, output, single=bool(pod))


@dataclass
class _Question:
    """The cluster that was given."""

    cluster: Cluster
    finished: dict[str, str]

    @classmethod
    def of(cls, files: Sequence[str], config: str | None, plugins: Sequence[str]) -> _Question:
        loaded = load_files(files, sys.stdin.buffer if "-" in files else None)
        admitted = admit(loaded.objects)
        for note in (*loaded.notes, *admitted.notes):
            click.echo(f"note: {note}", err=True)
        cluster = Cluster(admitted.objects, config, plugins=_plugins(plugins))
        done = (obj for obj in admitted.objects if isinstance(obj, Pod) and obj.status.phase in FINISHED)
        return cls(cluster, {f"{obj.metadata.namespace}/{obj.metadata.name}": obj.status.phase for obj in done})

    def find(self, name: str) -> PodInfo:
        key = name if "/" in name else f"default/{name}"
        known = [*self.cluster.pending(), *(info.key for info in self.cluster.state.placed_pods())]
        if key not in known:
            raise InputError(self._unknown(key, known))
        info = self.cluster.pod(key)
        self.cluster.framework_of(info)
        return info

    def _unknown(self, key: str, known: Sequence[str]) -> str:
        if key in self.finished:
            return f'pod "{key}" has finished ({self.finished[key]}): there is nothing to decide about it'
        name = key.partition("/")[2]
        namesakes = [other for other in known if other.partition("/")[2] == name]
        near = (namesakes or get_close_matches(key, known, n=3, cutoff=0.75))[:3]
        if near:
            return f'pod "{key}" not found; did you mean {" or ".join(near)}?'
        return f'pod "{key}" not found' if known else f'pod "{key}" not found; there is no pod in these files'

    def pending(self) -> list[PodInfo]:
        """Pods without a node, but for those that other schedulers are to place."""
        infos = [self.cluster.pod(key) for key in self.cluster.pending()]
        others: dict[str, list[str]] = {}
        for info in infos:
            if self.cluster.scheduler.framework_for(info) is None:
                others.setdefault(info.pod.spec.scheduler_name, []).append(info.key)
        for scheduler, keys in others.items():
            who = keys[0] if len(keys) == 1 else f"{len(keys)} pods ({keys[0]}, …)"
            click.echo(
                f'note: skipped {who}: for scheduler "{scheduler}", which the configuration has no profile for',
                err=True,
            )
        return [info for info in infos if self.cluster.scheduler.framework_for(info) is not None]

    def verdict(self, info: PodInfo) -> Verdict:
        verdict = self.cluster.explain(info.key)
        return advise(self.cluster.framework_of(info), verdict)


def _plugins(paths: Sequence[str]) -> list[type[Plugin]]:
    if paths and "" not in sys.path:
        # As with `python -m`: modules of the current directory can be named.
        sys.path.insert(0, "")
    return [load_plugin(path) for path in paths]


def _answer(question: _Question, pods: Sequence[PodInfo], output: str, *, single: bool) -> None:
    if output in ("json", "yaml"):
        data = [_as_data(question, info) for info in pods]
        _write_data(data[0] if single else {"kind": "ExplainList", "verdicts": data}, output)
        return
    if not pods:
        click.echo("No pod is pending.")
        return
    blocks: list[Block] = []
    for first, alike in _equal(question, pods):
        blocks += [Line()] if blocks else []
        framework = question.cluster.framework_of(first)
        blocks += explanation(framework, question.verdict(first), wide=output == "wide", alike=alike)
    write(blocks, sys.stdout)


def _equal(question: _Question, pods: Sequence[PodInfo]) -> list[tuple[PodInfo, list[str]]]:
    """Pods that no plugin can tell apart are explained once; (the first, keys of the others)."""
    groups: dict[Any, list[PodInfo]] = {}
    for info in pods:
        signature = question.cluster.framework_of(info).signature(info)
        nominated = info.pod.status.nominated_node_name
        groups.setdefault(info.key if signature is None else (signature, nominated), []).append(info)
    return [(infos[0], [info.key for info in infos[1:]]) for infos in groups.values()]


def _as_data(question: _Question, info: PodInfo) -> dict[str, Any]:
    framework, verdict = question.cluster.framework_of(info), question.verdict(info)
    with inspecting(framework, verdict):
        _ = verdict.advice
        return verdict.to_dict()


def _write_data(data: dict[str, Any], output: str) -> None:
    if output == "json":
        click.echo(json.dumps(data, indent=2, sort_keys=True, ensure_ascii=False))
        return
    import yaml

    # Through JSON: what is in it twice would come out as an alias.
    apart = json.loads(json.dumps(data))
    click.echo(yaml.safe_dump(apart, sort_keys=True, allow_unicode=True, width=1000), nl=False)
