"""The options `--feature-gates` and `--emulated-version` of commands that are not kube-scheduler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from stowplan.app.command_line.error_reporting import InputError
from stowplan.app.command_line.flags.flag_set import FlagError
from stowplan.app.command_line.flags.gates import gates_of, version_errors, versions_of
from stowplan.kube.config import FeatureGates
from stowplan.kube.kubernetes_versions import BINARY_VERSION, OLDEST_VERSION


def emulated_version_option(help_text: str) -> Callable[..., Any]:
    help_text = f"{help_text} From {OLDEST_VERSION} to {BINARY_VERSION}."
    return click.option("--emulated-version", metavar="MAJOR.MINOR", help=help_text)


def feature_options(help_text: str) -> Callable[[Callable[..., Any]], Any]:
    """`--feature-gates`, repeatable, `GATE=BOOL,…`, and `--emulated-version`: the arguments of `features_of`."""
    gates = click.option("--feature-gates", "gates", metavar="GATE=BOOL,…", multiple=True, help=help_text)
    version = emulated_version_option("The version of kube-scheduler to behave as.")
    return lambda command: gates(version(command))


def features_of(gates: Sequence[str], emulated_version: str | None) -> FeatureGates:
    """Raises InputError."""
    settings = [("", setting) for text in gates for setting in text.split(",") if setting]
    option = "--emulated-version"
    try:
        versions = versions_of(() if emulated_version is None else (emulated_version,))
        for problem in version_errors(versions):
            raise FlagError(problem)
        option = "--feature-gates"
        return gates_of(settings, versions).features
    except FlagError as error:
        raise InputError(f"{option}: {error}") from error
