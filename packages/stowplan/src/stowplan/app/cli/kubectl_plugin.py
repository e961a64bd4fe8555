"""`kubectl stowplan`: the commands that ask a cluster, as a plugin of kubectl.

kubectl runs `kubectl-stowplan` with the words after its own name, and `kubectl_complete-stowplan` for completion, whose
answer has the form of cobra's: a choice a line, then a directive. The commands are those of `stowplan`; their help
names them as they are called here.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from copy import copy

import click
from click.shell_completion import CompletionItem, ShellComplete

from stowplan import __version__
from stowplan.app.cli.main import HOMES, run
from stowplan.app.command_line.commands import Commands, Section
from stowplan.kube.kubernetes_versions import DEFAULT_VERSION

_PROGRAM = "kubectl stowplan"
#: What schedules, serves or has nothing to do with a cluster stays with `stowplan`.
_COMMANDS = ("check", "drain", "dump", "explain", "fit", "rebalance", "record", "shadow", "survive", "ui", "what-if")
_CALL = re.compile(rf"(?<![\w/-])stowplan (?={'|'.join(_COMMANDS)})")

_QUESTIONS = Section(
    "Where would my pods go, and why?",
    (
        ("kubectl stowplan explain pending", "why pods are pending, what would help"),
        ("kubectl stowplan explain pod web-0 -n shop", "where one pod goes, and why there"),
        ("kubectl stowplan ui", "the cluster as a picture in your browser"),
    ),
)
_WHAT_IF = Section(
    "What if?",
    (
        ("kubectl stowplan fit deployment/web --replicas 20", "how many more fit, what runs out, nodes to add"),
        ("kubectl stowplan drain node-a1", "where its pods would go; evicts no pods"),
        ("kubectl stowplan survive", "what the loss of each zone or node would cost"),
        ("kubectl stowplan what-if --add-nodes 3 --like node-a1", "before and after, side by side"),
        ("kubectl stowplan rebalance --goal free-nodes=2", "which pods to move, and where they would go"),
    ),
)
#: cobra's directives: whether the shell offers files where there is no choice.
_FILES, _NO_FILES = ":0", ":4"


class _Questions(Commands):
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        found = super().get_command(ctx, cmd_name)
        if found is None or found.help is None:
            return found
        here = copy(found)
        here.help = _CALL.sub(f"{_PROGRAM} ", found.help)
        return here


@click.group(
    cls=_Questions,
    homes={name: HOMES[name] for name in _COMMANDS},
    contributions=False,
    sections=(_QUESTIONS, _WHAT_IF),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, message=f"{_PROGRAM} %(version)s (decides as kube-scheduler {DEFAULT_VERSION})")
def cli() -> None:
    """Ask what the scheduler of a cluster decides, and why; only `rebalance --apply` changes anything there.

    The flags of kubectl that select a cluster and a user (kubectl options) stand after the command, and so do
    --request-timeout, which limits each request but watches, --disable-compression, and --cache-dir, which has no
    effect, as nothing is cached.
    """


def main() -> None:
    run(cli, _PROGRAM)


def complete() -> None:
    *words, incomplete = sys.argv[1:] or [""]
    print("\n".join(choices(words, incomplete)))


def choices(words: Sequence[str], incomplete: str) -> Iterator[str]:
    """The lines that kubectl's completion reads."""
    found = ShellComplete(cli, {}, _PROGRAM, "").get_completions([*words], incomplete)
    yield from (_line(item) for item in found if item.type == "plain")
    yield _FILES if any(item.type != "plain" for item in found) else _NO_FILES


def _line(item: CompletionItem) -> str:
    return f"{item.value}\t{item.help}" if item.help else str(item.value)
