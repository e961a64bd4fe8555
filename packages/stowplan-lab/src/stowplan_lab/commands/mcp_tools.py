"""Tools of `stowplan mcp`: simulate a scenario, compare configurations or versions.

Each runs the command in a process of its own, which can be stopped, and whose `-o json` is the answer. What a question
brings are values; it names no files, no other cluster and no code: these are not the agent's to choose.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from stowplan.app.cli.mcp.tools import Answer, Arguments, Host, Tool, no_extenders
from stowplan.app.command_line.error_reporting import InputError
from stowplan.ask.explain.text.tables import Block
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.inspection.records import Record
from stowplan_lab.commands.scenario_options import scenario_reported
from stowplan_lab.compare.comparison import RECORDED, ComparisonRecord
from stowplan_lab.compare.comparison_report import comparison_page
from stowplan_lab.simulation.definition.scenario_fields import Scenario
from stowplan_lab.simulation.definition.scenario_loading import load_scenario
from stowplan_lab.simulation.report.summary_text import summary_page
from stowplan_lab.simulation.results.simulation_records import SummaryRecord

_Seconds = Annotated[int, Meta(ge=1, le=600, description="When to stop; the answer has the results until then.")]
_Scenario = Annotated[
    dict[str, Any],
    Meta(
        description="cluster (groups of nodes), workloads (manifests, arrivals, lifetimes), events and models, as "
        "docs/use/simulate.md describes them; `stowplan simulate --schema` prints its JSON schema."
    ),
]
_Config = Annotated[dict[str, Any], Meta(description="A KubeSchedulerConfiguration.")]


class Simulate(Arguments, frozen=True):
    scenario: _Scenario
    config: _Config | None = None
    seed: int | None = None
    emulated_version: str | None = None
    seconds: _Seconds = 50


class Side(Arguments, frozen=True):
    """A configuration, a version of kube-scheduler, or both; neither: the recording's own."""

    config: _Config | None = None
    version: Annotated[str, Meta(pattern=r"^[0-9]+\.[0-9]+$")] | None = None


class Compare(Arguments, frozen=True):
    sides: Annotated[tuple[Side, ...], Meta(min_length=2, max_length=8)]
    #: None: the recording that the server is about.
    scenario: _Scenario | None = None
    seeds: Annotated[int, Meta(ge=1, le=20)] | None = None
    seconds: _Seconds = 50


class _Found(PlainStruct, frozen=True):
    record: dict[str, Any]
    page: Callable[[], list[Block]]

    def document(self) -> dict[str, Any]:
        return self.record

    def text(self) -> list[Block]:
        return self.page()


async def _simulate(host: Host, given: Simulate) -> Answer:
    with TemporaryDirectory(prefix="stowplan-mcp-") as name:
        folder = Path(name)
        words = ["simulate", _scenario(folder, given.scenario), "--out", "results", "--no-decisions"]
        words += ["--config", _config(folder, "config", given.config)] if given.config is not None else []
        words += ["--seed", str(given.seed)] if given.seed is not None else []
        words += ["--emulated-version", given.emulated_version] if given.emulated_version is not None else []
        record = await _json_of(words, host, folder, given.seconds)
    return _Found(record, lambda: summary_page(_as(record, SummaryRecord), None))


async def _compare(host: Host, given: Compare) -> Answer:
    if given.scenario is None and host.recording is None:
        raise InputError("scenario: give one; only a server with --recording has something else to compare on")
    with TemporaryDirectory(prefix="stowplan-mcp-") as name:
        folder = Path(name)
        sides = enumerate(given.sides, 1)
        words = ["compare", *(_side(folder, number, side, recorded=given.scenario is None) for number, side in sides)]
        if given.scenario is not None:
            words += ["--scenario", _scenario(folder, given.scenario)]
        else:
            words += ["--recording", host.recording or ""]
        words += ["--seeds", str(given.seeds)] if given.seeds is not None else []
        record = await _json_of(words, host, folder, given.seconds)
    return _Found(record, lambda: comparison_page(_as(record, ComparisonRecord)))


