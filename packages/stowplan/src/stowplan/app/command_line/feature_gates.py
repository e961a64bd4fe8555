"""The option `--feature-gates` of commands that are not kube-scheduler: repeatable, `GATE=BOOL,…`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from stowplan.app.command_line.error_reporting import InputError
from stowplan.app.command_line.flags.flag_set import FlagError
from stowplan.app.command_line.flags.gates import gates_of
from stowplan.kube.config import FeatureGates


def feature_gates_option(help_text: str) -> Callable[..., Any]:
    """Its value is an argument of `features_of`."""
    return click.option("--feature-gates", "gates", metavar="GATE=BOOL,…", multiple=True, help=help_text)


def features_of(gates: Sequence[str]) -> FeatureGates:
    """Raises InputError."""
    settings = [("", setting) for text in gates for setting in text.split(",") if setting]
    try:
        return gates_of(settings).features
    except FlagError as error:
        raise InputError(f"--feature-gates: {error}") from error
