"""`stowplan config convert`: convert a configuration of any version, or a Policy, to v1."""

from __future__ import annotations

import json

import click

from stowplan.app.cli.config.config_options import file_argument, known_plugins, plugin_options, read, refused, shown
from stowplan.app.cli.data_output import output_option
from stowplan.app.command_line.feature_gates import features_of
from stowplan.kube.config import ConfigError
from stowplan.kube.config.documents import parse_document
from stowplan.kube.config.load import load_document
from stowplan.kube.config.reports.conversion import converted, converted_text, refusals
from stowplan.kube.config.reports.differences import differences


@click.command(short_help="Convert any version, or a policy, to v1.")
@file_argument()
@plugin_options
@output_option("yaml", "json")
def convert(*, file: str, plugins: tuple[str, ...], gates: tuple[str, ...], output: str) -> None:
    """Convert FILE, a configuration of any version or a Policy, to an equivalent KubeSchedulerConfiguration of v1.
    Comments say what changed and why; settings that v1 cannot express are also reported on stderr. A v1 file is not
    changed.

    The result is loaded again and compared with the original before it is written. A warning says if kube-scheduler
    would refuse it, because it needs a plugin that Kubernetes removed and Stowplan keeps.

    \b
    Example:
      stowplan config convert policy.json > scheduler.yaml
    """
    known, features = known_plugins(plugins), features_of(gates)
    try:
        document = read(file)
        loaded = load_document(document, plugins=known, features=features)
    except ConfigError as error:
        raise refused(file, error) from error
    upgrade = loaded.upgrade
    assert upgrade is not None
    text = converted_text(document, upgrade)
    result = parse_document(text)
    again = load_document(result, plugins=known, features=features)
    if differences(loaded.configuration, again.configuration):
        raise AssertionError(f"{shown(file)} converted is another configuration")
    for warning in (*upgrade.warnings, *refusals("the result", result, again.configuration, known, features)):
        click.echo(f"warning: {shown(file)}: {warning}", err=True)
    click.echo(json.dumps(converted(upgrade), indent=2) if output == "json" else text, nl=output == "json")