def _side(folder: Path, number: int, side: Side, *, recorded: bool) -> str:
    if side.config is None and side.version is None and not recorded:
        raise InputError(f"sides: {number}: give config, version or both")
    own = RECORDED if recorded else ""
    config = own if side.config is None else _config(folder, f"config-{number}", side.config)
    return "@".join(part for part in (config, side.version) if part)


def _config(folder: Path, name: str, config: dict[str, Any]) -> str:
    no_extenders("config", config)
    return _written(folder, name, config)


def _scenario(folder: Path, scenario: dict[str, Any]) -> str:
    """Raises InputError."""
    with scenario_reported():
        found = load_scenario(scenario).scenario
    if elsewhere := list(_named_elsewhere(found)):
        raise InputError(f"scenario: {elsewhere[0]}: leave it out; here, a scenario names no files, clusters or code")
    no_extenders("scenario: scheduler.config", found.scheduler.config)
    return _written(folder, "scenario", scenario)


def _named_elsewhere(scenario: Scenario) -> Iterator[str]:
    """The fields that name something that is not in the scenario."""
    cluster, scheduler = scenario.cluster, scenario.scheduler
    policies = (event.rebalance.policy for event in scenario.events if event.rebalance is not None)
    fields = {
        "cluster.files": cluster.files,
        "cluster.kubeconfig": cluster.kubeconfig,
        "cluster.context": cluster.context,
        "cluster.live": cluster.live,
        "cluster.trace": cluster.trace,
        "scheduler.plugins": scheduler.plugins,
        "scheduler.config as a file": isinstance(scheduler.config, str),
        "file of a workload": any(workload.file for workload in scenario.workloads),
        "trace of a workload": any(workload.trace for workload in scenario.workloads),
        "policy of a rebalance event as a file": any(isinstance(policy, str) for policy in policies),
    }
    return (name for name, value in fields.items() if value)


def _written(folder: Path, name: str, value: dict[str, Any]) -> str:
    (folder / f"{name}.json").write_bytes(msgspec.json.encode(value))
    return f"{name}.json"


async def _json_of(words: Sequence[str], host: Host, folder: Path, seconds: int) -> dict[str, Any]:
    """What the command prints; raises InputError if it prints nothing."""
    plugins = [word for plugin in host.plugins for word in ("--plugin", plugin)]
    command = [sys.executable, "-m", "stowplan", *words, *plugins, "--quiet", "-o", "json"]
    process = await asyncio.create_subprocess_exec(*command, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, cwd=folder)
    talking = asyncio.ensure_future(process.communicate())
    try:
        done, _ = await asyncio.wait((talking,), timeout=seconds)
        if not done:
            # It ends with what it has so far.
            process.send_signal(signal.SIGINT)
        out, err = await talking
    finally:
        if process.returncode is None:
            process.kill()
            talking.cancel()
    if not out:
        why = err.decode(errors="replace").strip().removeprefix("error: ")
        raise InputError(why or f"it ended with exit code {process.returncode} and no result within {seconds} s")
    found: dict[str, Any] = json.loads(out)
    return found


def _as(record: dict[str, Any], type_: type[Record]) -> Any:
    return msgspec.convert(record, type_)


SIMULATE = Tool(
    name="simulate",
    title="Simulate a scenario",
    description="Runs a scenario in virtual time with the real scheduler: hours of arrivals, failures, drains and "
    "autoscaling in seconds. Answers with waits, utilization, evictions and cost.",
    arguments=Simulate,
    records=(SummaryRecord,),
    call=_simulate,
)
COMPARE = Tool(
    name="compare",
    title="Compare configurations or versions",
    description="Runs one scenario, or the recording that the server is about, with two or more configurations or "
    "versions of kube-scheduler: waits, utilization, evictions, cost, and how many pods are placed differently.",
    arguments=Compare,
    records=(ComparisonRecord,),
    call=_compare,
)
