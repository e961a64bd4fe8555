"""`stowplan check`: do changed manifests fit a cluster? For pull requests, pre-commit and workflows."""

from __future__ import annotations

import sys
from typing import Any

import click

from stowplan.app.cli.cluster_options import NO, cluster_of, cluster_options, config_option, role_option
from stowplan.app.cli.data_output import answered_as, output_option, write_data
from stowplan.app.cli.moment_option import recording_options
from stowplan.app.cli.shell_completion import complete_file
from stowplan.app.command_line.error_reporting import InputError, reported

_EXIT_CODES = f"""\b
Exit codes:
  0    all pods of the manifests fit; there may be warnings
  1    a bug in Stowplan
  2    the options, the cluster or a plugin are at fault
  {NO}    there are errors: pods do not fit, a quota or a budget forbids them, or a file is no manifest
"""


@click.command(epilog=_EXIT_CODES, short_help="Whether changed manifests fit a cluster, for pull requests.")
@click.argument("manifests", metavar="MANIFEST…", nargs=-1, shell_complete=complete_file)
@cluster_options
@recording_options
@config_option()
@role_option
@output_option(
    "text", "json", "sarif", "github", more="; sarif is SARIF 2.1.0, github annotations of a workflow on GitHub"
)
def check(*, manifests: tuple[str, ...], output: str, **source: Any) -> None:
    """Check manifests that a change adds or modifies: would their pods get a node, where, whom would they evict, and
    what forbids it, a quota or a disruption budget.

    The cluster is a live one or, as a pipeline has it that may not reach the cluster, a file of `stowplan dump` (-f) or
    a moment of a recording. Recordings have no ResourceQuotas. The manifests are applied to it as by `kubectl apply`,
    together; everything else stays. Nothing is changed anywhere. Files without objects, and templates, are passed over;
    of folders, all files are checked.

    \b
    Examples:
      stowplan check -f cluster.json web.yaml
      stowplan check -f cluster.json $(git diff --name-only origin/main -- '*.yaml')
      stowplan check -f cluster.json -o sarif deploy/*.yaml >stowplan.sarif
      stowplan check --recording cluster.recording --at 2026-11-20T12:03 web.yaml
      helm template ./chart >rendered.yaml && stowplan check rendered.yaml
    """
    # Slow to import, and not needed for the help.
    from stowplan.ask.check.changed_files import read_changed
    from stowplan.ask.check.check import check as check_changed
    from stowplan.ask.check.check_text import annotated, check_page, sarif
    from stowplan.ask.explain.text.tables import write

    if not manifests:
        raise click.UsageError(
            "Name the manifests to check; the cluster is given with -f or --recording, or is the live one."
        )
    with reported(source["config"]):
        about = cluster_of(**source, quotas=True)
        cluster = about.cluster
        changed = read_changed(manifests, cluster.state.everything())
        record = check_changed(cluster, changed, about.quotas)
    match output:
        case "json":
            write_data(record.to_dict() | answered_as(cluster.state.emulated_version), output)
        case "sarif":
            write_data(sarif(record), "json")
        case "github":
            click.echo("".join(f"{line}\n" for line in annotated(record)), nl=False)
        case _:
            write(check_page(record), sys.stdout)
    if cluster.failures:
        raise InputError(*cluster.failures)
    if not record.passed:
        raise SystemExit(NO)
