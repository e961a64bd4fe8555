"""`stowplan completion`: shell completion scripts."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

_COMMAND = "stowplan"
_VARIABLE = "_STOWPLAN_COMPLETE"


@click.command(short_help="Let your shell complete commands, files and names.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, *, shell: str) -> None:
    """Print a completion script for SHELL. It completes commands, options, files, contexts, namespaces, kinds, and
    names of nodes, pods and workloads, from the files of -f or the live cluster. A cluster that does not answer within
    half a second offers no names.

    \b
    For this session, or in ~/.bashrc, ~/.zshrc:
      source <(stowplan completion bash)
      source <(stowplan completion zsh)
    For fish, once:
      stowplan completion fish > ~/.config/fish/completions/stowplan.fish
    """
    found = get_completion_class(shell)
    assert found is not None
    script = found(ctx.find_root().command, {}, _COMMAND, _VARIABLE)
    click.echo(script.source_template % script.source_vars())
