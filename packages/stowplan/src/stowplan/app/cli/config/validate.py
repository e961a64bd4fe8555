"""`stowplan config validate`: check a file as the scheduler would at startup, and report settings without effect."""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import click

from stowplan.app.cli.config.config_options import file_argument, known_plugins, plugin_options, read, shown
from stowplan.app.cli.data_output import output_option, write_data
from stowplan.app.command_line.feature_gates import features_of
from stowplan.app.command_line.named_plugins import plugin_names
from stowplan.kube.config import ConfigError
from stowplan.kube.config.errors import ConfigFileError
from stowplan.kube.config.load import load_document
from stowplan.kube.config.reports.conversion import refusals
from stowplan.kube.config.schema import API_VERSION
from stowplan.kube.config.unused_settings import unused_plugins, unused_settings

if TYPE_CHECKING:
    from stowplan.kube.config import Declarations, FeatureGates

_INVALID = 2
#: Maximum number of warnings.
_MAX_WARNINGS = 100


@click.command(short_help="Check whether a scheduler would start with it.")
@file_argument("files", nargs=-1, required=True)
@plugin_options
@output_option("text", "json", "yaml")
@click.pass_context
def validate(
    ctx: click.Context, *, files: tuple[str, ...], plugins: tuple[str, ...], gates: tuple[str, ...], output: str
) -> None:
    """Check whether a scheduler would start with each FILE. Errors are kube-scheduler's own, with additional hints, and
    warnings about settings without effect (an unknown plugin name that is disabled, for instance), and about files that
    work here, but that kube-scheduler 1.36 would refuse, such as those of older versions.

    The kubeconfig, files and certificates named in the configuration are read on this machine; no cluster is contacted.

    Exit codes: 0: all are valid; 2: a file is invalid.
    """
    known, features = known_plugins(plugins), features_of(gates)
    found = [_validated(file, known, features, plugin_names(plugins)) for file in files]
    if output == "text":
        for record in found:
            _print_report(record)
    else:
        write_data({"files": found}, output)
    ctx.exit(0 if all(record["valid"] for record in found) else _INVALID)


def _validated(file: str, known: Declarations, features: FeatureGates, asked_for: list[str]) -> dict[str, Any]:
    record: dict[str, Any] = {"file": shown(file), "valid": False}
    try:
        document = read(file)
        loaded = load_document(document, plugins=known, features=features)
        _check_kubeconfig(loaded.configuration.client_connection.kubeconfig)
    except ConfigError as error:
        record["error"] = str(error)
        record["hints"] = list(error.hints)
        record["unreadable"] = isinstance(error, ConfigFileError)
        return record
    upgrade = loaded.upgrade
    older_version = upgrade.origin if upgrade is not None else ""
    record["valid"] = True
    record["version"] = older_version or API_VERSION
    record["profiles"] = [profile.scheduler_name for profile in loaded.configuration.profiles]
    warnings = upgrade.warnings if upgrade is not None else ()
    # Those of an older version: the conversion has already warned, and the paths would be those of its result.
    settings = () if older_version else unused_settings(loaded.fields, loaded.configuration, known)
    unused = unused_plugins(loaded.configuration, asked_for)
    refused = refusals("it", document, loaded.configuration, known, features)
    record["warnings"] = list(islice(chain(refused, warnings, settings, unused), _MAX_WARNINGS))
    return record


def _check_kubeconfig(path: str) -> None:
    """Raise ConfigError with kube-scheduler's message if no cluster can be found by it."""
    if not path:
        return
    from stowplan.net.client.connection import ClientConfigError, connect_from_scheduler_flags

    try:
        connect_from_scheduler_flags(kubeconfig=path, master=None)
    except ClientConfigError as error:
        raise ConfigError(str(error), "clientConnection.kubeconfig is read on the machine of the scheduler") from None


def _print_report(record: dict[str, Any]) -> None:
    if not record["valid"]:
        prefix = "" if record["unreadable"] else f"{record['file']}: "
        click.echo(f"error: {prefix}{record['error']}", err=True)
        for hint in record["hints"]:
            click.echo(f"hint: {hint}", err=True)
        return
    click.echo(f"{record['file']}: valid, {record['version']}, {_profiles(record['profiles'])}")
    for warning in record["warnings"]:
        click.echo(f"warning: {record['file']}: {warning}", err=True)


def _profiles(names: list[str]) -> str:
    return f"{'profile' if len(names) == 1 else 'profiles'} {', '.join(names)}"
