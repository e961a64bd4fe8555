"""`stowplan rebalance`: which running pods to move, and where the scheduler would put them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from time import time
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from stowplan.app.cli.cluster_options import EXIT_CODES, Answered, cluster_of, question_options
from stowplan.app.cli.data_output import Progress
from stowplan.app.cli.shell_completion import file_option
from stowplan.app.command_line.error_reporting import InputError, reported
from stowplan.kube.api.durations import parse_duration

if TYPE_CHECKING:
    from stowplan.app.sources.cluster_source import ClusterSource
    from stowplan.ask.rebalance.goals import Goal
    from stowplan.ask.rebalance.policy.policy_file import Policy
    from stowplan.net.client.cluster_flags import ClusterFlags

_GOALS = "mend|spread|pack|free-nodes=N|room-for=FILE"


@click.command(epilog=EXIT_CODES, short_help="Which running pods to move, and where they would go; --apply moves them.")
@click.option(
    "--goal",
    metavar=_GOALS,
    help="What to reach. mend: pods leave nodes that would not take them any more. spread: nodes are used evenly. "
    "pack: as few nodes as possible have pods; free-nodes=N: N nodes have none. room-for=FILE: the pods of the file "
    "find nodes, all of them.",
)
@click.option(
    "--weights",
    metavar="NAME=W,…",
    help="For --goal pack and spread: stop where a plan costs more than it gains. cost: what an emptied node is worth, "
    "or with spread one percent less of standard deviation (default 1); disruption: what a move costs, time: what a "
    "step costs (default 0).",
)
@file_option(
    "--policy",
    "policy",
    help="Move what a DeschedulerPolicy (descheduler/v1alpha2) asks for; instead of --goal.",
)
@file_option(
    "--prometheus-token-file",
    help="The token for the policy's Prometheus. Default: that of the service account, in a pod.",
)
@click.option("--max-moves", type=click.IntRange(min=0), metavar="N", help="Move at most N pods. Default: any number.")
@click.option(
    "--at-once",
    type=click.IntRange(min=1),
    metavar="N",
    default=10,
    show_default=True,
    help="At most N pods are out in one step.",
)
@click.option(
    "--at-once-per-owner",
    type=click.IntRange(min=1),
    metavar="N",
    default=1,
    show_default=True,
    help="Of one Deployment, Job, …: at most N in one step.",
)
@click.option(
    "--max-lost-work",
    metavar="DURATION",
    help="Pods that run to an end (restartPolicy Never or OnFailure, as those of Jobs) begin anew elsewhere: those "
    "that have run for longer stay; with 0s, all of them. Default: they move.",
)
@click.option(
    "--apply",
    is_flag=True,
    help="Carry the plan out: evict step by step, and wait until the replacements run. What an earlier run began and "
    "did not end is continued. With --rbac: print the roles for it.",
)
@click.option(
    "--record-namespace",
    metavar="NS",
    default="kube-system",
    show_default=True,
    help="With --apply: the namespace of the lease and of the ConfigMap with the record.",
)
@click.option(
    "--step-timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    default=300.0,
    show_default=True,
    help="With --apply: stop if the replacements of a step do not run for so long.",
)
@click.option("--commands", is_flag=True, help="Print the plan as a shell script of kubectl commands.")
@question_options(no="the goal is not reached")
def rebalance(
    *,
    goal: str | None,
    weights: str | None,
    policy: str | None,
    prometheus_token_file: str | None,
    max_moves: int | None,
    at_once: int,
    at_once_per_owner: int,
    max_lost_work: str | None,
    apply: bool,
    record_namespace: str,
    step_timeout: float,
    commands: bool,
    output: str,
    exit_code: bool,
    **source: Any,
) -> None:
    """Plan which running pods to move. Each move is a decision of the scheduler: the pod leaves its node in a trial,
    and is placed anew with every plugin, claim and budget; later moves see earlier ones. What would not find another
    node, or has no controller that recreates it, is not moved. The moves of one step may be made at the same time; the
    next step begins when their replacements run.

    Nothing is evicted without --apply.

    \b
    Examples:
      stowplan rebalance --goal mend
      stowplan rebalance --goal free-nodes=2 --commands
      stowplan rebalance --goal pack --weights disruption=0.2
      stowplan rebalance --policy descheduler.yaml
      stowplan rebalance --policy descheduler.yaml --apply
      stowplan rebalance --goal room-for=training.yaml -o json
      stowplan rebalance -f cluster.json --goal pack --max-moves 50 --exit-code
      stowplan rebalance --recording cluster.recording --at 2026-11-20T12:03 --goal spread
    """
    # Slow to import, and not needed for the help.
    from stowplan.ask.rebalance.moves import Limits
    from stowplan.ask.rebalance.plan_text import commands_of, rebalance_page
    from stowplan.ask.rebalance.policy.policy_file import read_policy
    from stowplan.ask.rebalance.rebalance import rebalance as planned

    if (goal is None) == (policy is None):
        raise click.UsageError("Give one of --goal and --policy.")
    if weights is not None and policy is not None:
        raise click.UsageError("--weights are for a --goal.")
    if prometheus_token_file is not None and policy is None:
        raise click.UsageError("--prometheus-token-file is for a --policy.")
    if not apply:
        _check_only_planned()
    if commands and output != "text":
        raise click.UsageError("--commands prints a script: leave out -o.")
    limits = Limits(
        total=max_moves,
        at_once=at_once,
        at_once_per_owner=at_once_per_owner,
        lost_work=None if max_lost_work is None else _seconds(max_lost_work),
    )
    with reported(source["config"]):
        given = None if policy is None else read_policy(policy)
        if given is not None and source["recording"] is not None:
            given.check_recorded()

        def loaded() -> tuple[ClusterSource, Goal]:
            about = cluster_of(**source, in_full=given is not None)
            if source["recording"] is None:
                # Ages count from now.
                about.cluster.now = time()
            return about, _goal(goal or "", weights, about) if given is None else _by_policy(
                given, about, source["live"], prometheus_token_file
            )

        if apply:
            _check_apply(source, commands=commands)
            from stowplan.app.cli.applied_plans import ApplySettings, carry_out

            settings = ApplySettings(
                live=source["live"],
                namespace=record_namespace,
                step_timeout=step_timeout,
                grace_period_seconds=None if given is None else given.grace_period_seconds,
            )
            carry_out(loaded, limits, settings, output=output, exit_code=exit_code)
            return
        about, wanted = loaded()
        about.note_unplaced()
        progress = Progress(unit="nodes or pods")
        try:
            record = planned(about.cluster, wanted, limits=limits, progress=partial(progress, "rebalance"))
        finally:
            progress.close()
        found = Answered(cluster=about.cluster, record=record, page=rebalance_page, no=not record.met)
        if commands:
            for line in commands_of(record):
                click.echo(line)
            found.end(exit_code=exit_code)
        else:
            found.write(output, exit_code=exit_code)


def _check_only_planned() -> None:
    context = click.get_current_context()
    for name in ("record_namespace", "step_timeout"):
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name.replace('_', '-')} is for --apply.")


def _check_apply(source: Mapping[str, Any], *, commands: bool) -> None:
    if source["files"] or source["recording"]:
        raise click.UsageError("--apply needs a live cluster: leave out -f and --recording.")
    if commands:
        raise click.UsageError("--commands prints what --apply does: give one or the other.")


def _by_policy(policy: Policy, about: ClusterSource, live: ClusterFlags, token_file: str | None) -> Goal:
    from stowplan.ask.rebalance.policy.by_policy import ByPolicy
    from stowplan.ask.rebalance.policy.pods_in_full import PodsInFull

    full = PodsInFull(about.cluster.documents, about.finished_pods)
    if not policy.metrics:
        return ByPolicy(policy, full)
    from stowplan.app.sources.measured_use import use_in

    use = use_in(about, policy, live, token_file)
    return ByPolicy(policy, full, use.nodes, use.pods)


def _goal(text: str, weights: str | None, about: ClusterSource) -> Goal:
    from stowplan.ask.rebalance.goals import RoomFor, goal_named

    name, _, value = text.partition("=")
    if name == "room-for" and value and weights is None:
        return RoomFor(about.applied(value))
    goal = goal_named(text, _weights(weights))
    if goal is None:
        raise InputError(f"--goal {text}: want {_GOALS}")
    return goal


def _seconds(duration: str) -> float:
    try:
        found = parse_duration(duration)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--max-lost-work") from None
    if found < 0:
        raise click.BadParameter(f"want 0s or more, got {duration}", param_hint="--max-lost-work")
    return found.seconds


def _weights(text: str | None) -> dict[str, float]:
    found: dict[str, float] = {}
    for part in () if text is None else text.split(","):
        name, equals, value = part.partition("=")
        if not equals:
            raise InputError(f"--weights: want NAME=W, got {part!r}")
        try:
            found[name.strip()] = float(value)
        except ValueError:
            raise InputError(f"--weights: {name.strip()}: want a number, got {value!r}") from None
    return found
