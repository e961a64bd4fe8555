"""`stowplan dump`: save a cluster in a file, for -f of the other commands."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from stowplan.app.cli.cluster_options import config_option
from stowplan.app.cli.live_cluster import live_cluster
from stowplan.app.cli.shell_completion import complete_namespace, file_option
from stowplan.app.command_line.error_reporting import InputError, reported
from stowplan.app.command_line.plugin_option import PLUGINS
from stowplan.net.client.cluster_flags import ClusterFlags

if TYPE_CHECKING:
    from stowplan.app.sources.dumping import Dump

_FORMATS = {"json": "json", ".json": "json", "yaml": "yaml", ".yaml": "yaml", ".yml": "yaml"}
_ROLE = "stowplan-dump"


@click.command(short_help="Save a cluster in a file, to ask about it with -f.")
@live_cluster
@click.option(
    "-n",
    "--namespace",
    metavar="NS",
    shell_complete=complete_namespace,
    help="Save only the objects of this namespace, and those without one. Default: of all namespaces.",
)
@click.option("-A", "--all-namespaces", is_flag=True, help="Save the objects of all namespaces. This is the default.")
@config_option()
@PLUGINS
@click.option("--rbac", is_flag=True, help="Print the ClusterRole that this needs, and exit.")
@file_option(
    "-o",
    "--output",
    metavar="json|yaml|FILE",
    default="json",
    show_default=True,
    help="Print this format, or write it into a file (.json, .yaml).",
)
def dump(
    *,
    live: ClusterFlags,
    namespace: str | None,
    all_namespaces: bool,
    config: str | None,
    plugins: tuple[str, ...],
    rbac: bool,
    output: str,
) -> None:
    """Save a live cluster in a file: the objects of all kinds that the other commands read, for their -f. It is only
    read, with one list of each kind that it serves and that you may list; what you may not list is named.

    Secrets and ConfigMaps are left out. Pods have their whole specs, with the environment of their containers.

    \b
    Examples:
      stowplan dump -o cluster.json
      stowplan dump --context staging | stowplan explain -f - pending
      stowplan dump --rbac | kubectl apply -f -

    \b
    The same with kubectl, for a cluster that serves all of these kinds:
      kubectl get no,po,ns,pdb,svc,pc,rc,rs,sts,deploy,ds,jobs,cj,pvc,pv,sc,csinodes,csidrivers,volumeattachments,\\
        csistoragecapacities,resourceclaims,resourceslices,deviceclasses,resourceclaimtemplates,quota -A -o json
    """
    # Slow to import, and not needed for the help.
    from stowplan.app.command_line.event_loop import run
    from stowplan.app.command_line.named_plugins import named_plugins
    from stowplan.app.sources.cluster_source import note
    from stowplan.app.sources.dumping import dumped_kinds, read_dump
    from stowplan.app.sources.printed_roles import role_of_dumper
    from stowplan.ask.offline import Cluster
    from stowplan.kube.config.features import group_gates

    form = _form_of(output)
    if namespace is not None and all_namespaces:
        raise click.UsageError("-n and -A exclude each other.")
    with reported(config):
        cluster = Cluster((), config, plugins=named_plugins(plugins), feature_gates=group_gates(trees=True))
        kinds = dumped_kinds(cluster.kinds_read(report=note))
        if rbac:
            click.echo(role_of_dumper(kinds, name=_ROLE), nl=False)
            return
        found = run(read_dump(live, kinds, namespace=namespace or ""))
    if found.forbidden and not found.objects:
        raise InputError("you may list none of the kinds that stowplan reads; --rbac prints a role for it")
    if found.forbidden:
        note(f"left out, as you may not list them: {', '.join(sorted(found.forbidden))}; --rbac prints a role for it")
    if output in ("json", "yaml"):
        _write(found, form, sys.stdout)
    else:
        _save(found, form, output)


def _form_of(output: str) -> str:
    form = _FORMATS.get(output) or _FORMATS.get(Path(output).suffix)
    if form is None:
        raise click.UsageError(f"-o {output}: want json, yaml, or a file whose name ends with .json or .yaml.")
    return form


def _save(found: Dump, form: str, path: str) -> None:
    from stowplan.kube.config.config_errors import os_error_text
    from stowplan.scheduler.framework.explanations.formatting import count

    try:
        with Path(path).open("w", encoding="utf-8") as file:
            _write(found, form, file)
    except OSError as error:
        raise InputError(os_error_text("open", path, error)) from error
    kinds = Counter(obj["kind"] for obj in found.objects)
    counts = ", ".join((count(kinds["Node"], "node"), count(kinds["Pod"], "pod"), count(kinds.total(), "object")))
    click.echo(f"wrote {path}: {counts} of {count(len(kinds), 'kind')}")


def _write(found: Dump, form: str, file: TextIO) -> None:
    from stowplan.kube.api.manifest_files import VERSION_FIELD

    head = {"apiVersion": "v1", "kind": "List"} | ({VERSION_FIELD: found.version} if found.version else {})
    if form == "yaml":
        from stowplan.kube.api.yaml_text import to_yaml

        file.write(to_yaml({**head, "items": found.objects}))
        return
    # One object per line: readable for large clusters, and diffs stay small.
    lines = ",\n".join(json.dumps(obj, ensure_ascii=False, separators=(",", ":")) for obj in found.objects)
    start = json.dumps(head, separators=(",", ":")).removesuffix("}")
    file.write(f'{start},"items":[\n{lines}\n]}}\n')
