"""Options and errors shared by the `stowplan config` commands."""

from __future__ import annotations

import sys
from functools import reduce
from typing import TYPE_CHECKING, Any

import click

from stowplan.app.cli.shell_completion import complete_file
from stowplan.app.command_line.error_reporting import InputError
from stowplan.app.command_line.feature_gates import feature_gates_option
from stowplan.app.command_line.plugin_option import PLUGINS
from stowplan.app.daemon.plugin_registry import registry_with
from stowplan.kube.config import ConfigError
from stowplan.kube.config.documents import parse_document, read_source
from stowplan.kube.config.errors import ConfigFileError
from stowplan.kube.config.load import load_document
from stowplan.scheduler.framework.runtime.registry import PluginLoadError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stowplan.kube.config import Declarations, FeatureGates
    from stowplan.kube.config.documents import Document
    from stowplan.kube.config.load import Loaded

_STDIN = "-"

_OPTIONS = (
    PLUGINS,
    feature_gates_option(
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
