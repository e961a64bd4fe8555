"""`stowplan config`: what a configuration means, offline."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import chain, islice
from typing import Any

import click
from click.shell_completion import CompletionItem
from msgspec.structs import replace

from stowplan.app.cli.data_output import output_option, write_data
from stowplan.app.cli.shell_completion import complete_file
from stowplan.app.command_line.error_reporting import InputError
from stowplan.app.command_line.feature_gates import emulated_version_option, feature_options, features_of
from stowplan.app.command_line.named_plugins import plugin_names
from stowplan.app.command_line.plugin_option import PLUGINS
from stowplan.app.daemon.plugin_registry import registry_with
from stowplan.ask.explain.text.tables import Block, Grid, Line, write
from stowplan.kube.config import ConfigError, Configuration, Declarations, FeatureGates
from stowplan.kube.config.config_documents import Document, parse_document, read_source
from stowplan.kube.config.config_errors import ConfigFileError
from stowplan.kube.config.config_loading import Loaded, load_document
from stowplan.kube.config.reports.conversion import converted, converted_text, refusals
from stowplan.kube.config.reports.differences import Difference, EffectiveProfile, differences, effective_profiles
from stowplan.kube.config.reports.fields import (
    ExplainedField,
    UnknownFieldError,
    explain_field,
    json_schema,
    known_paths,
)
from stowplan.kube.config.schema import API_VERSION
from stowplan.kube.config.unused_settings import unused_plugins, unused_settings
from stowplan.scheduler.framework.runtime.registry import PluginLoadError

_STDIN = "-"

_OPTIONS = (
    PLUGINS,
    feature_options(
        "Set these feature gates, which decide which plugins run by default and which arguments are valid."
    ),
)


def plugin_options(command: Callable[..., Any]) -> Any:
    """Options that select plugins and feature gates, for `known_plugins` and `features_of`."""
    return reduce(lambda made, option: option(made), reversed(_OPTIONS), command)


def file_argument(name: str = "file", **more: Any) -> Callable[..., Any]:
    return click.argument(name, shell_complete=complete_file, **more)


def known_plugins(paths: Sequence[str]) -> Declarations:
    """Declarations of all plugins that a configuration may name."""
    try:
        return registry_with(paths).declarations
    except PluginLoadError as error:
        raise InputError(str(error)) from error


def read(file: str) -> Document:
    if file != _STDIN:
        return parse_document(read_source(file))
    try:
        text = sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigFileError("read stdin: not UTF-8 text") from None
    return parse_document(text)


def load(file: str, plugins: Declarations, features: FeatureGates) -> Loaded:
    """Load a configuration of any version; raise InputError."""
    try:
        return load_document(read(file), plugins=plugins, features=features)
    except ConfigError as error:
        raise refused(file, error) from error


def refused(file: str, error: ConfigError) -> InputError:
    # The reference's messages do not contain the file name.
    problem = str(error) if isinstance(error, ConfigFileError) else f"{shown(file)}: {error}"
    return InputError(problem, hints=error.hints)


def shown(file: str) -> str:
    return "stdin" if file == _STDIN else file


_INVALID = 2


@click.command(short_help="Show which plugins run where, and where each comes from.")
@file_argument("files", nargs=-1, required=True)
@plugin_options
@output_option("text", "json", "yaml")
@click.pass_context
def view(
    ctx: click.Context,
    *,
    files: tuple[str, ...],
    plugins: tuple[str, ...],
    gates: tuple[str, ...],
    emulated_version: str | None,
    output: str,
) -> None:
    """Show the effect of each FILE: for each profile, the plugins of each extension point in the order they run, and
    where each comes from.

    \b
      explicit    the file names it at the extension point
      multiPoint  the file names it at multiPoint
      default     enabled by default (of the release of the file, if that is older)

    Also shows default plugins that do not run, and settings and arguments that differ from the defaults.

    Exit codes: 0: done; 2: a file is invalid.
    """
    known, features = known_plugins(plugins), features_of(gates, emulated_version)
    records, is_valid = [], True
    for file in files:
        try:
            loaded = load_document(read(file), plugins=known, features=features)
        except ConfigError as error:
            is_valid = False
            if output == "text":
                refused(file, error).show()
            records.append({"file": shown(file), "error": str(error), "hints": list(error.hints)})
            continue
        profiles = effective_profiles(loaded, known, features)
        if output == "text":
            write(list(_page(file, loaded, profiles, known, features)), sys.stdout)
        records.append(_record(file, loaded, profiles))
    if output != "text":
        write_data({"files": records}, output)
    ctx.exit(0 if is_valid else _INVALID)


def _version(loaded: Loaded) -> str:
    return loaded.upgrade.origin if loaded.upgrade is not None and loaded.upgrade.origin else API_VERSION


def _record(file: str, loaded: Loaded, profiles: list[EffectiveProfile]) -> dict[str, Any]:
    return {
        "file": shown(file),
        "version": _version(loaded),
        "warnings": list(loaded.upgrade.warnings) if loaded.upgrade is not None else [],
        "profiles": [profile.to_dict() for profile in profiles],
        "configuration": loaded.configuration.to_dict(),
    }


def _page(
    file: str, loaded: Loaded, profiles: list[EffectiveProfile], known: Declarations, features: FeatureGates
) -> Iterator[Block]:
    yield Line(((f"{shown(file)}: {_version(loaded)}", "head"),))
    for warning in loaded.upgrade.warnings if loaded.upgrade is not None else ():
        yield Line((("warning: ", "pending"), (warning, "")))
    for profile in profiles:
        yield Line()
        yield Line((("profile ", "head"), (profile.scheduler_name, "name")))
        yield Grid(list(_rows(profile)), header=("POINT", "PLUGIN", "WEIGHT", "FROM", ""), right=frozenset({2}))
        if profile.left_out:
            yield Line()
            yield Line((("default plugins that do not run", "head"),), indent=2)
            yield Grid([(name, why) for name, why in profile.left_out.items()], indent=4)
    changed = list(_changed(loaded.configuration, known, features))
    if changed:
        yield Line()
        yield Line((("other than by default", "head"),))
        yield Grid(changed)


def _rows(profile: EffectiveProfile) -> Iterator[tuple[str, ...]]:
    for point, plugins in profile.points.items():
        for i, plugin in enumerate(plugins):
            weight = "" if plugin.weight is None else str(plugin.weight)
            yield (point if i == 0 else "", plugin.name, weight, plugin.origin, plugin.note)


def _changed(configuration: Configuration, known: Declarations, features: FeatureGates) -> Iterator[tuple[str, str]]:
    """Settings, arguments and extenders; plugins are shown separately."""
    default = load_document(None, plugins=known, features=features).configuration
    names = [profile.scheduler_name for profile in configuration.profiles]
    profiles = tuple(replace(default.profiles[0], scheduler_name=name) for name in names)
    for one in differences(replace(default, profiles=profiles), configuration):
        if not one.path.startswith("profile ") or ": arguments of " in one.path or "percentage" in one.path:
            yield one.path, _value(one.right)


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


#: Maximum number of warnings.
_MAX_WARNINGS = 100


@click.command(short_help="Check whether a scheduler would start with it.")
@file_argument("files", nargs=-1, required=True)
@plugin_options
@output_option("text", "json", "yaml")
@click.pass_context
def validate(
    ctx: click.Context,
    *,
    files: tuple[str, ...],
    plugins: tuple[str, ...],
    gates: tuple[str, ...],
    emulated_version: str | None,
    output: str,
) -> None:
    """Check whether a scheduler would start with each FILE. Errors are kube-scheduler's own, with additional hints, and
    warnings about settings without effect (an unknown plugin name that is disabled, for instance), and about files that
    work here, but that kube-scheduler itself would refuse, such as those of older versions.

    The kubeconfig, files and certificates named in the configuration are read on this machine; no cluster is contacted.

    Exit codes: 0: all are valid; 2: a file is invalid.
    """
    known, features = known_plugins(plugins), features_of(gates, emulated_version)
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


@click.command(short_help="Convert any version, or a policy, to v1.")
@file_argument()
@plugin_options
@output_option("yaml", "json")
def convert(
    *, file: str, plugins: tuple[str, ...], gates: tuple[str, ...], emulated_version: str | None, output: str
) -> None:
    """Convert FILE, a configuration of any version or a Policy, to an equivalent KubeSchedulerConfiguration of v1.
    Comments say what changed and why; settings that v1 cannot express are also reported on stderr. A v1 file is not
    changed.

    The result is loaded again and compared with the original before it is written. A warning says if kube-scheduler
    would refuse it, because it needs a plugin that Kubernetes removed and Stowplan keeps.

    \b
    Example:
      stowplan config convert policy.json > scheduler.yaml
    """
    known, features = known_plugins(plugins), features_of(gates, emulated_version)
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


_DIFFERENT = 1


@click.command(short_help="Compare what two files mean, not their text.")
@file_argument("left")
@file_argument("right", required=False)
@plugin_options
@output_option("text", "json", "yaml")
@click.pass_context
def diff(
    ctx: click.Context,
    *,
    left: str,
    right: str | None,
    plugins: tuple[str, ...],
    gates: tuple[str, ...],
    emulated_version: str | None,
    output: str,
) -> None:
    """Show differences in effect between LEFT and RIGHT: which plugins run where and with which weight, their
    arguments, extenders, settings. The files may have different versions. A single file is compared with the defaults.

    The order of plugins matters where they run one after the other, not where scores are added up. Fields that another
    field overrides are ignored.

    Exit codes: 0: equal; 1: different; 2: a file is invalid.
    """
    known, features = known_plugins(plugins), features_of(gates, emulated_version)
    names = ("defaults", shown(left)) if right is None else (shown(left), shown(right))
    given = load(left, known, features)
    if right is None:
        sides = (load_document(None, plugins=known, features=features), given)
    else:
        sides = (given, load(right, known, features))
    found = differences(sides[0].configuration, sides[1].configuration)
    if output == "text":
        _print_differences(names, found)
    else:
        record = {"left": names[0], "right": names[1], "differences": [one.to_dict() for one in found]}
        write_data(record, output)
    ctx.exit(_DIFFERENT if found else 0)


def _print_differences(names: tuple[str, str], found: list[Difference]) -> None:
    if not found:
        return
    click.echo(f"--- {names[0]}")
    click.echo(f"+++ {names[1]}")
    for one in found:
        click.echo(one.path)
        for sign, value in (("-", one.left), ("+", one.right)):
            if value is not None:
                click.echo(f"  {sign} {_value(value)}")


@click.command(short_help="Write the configuration that applies without a file.")
@plugin_options
@output_option("yaml", "json")
def defaults(*, plugins: tuple[str, ...], gates: tuple[str, ...], emulated_version: str | None, output: str) -> None:
    """Write the complete configuration that applies without a file, as kube-scheduler --write-config-to does."""
    loaded = load_document(None, plugins=known_plugins(plugins), features=features_of(gates, emulated_version))
    write_data(loaded.configuration.to_dict(), output)


_WIDTH = 100


class _FieldPath(click.ParamType[str]):
    name = "field"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        depth = incomplete.count(".")
        paths = known_paths(known_plugins(()))
        found = dict.fromkeys(path for path in paths if path.startswith(incomplete) and path.count(".") == depth)
        return [CompletionItem(path) for path in found]


@click.command(short_help="Describe a field: type, default, versions.")
@click.argument("field", type=_FieldPath(), default="")
@plugin_options
@output_option("text", "json", "yaml")
def explain(
    *, field: str, plugins: tuple[str, ...], gates: tuple[str, ...], emulated_version: str | None, output: str
) -> None:
    """Describe FIELD: its type, default and range, which versions have it and what it does. FIELD is a path in the
    configuration, a kind of plugin arguments (optionally with a path in it), a plugin, or Policy.

    \b
    Examples:
      stowplan config explain
      stowplan config explain profiles.plugins.score
      stowplan config explain NodeResourcesFitArgs.scoringStrategy
      stowplan config explain Policy.priorities
    """
    try:
        found = explain_field(field, known_plugins(plugins), features_of(gates, emulated_version))
    except UnknownFieldError as error:
        raise InputError(str(error), hints=error.hints) from error
    if output == "text":
        click.echo("\n".join(_field_lines(found)))
    else:
        write_data(found.to_dict(), output)


def _field_lines(found: ExplainedField) -> Iterator[str]:
    facts: dict[str, Any] = {
        "KIND": found.kind,
        "FIELD": f"{found.path} <{found.type}>" if found.path else "",
        "DEFAULT": found.default,
        "RANGE": found.range,
        "VALUES": ", ".join(found.choices),
        "VERSIONS": ", ".join(found.versions),
    }
    yield from (f"{f'{name}:':<12}{value}" for name, value in facts.items() if value)
    if found.text:
        yield ""
        yield from textwrap.wrap(found.text, _WIDTH)
    if found.notes:
        yield ""
        yield from found.notes
    if found.fields:
        yield ""
        yield "FIELDS"
        for name, type_, text in found.fields:
            yield f"  {name} <{type_}>"
            yield from textwrap.wrap(text, _WIDTH, initial_indent="    ", subsequent_indent="    ")


@click.command(short_help="Write the JSON schema of v1, for editors.")
@PLUGINS
@emulated_version_option("The version of kube-scheduler that reads the configuration.")
def schema(*, plugins: tuple[str, ...], emulated_version: str | None) -> None:
    """Write the JSON schema (draft-07) of KubeSchedulerConfiguration v1. Editors complete and check fields by it.

    \b
    Example, for editors with the YAML language server:
      stowplan config schema > scheduler.schema.json
      # yaml-language-server: $schema=scheduler.schema.json   (first line of the configuration)
    """
    click.echo(
        json.dumps(
            json_schema(known_plugins(plugins), features_of((), emulated_version).emulated_version),
            indent=2,
            ensure_ascii=False,
        )
    )


@click.group("config", short_help="Show, check and convert scheduler configurations.")
def config() -> None:
    """Show, check and convert scheduler configurations: KubeSchedulerConfiguration of every version, and policies.

    Files are YAML or JSON, FILE may be - for stdin. No cluster is contacted.

    \b
    Examples:
      stowplan config view scheduler.yaml
      stowplan config validate scheduler.yaml other.yaml
      stowplan config convert policy.json > scheduler.yaml
      stowplan config diff old.yaml scheduler.yaml
      stowplan config explain profiles.plugins.score
    """


for command in (view, validate, convert, diff, defaults, explain, schema):
    config.add_command(command)
