"""The `stowplan` command: the scheduler's own commands; installed packages contribute others (`stowplan.commands`)."""

from __future__ import annotations

import sys

import click

from stowplan import __version__
from stowplan.app.command_line.commands import Commands, Section
from stowplan.app.command_line.standard_streams import replace_missing_streams
from stowplan.kube import compiled
from stowplan.kube.kubernetes_versions import DEFAULT_VERSION
from stowplan.kube.timing.process_tuning import collect_garbage_less_often

_QUESTIONS = Section(
    "Where would my pods go, and why?",
    (
        ("stowplan explain pending", "why pods of a live cluster are pending, what would help"),
        ("stowplan explain pod shop/web-0", "where one pod goes, and why there"),
        ("stowplan dump -o cluster.json", "save the cluster in a file"),
        ("stowplan explain -f cluster.json pending", "the same from files"),
        ("stowplan ui", "the cluster as a picture in your browser"),
        ("stowplan mcp", "the same for agents, as tools"),
    ),
)
_WHAT_IF = Section(
    "What if?",
    (
        ("stowplan fit deployment/shop/web --replicas 20", "how many more fit, what runs out, nodes to add"),
        ("stowplan drain node-a1", "where its pods would go; evicts no pods"),
        ("stowplan survive", "what the loss of each zone or node would cost"),
        ("stowplan what-if --add-nodes 3 --like node-a1", "before and after, side by side"),
        ("stowplan rebalance --goal free-nodes=2", "which pods to move, and where they would go"),
        ("stowplan check -f cluster.json web.yaml", "whether a change fits, for pull requests"),
    ),
)
_RECORDINGS = Section(
    "What was decided, and what would have been?",
    (
        ("stowplan record cluster.recording", "record a live cluster into a file"),
        ("stowplan explain --recording FILE --at TIME …", "ask about any moment of it"),
        ("stowplan replay FILE --config new.yaml", "schedule everything again, differently configured"),
        ("stowplan shadow", "compare with a running scheduler"),
    ),
)
_CONFIGURATIONS = Section(
    "What does my configuration mean?",
    (
        ("stowplan config view scheduler.yaml", "which plugins run where, and where each comes from"),
        ("stowplan config convert policy.json", "any version, or a policy, as v1"),
        ("stowplan completion bash", "shell completion"),
    ),
)
_IN_A_CLUSTER = Section(
    "In a cluster:",
    (
        ("stowplan run --scheduler-name mine", "schedule the pods that ask for it"),
        ("kube-scheduler --kubeconfig FILE", "replaces Kubernetes' own, with the same flags"),
    ),
)
#: The module of each command. Imported on use: a run needs only one of them.
HOMES = {
    "check": "stowplan.app.cli.check:check",
    "completion": "stowplan.app.cli.shell_completion:completion",
    "config": "stowplan.app.cli.config:config",
    "drain": "stowplan.app.cli.drain:drain",
    "dump": "stowplan.app.cli.dump:dump",
    "explain": "stowplan.app.cli.explain.command:explain",
    "fit": "stowplan.app.cli.fit:fit",
    "mcp": "stowplan.app.cli.mcp.command:mcp",
    "rebalance": "stowplan.app.cli.rebalance:rebalance",
    "record": "stowplan.app.cli.record:record",
    "replay": "stowplan.app.cli.replay:replay",
    "run": "stowplan.app.cli.run:run",
    "shadow": "stowplan.app.cli.shadow:shadow",
    "survive": "stowplan.app.cli.survive:survive",
    "ui": "stowplan.app.cli.ui:ui",
    "what-if": "stowplan.app.cli.what_if:what_if",
}
#: The distribution of each command that packages of ours contribute.
_ELSEWHERE = {
    **dict.fromkeys(("apiserver", "demo", "up"), "stowplan-cluster"),
    **dict.fromkeys(("compare", "scenario", "simulate", "tune"), "stowplan-lab"),
}


def _show_version(context: click.Context, _option: click.Parameter, asked: bool) -> None:
    if asked and not context.resilient_parsing:
        click.echo(f"stowplan {compiled.with_sources(__version__)} (decides as kube-scheduler {DEFAULT_VERSION})")
        context.exit()


@click.group(
    cls=Commands,
    homes=HOMES,
    elsewhere=_ELSEWHERE,
    sections=(_QUESTIONS, _WHAT_IF, _RECORDINGS, _CONFIGURATIONS, _IN_A_CLUSTER),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
def cli() -> None:
    """Schedule Kubernetes pods; explain, predict and simulate what a scheduler decides."""


def main() -> None:
    run(cli, "stowplan")


def run(program: click.Group, name: str) -> None:
    collect_garbage_less_often()
    replace_missing_streams()
    for stream in (sys.stdout, sys.stderr):
        # Print a replacement for characters that the terminal cannot show, instead of failing.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    program(prog_name=name)


if __name__ == "__main__":
    main()
