"""Report errors as one line on stderr with an exit code, without a traceback.

0: done (a pod that stays pending is an answer, too). 2: the input or the way the command was called is at fault.
1: the fault is here. 130: interrupted.
"""

from __future__ import annotations

import os
import sys
import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from stowplan.command_line.standard_streams import complain, into_nothing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Set to anything, it shows where an internal error came from.
DEBUG_VARIABLE = "STOWPLAN_DEBUG"


class InputError(click.ClickException):
    """What the user gave cannot be worked with."""

    exit_code = 2

    def __init__(self, *problems: str, hints: Sequence[str] = ()) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems
        #: What may help.
        self.hints = tuple(hints)

    def show(self, file: Any = None) -> None:
        for problem in self.problems:
            click.echo(f"error: {problem}", file=file, err=file is None)
        for hint in self.hints:
            click.echo(f"hint: {hint}", file=file, err=file is None)


@contextmanager
def reported(config: str | None = None) -> Iterator[None]:
    """Tell what is wrong with the input in the words of whoever found it; `config` is the configuration's file."""
    try:
        yield
    except Exception as error:
        told = _input_error(error, config)
        if told is None:
            raise
        raise told from error


def _input_error(error: Exception, config: str | None) -> InputError | None:
    """What users are told of it; None if the input is not at fault."""
    # Imported once something is wrong: they bring the whole scheduler along, and `--help` needs none of it.
    from stowplan.api.load import LoadError
    from stowplan.config import ConfigError, ConfigFileError
    from stowplan.framework.runtime.line_up import PluginInitError
    from stowplan.framework.runtime.registry import PluginLoadError
    from stowplan.offline import ClusterError

    match error:
        case LoadError():
            return InputError(*error.errors)
        case ConfigFileError() | PluginLoadError() | PluginInitError() | ClusterError():
            return InputError(str(error))
        case ConfigError():
            # The reference's words do not say which file it is.
            return InputError(f"{config}: {error}" if config else str(error), hints=error.hints)
        case _:
            return None


def reader_left() -> int:
    """Whoever read our output has seen enough; nothing more can be written, at exit neither."""
    into_nothing(sys.stdout)
    return 0


def disk_full(error: OSError) -> int:
    complain(f"error: standard output: {error.strerror}")
    return 1


def internal_error(error: Exception) -> int:
    complain(f"internal error: {type(error).__name__}: {error}")
    if os.environ.get(DEBUG_VARIABLE):
        complain("".join(traceback.format_exception(error)))
    else:
        complain(f"This is a bug in Stowplan. {DEBUG_VARIABLE}=1 shows where it comes from.")
    return 1
