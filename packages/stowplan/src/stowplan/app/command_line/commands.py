"""Command groups: help sections, and the exit code of each outcome.

The help of the group shows common tasks, in sections of examples. The group has sections of its own; commands of other
packages add theirs with `cls=Command, section=...`.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from stowplan.app.command_line.error_reporting import disk_full, handle_closed_output, internal_error
from stowplan.app.command_line.standard_streams import discard_unwritable_output
from stowplan.kube.structs import PlainStruct

if TYPE_CHECKING:
    from stowplan.app.command_line.contributed_commands import ContributedCommands

#: Context key for commands of installed packages.
_CONTRIBUTED = f"{__name__}.contributed"
_EXAMPLE_WIDTH = 52
_NONE: Mapping[str, str] = {}


class Section(PlainStruct, frozen=True):
    """A section of the group's help. An example is a command line and what it does, or "" if that is obvious."""

    title: str
    examples: tuple[tuple[str, str], ...]

    def lines(self) -> Iterator[str]:
        yield self.title
        for command_line, purpose in self.examples:
            yield f"  {command_line:{_EXAMPLE_WIDTH}}  {purpose}".rstrip()


class Command(click.Command):
    """A command with a section in the help of its group; commands may share one."""

    def __init__(self, *args: Any, section: Section | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.section = section


class Commands(click.Group):
    """A group with its own commands and those of installed packages; each is imported when it is run or listed."""

    def __init__(
        self,
        *args: Any,
        sections: Sequence[Section] = (),
        homes: Mapping[str, str] = _NONE,
        elsewhere: Mapping[str, str] = _NONE,
        contributions: bool = True,
        **kwargs: Any,
    ) -> None:
        """`homes`: its own commands that are imported lazily, name -> `module:attribute`.

        `elsewhere`: commands of other distributions, which may not be installed, name -> distribution.
        `contributions`: whether installed packages add commands.
        """
        super().__init__(*args, **kwargs)
        self.sections = tuple(sections)
        self._homes = homes
        self._elsewhere = elsewhere
        self._contributions = contributions

    # -- finding commands ----------------------------------------------------------------------------------------------

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted((*self._own_names(), *self._contributed(ctx).offered()))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in self._homes and cmd_name not in self.commands:
            module, _, attribute = self._homes[cmd_name].partition(":")
            self.add_command(getattr(import_module(module), attribute), cmd_name)
        if cmd_name in self.commands or cmd_name not in self._contributed(ctx):
            return self.commands.get(cmd_name)
        return self._contributed(ctx).find(cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Like click's, but a contributed command that cannot be loaded is an error that says why, and commands that
        are not loaded are suggested, too.
        """
        name = args[0]
        if name not in self._own_names() and name in self._contributed(ctx):
            return name, self._contributed(ctx).load(name), args[1:]
        if name not in self._own_names() and not name.startswith("-") and not ctx.resilient_parsing:
            if name in self._elsewhere:
                home = self._elsewhere[name]
                ctx.fail(
                    f"`{ctx.info_name} {name}` is in {home}, which is not installed: pip install ./packages/{home}, in "
                    "the clone (docs/run/install.md)."
                )
            near = get_close_matches(name, self.list_commands(ctx), n=1)
            ctx.fail(f"No such command {name!r}." + (f" Did you mean {near[0]!r}?" if near else ""))
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """`help` and `version` are options here, but commands of kubectl."""
        match args:
            case ["help", *words]:
                args = [*words, "--help"]
            case ["version", *_]:
                args = ["--version"]
        return super().parse_args(ctx, args)

    def _own_names(self) -> set[str]:
        return {*self.commands, *self._homes}

    def _contributed(self, ctx: click.Context) -> ContributedCommands:
        if _CONTRIBUTED not in ctx.meta:
            # Reads the metadata of all installed packages, which most commands do not need.
            from stowplan.app.command_line.contributed_commands import ContributedCommands, installed_commands

            taken = self._own_names()
            ctx.meta[_CONTRIBUTED] = (
                installed_commands(taken) if self._contributions else ContributedCommands((), taken)
            )
        found: ContributedCommands = ctx.meta[_CONTRIBUTED]
        return found

    # -- help ---------------------------------------------------------------------------------------------------------

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_help_text(ctx, formatter)
        commands = [self.get_command(ctx, name) for name in self.list_commands(ctx)]
        contributed = [one.section for one in commands if isinstance(one, Command) and one.section is not None]
        for section in dict.fromkeys((*self.sections, *contributed)):
            formatter.write_paragraph()
            with formatter.indentation():
                for line in section.lines():
                    formatter.write(f"{'':{formatter.current_indent}}{line}\n")

    # -- exit codes ----------------------------------------------------------------------------------------------------

    def main(self, args: Sequence[str] | None = None, prog_name: str | None = None, *more: Any, **extra: Any) -> Any:
        extra["standalone_mode"] = False
        try:
            code = super().main(args, prog_name, *more, **extra)
            sys.stdout.flush()
        except click.ClickException as error:
            with suppress(OSError):
                error.show()
            code = error.exit_code
        except (click.Abort, KeyboardInterrupt):
            code = 130
        except BrokenPipeError:
            code = handle_closed_output()
        except OSError as error:
            is_full = error.errno == errno.ENOSPC and error.filename is None
            code = disk_full(error) if is_full else internal_error(error)
        except Exception as error:
            code = internal_error(error)
        discard_unwritable_output()
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # Handled here, as click would turn it into a failure of the command.
            return handle_closed_output()
