"""`stowplan config view`: the effective plugins, and the origin of each."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from stowplan.app.cli.config.config_options import file_argument, known_plugins, plugin_options, read, refused, shown
from stowplan.app.cli.data_output import output_option, write_data
from stowplan.app.command_line.feature_gates import features_of
from stowplan.ask.explain.text.tables import Grid, Line, write
from stowplan.kube.config import ConfigError
from stowplan.kube.config.load import load_document
from stowplan.kube.config.reports.differences import differences, effective_profiles
from stowplan.kube.config.schema import API_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stowplan.ask.explain.text.tables import Block
    from stowplan.kube.config import Configuration, Declarations, FeatureGates
    from stowplan.kube.config.load import Loaded
    from stowplan.kube.config.reports.differences import EffectiveProfile


_INVALID = 2


@click.command(short_help="Show which plugins run where, and where each comes from.")
@file_argument("files", nargs=-1, required=True)
@plugin_options
@output_option("text", "json", "yaml")
@click.pass_context
def view(
    ctx: click.Context, *, files: tuple[str, ...], plugins: tuple[str, ...], gates: tuple[str, ...], output: str
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
    known, features = known_plugins(plugins), features_of(gates)
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
