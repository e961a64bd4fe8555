"""Report errors as one line on stderr with an exit code, without a traceback.

0: success (a pending pod is a valid answer, too). 2: invalid input or usage. 1: an internal error. 130: interrupted.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from stowplan.app.command_line.standard_streams import discard_output, print_to_stderr

#: If set, internal errors are shown with their traceback.
DEBUG_VARIABLE = "STOWPLAN_DEBUG"


class InputError(click.ClickException):
    """Invalid user input."""

    exit_code = 2

    def __init__(self, *problems: str, hints: Sequence[str] = ()) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems
        #: Suggestions.
        self.hints = tuple(hints)

    def show(self, file: Any = None) -> None:
        from stowplan.ask.explain.text.tables import printable_text

        for problem in self.problems:
            click.echo(f"error: {printable_text(problem)}", file=file, err=file is None)
        for hint in self.hints:
            click.echo(f"hint: {hint}", file=file, err=file is None)


@contextmanager
def reported(config: str | None = None) -> Iterator[None]:
    """Convert errors about the input to InputError; `config` is the configuration file."""
    try:
        yield
    except Exception as error:
        converted = _input_error(error, config)
        if converted is None:
            raise
        raise converted from error


def _input_error(error: Exception, config: str | None) -> InputError | None:
    """The error for users; None if it is not about the input."""
    # Imported on error only: they import the whole scheduler, which `--help` does not need.
    from stowplan.ask.offline import ClusterError
    from stowplan.kube.api.manifest_files import LoadError
    from stowplan.kube.config import ConfigError, ConfigFileError
    from stowplan.scheduler.framework.runtime.profile_plugins import PluginInitError
    from stowplan.scheduler.framework.runtime.registry import PluginLoadError

    match error:
        case LoadError():
            return InputError(*error.errors)
        case ConfigFileError() | PluginLoadError() | PluginInitError() | ClusterError():
            return InputError(str(error))
        case ConfigError():
            # The reference's messages do not contain the file name.
            return InputError(f"{config}: {error}" if config else str(error), hints=error.hints)
        case _:
            return None


def handle_closed_output() -> int:
    """The reader closed our output; also suppress errors at exit."""
    discard_output(sys.stdout)
    return 0


def disk_full(error: OSError) -> int:
    print_to_stderr(f"error: standard output: {error.strerror}")
    return 1


def internal_error(error: Exception) -> int:
    print_to_stderr(f"internal error: {type(error).__name__}: {error}")
    if os.environ.get(DEBUG_VARIABLE):
        print_to_stderr("".join(traceback.format_exception(error)))
    else:
        print_to_stderr(f"This is a bug in Stowplan. {DEBUG_VARIABLE}=1 shows where it comes from.")
    return 1
