"""`stowplan replay`: inspect, verify and re-decide a recording."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import click
import msgspec

from stowplan.app.cli.data_output import OUTPUT, answered_as, write_data
from stowplan.app.cli.live_cluster import EMULATED_VERSION, chosen_version
from stowplan.app.cli.moment_option import moment_from_option
from stowplan.app.cli.shell_completion import complete_file, file_option
from stowplan.app.command_line.error_reporting import InputError, reported
from stowplan.app.daemon.plugin_registry import registry_with
from stowplan.ask.explain.text.tables import Block, Grid, Line, write
from stowplan.drivers.hang_guard.hang_guard import CallGuard, InterruptedCalls
from stowplan.history.recordings.recording_files import entries_of, files_of_run, header_of, moment_text, rotated
from stowplan.history.recordings.replaying import Replayed, Step, difference, moment_of, note_of
from stowplan.history.recordings.rerun import RerunResult, rerun
from stowplan.kube.timing.waits import COUNTED, Waits
from stowplan.scheduler.engine.dumped import DumpError
from stowplan.scheduler.engine.input_log.recording import RecordingError
from stowplan.scheduler.engine.written_objects import as_written
from stowplan.scheduler.framework.explanations.formatting import count
from stowplan.scheduler.framework.runtime.registry import Registry

#: With --check: a decision differs.
_DIFFERENT = 3
_SHOWN = 20


@click.command(short_help="Show what is in a recording, rebuild any moment, or schedule it again.")
@click.argument("file", shell_complete=complete_file)
@click.option(
    "--check", is_flag=True, help=f"Repeat all decisions, and exit with {_DIFFERENT} at the first difference."
)
@click.option(
    "--at", metavar="TIME", help="Show the cluster at this time, such as 2026-11-20T12:03 (UTC) or with an offset."
)
@click.option(
    "--objects", is_flag=True, help="Print the objects of that time, or of the end, as a List for `explain -f`."
)
@file_option(
    "--config", help="Schedule again with this KubeSchedulerConfiguration, and show which pods are placed differently."
)
@click.option("--rerun", "again", is_flag=True, help="Schedule again with the recorded configuration.")
@click.option(
    "--plugin",
    "plugins",
    metavar="MODULE:CLASS",
    multiple=True,
    help="Load this plugin class, which was in use. Repeatable.",
)
@EMULATED_VERSION
@OUTPUT
def replay(
    *,
    file: str,
    check: bool,
    at: str | None,
    objects: bool,
    config: str | None,
    again: bool,
    plugins: tuple[str, ...],
    emulated_version: str | None,
    output: str,
) -> None:
    """Show what is in a recording: of a cluster (stowplan record), or of a Stowplan scheduler (kube-scheduler --record,
    stowplan run --record), which also has its decisions. A rotated recording is read with its older files.

    --check runs the scheduler again on its recorded inputs and compares all decisions. --at rebuilds the cluster at a
    moment; `stowplan explain --recording FILE --at TIME` answers questions about it. With --config, the same pods and
    nodes are added and deleted, and another configuration schedules.

    \b
    Exit codes:
      0    done
      2    the file or the command line is invalid
      3    with --check: a decision differs

    \b
    Examples:
      stowplan replay mine.recording
      stowplan replay mine.recording --check
      stowplan replay cluster.recording --at 2026-11-20T12:03 --objects > cluster.json
      stowplan replay mine.recording --config new.yaml
    """
    if check + bool(at is not None or objects) + bool(again or config) > 1:
        raise click.UsageError("--check, --at or --objects, and --config or --rerun exclude each other.")
    if again and config:
        raise click.UsageError("--rerun uses the recorded configuration, --config another one: give only one of them.")
    version = chosen_version(emulated_version)
    if version is not None and not (again or config):
        raise click.UsageError("--emulated-version is for --config and --rerun, which schedule again.")
    when = moment_from_option(at)
    with reported(config):
        calls = InterruptedCalls()
        registry = registry_with(plugins, guard=calls)
        try:
            if check:
                _check(file, registry, calls, output)
            elif objects or at is not None:
                _show_moment(file, when, registry, calls, output, objects=objects)
            elif again or config:
                # Plugins are called, not told what was recorded.
                registry = registry_with(plugins, guard=CallGuard())
                _show_rerun(rerun(file, registry, config, version), output)
            else:
                _summarize(file, output)
        except (RecordingError, DumpError) as error:
            text = str(error)
            raise InputError(text if file in text else f"{file}: {text}") from error


def _shown(data: dict[str, Any], page: list[Block], output: str) -> None:
    if output == "text":
        write(page, sys.stdout)
    else:
        write_data(data, output)


# -- summary -----------------------------------------------------------------------------------------------------------


def _summarize(file: str, output: str) -> None:
    inputs: Counter[str] = Counter()
    binds = evictions = 0
    files = files_of_run(file)
    header = header_of(files[0])
    ended = header.now
    for entry in entries_of(files):
        inputs[type(entry.input).__name__] += 1
        ended = entry.now
        for decision in () if entry.outcomes is None else entry.outcomes.decisions:
            binds += decision.what == "bind"
            evictions += decision.what == "evict"
    profiles = [
        str(one.get("schedulerName", "default-scheduler")) for one in header.configuration.get("profiles") or ()
    ]
    data = {
        "kind": "Recording",
        "format": header.format,
        **answered_as(header.features.emulated_version),
        "files": files,
        "from": moment_text(header.now),
        "to": moment_text(ended),
        "seconds": ended - header.now,
        "decisions": header.decides,
        "inputs": dict(inputs),
        "binds": binds,
        "evictions": evictions,
        "profiles": profiles,
    }
    what = "our scheduler, with its decisions" if header.decides else "a cluster"
    if inputs["Schedule"] and not header.decides:
        what = "our scheduler, by an older version: without its decisions"
    page: list[Block] = [
        Line(f"{file}: a recording of {what}"),
        Line(f"from {moment_text(header.now)} to {moment_text(ended)}, {ended - header.now:,.1f} s"),
        Line(f"profiles: {', '.join(profiles) or 'default-scheduler'}; as Kubernetes {header.emulated_version}"),
    ]
    if len(files) > 1:
        page.insert(1, Line(f"in {len(files)} files: {', '.join(files)}"))
    before = len(rotated(file)) + 1 - len(files)
    if before:
        page.append(Line(f"{count(before, 'older file')} beside it: earlier runs, or what came before a gap"))
    if header.decides:
        page.append(Line(f"{count(binds, 'pod')} sent to a node, {count(evictions, 'pod')} evicted"))
    if inputs:
        page += [Line(), Grid([(name, f"{number:,}") for name, number in inputs.most_common()], ("heard", "times"))]
    _shown(data, page, output)


# -- verification ------------------------------------------------------------------------------------------------------


def _check(file: str, registry: Registry, calls: InterruptedCalls, output: str) -> None:
    steps = decided = 0
    found, where = None, ""
    files = files_of_run(file)
    for one, step in _played(files, registry, calls):
        steps += 1
        decided += 0 if step.entry.outcomes is None else len(step.entry.outcomes.decisions)
        found = difference(step)
        if found is not None:
            where = one
            break
    data: dict[str, Any] = {"kind": "Check", "same": found is None, "steps": steps, "decisions": decided}
    page: list[Block]
    if found is None:
        page = [Line(f"the same in all {steps:,} steps, with {count(decided, 'decision')}")]
    else:
        data["difference"] = {"file": where, **found.to_dict()}
        page = [
            Line(f"different after {steps - 1:,} steps that are the same:"),
            Line(f"{where}, {found.text()}" if len(files) > 1 else found.text(), 2),
        ]
    _shown(data, page, output)
    if found is not None:
        raise SystemExit(_DIFFERENT)


def _played(files: Sequence[str], registry: Registry, calls: InterruptedCalls) -> Iterator[tuple[str, Step]]:
    """The steps of each file, which starts with a state of its own."""
    for file in files:
        with Replayed(file, registry, interrupted=calls) as again:
            if not again.header.decides:
                raise InputError(
                    f"{file}: a recording without decisions, of a cluster or of an older version: "
                    "there is nothing to check"
                )
            for step in again.steps():
                yield file, step


# -- a moment ---------------------------------------------------------------------------------------------------------


def _show_moment(
    file: str, when: float | None, registry: Registry, calls: InterruptedCalls, output: str, *, objects: bool
) -> None:
    moment = moment_of(file, when, registry, interrupted=calls)
    if over := note_of(moment, when):
        click.echo(f"note: {over}", err=True)
    if objects:
        items = [_as_item(obj) for obj in moment.objects]
        click.echo(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        return
    kinds = Counter(type(obj).__name__ for obj in moment.objects)
    pending = sum(1 for obj in moment.objects if type(obj).__name__ == "Pod" and not obj.spec.node_name)
    data = {
        "kind": "Moment",
        "at": moment_text(moment.at),
        "recordingIsOver": moment.is_over,
        "objects": dict(kinds),
        "pendingPods": pending,
    }
    page: list[Block] = [
        Line(f"{file} at {moment_text(moment.at)}: {count(pending, 'pod')} pending"),
        Line(),
        Grid([(name, f"{number:,}") for name, number in kinds.most_common()], ("kind", "objects")),
    ]
    _shown(data, page, output)


def _as_item(obj: Any) -> Any:
    item = msgspec.to_builtins(as_written(obj))
    # The structs omit constant fields.
    return {"apiVersion": obj.api_version, "kind": obj.kind, **item}


# -- rescheduling ------------------------------------------------------------------------------------------------------


def _show_rerun(found: RerunResult, output: str) -> None:
    pods, moved = list(found.pods.values()), found.placed_differently
    placed_then, placed_now = (sum(1 for pod in pods if node(pod)) for node in (_node_then, _node_now))
    waits_then, waits_now = _quantiles(found.waits_then), _quantiles(found.waits_now)
    data = {
        "kind": "Rerun",
        **answered_as(found.version),
        "from": moment_text(found.began),
        "to": moment_text(found.ended),
        "pods": len(pods),
        "placed": {"then": placed_then, "now": placed_now},
        "waitSeconds": {"then": waits_then, "now": waits_now},
        "placedDifferently": [
            {"pod": pod.key, "came": moment_text(pod.came), "then": pod.node_then, "now": pod.node_now} for pod in moved
        ],
    }
    page: list[Block] = [
        Line(
            f"{count(len(pods), 'pod')} to place: placed then: {placed_then:,}, "
            f"now, as Kubernetes {found.version}: {placed_now:,}"
        ),
        Line(f"{len(moved):,} are placed differently" if moved else "every pod is on the same node"),
    ]
    if waits_now:
        rows = [
            (name, *(f"{seconds:,.3f} s" for seconds in waited.values()))
            for name, waited in (("then", waits_then), ("now", waits_now))
        ]
        page += [Line(), Grid(rows, ("waits", *waits_now)), Line(COUNTED)]
    if moved:
        rows = [(pod.key, pod.node_then or "nowhere", pod.node_now or "nowhere") for pod in moved[:_SHOWN]]
        page += [Line(), Grid(rows, ("pod", "then", "now"))]
        if len(moved) > _SHOWN:
            page.append(Line(f"… and {len(moved) - _SHOWN:,} more: -o json has them"))
    _shown(data, page, output)


def _quantiles(waits: Waits) -> dict[str, float]:
    return {f"p{percent}": waits.quantile(percent / 100) for percent in (50, 90, 99)} if waits.count else {}


def _node_then(pod: Any) -> str:
    return str(pod.node_then)


def _node_now(pod: Any) -> str:
    return str(pod.node_now)
