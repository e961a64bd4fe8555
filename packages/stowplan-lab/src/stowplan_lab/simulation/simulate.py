"""A simulation of a scenario: the engine in virtual time, the models of its environment, and the results.

    found = simulate_scenario("week.yaml")               # rows are kept in memory
    found.summary.waits.p95
    simulate_scenario("week.yaml", folder=Path("out"))     # rows are written to files continuously

The same scenario gives the same rows on every machine: nothing reads a clock, each model has a random source of its own
derived from the seed, and arrivals and lifetimes do not depend on decisions. So two configurations get the same pods at
the same times.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, cast

from msgspec.structs import replace

from stowplan.ask.offline import Cluster
from stowplan.ask.offline.extender_calls import post_to_extender
from stowplan.drivers.hang_guard.guarded_plugins import registry_with_installed
from stowplan.drivers.hang_guard.hang_guard import CallGuard
from stowplan.drivers.virtual_time.agenda import Agenda
from stowplan.drivers.virtual_time.driver import VirtualTime
from stowplan.drivers.virtual_time.latency import Latency
from stowplan.drivers.virtual_time.object_store import ObjectStore
from stowplan.drivers.virtual_time.stopped_clock import StoppedClock
from stowplan.drivers.virtual_time.virtual_api import VirtualApi
from stowplan.kube.api.documents import Documents
from stowplan.kube.api.manifest_files import LoadError
from stowplan.kube.api.meta import ObjectMeta, parse_timestamp, timestamp
from stowplan.kube.api.pod import Pod
from stowplan.kube.api.types import Namespace, Node, PodGroup, PriorityClass
from stowplan.kube.config import Configuration, FeatureGates, load_config
from stowplan.kube.config.declaration import Declarations
from stowplan.kube.config.features import GateError
from stowplan.kube.kubernetes_versions import V1_37, VersionError
from stowplan.kube.structs import PlainStruct
from stowplan.kube.timing.waits import Waits
from stowplan.scheduler.engine.context import EngineSettings
from stowplan.scheduler.engine.engine import Engine
from stowplan.scheduler.engine.watched_kinds import measured_sources, watched_kinds
from stowplan.scheduler.extenders.calls import Calls, asking, extenders_without_binders
from stowplan.scheduler.framework.declarations import Plugin
from stowplan.scheduler.framework.explanations.formatting import count
from stowplan.scheduler.framework.requests import Create
from stowplan.scheduler.framework.runtime.registry import load_plugin
from stowplan.scheduler.inspection.frames import flat, to_frame
from stowplan.ui.one_file import report_file
from stowplan.ui.report_records import ReportRecord
from stowplan.ui.source_records import configuration_record
from stowplan.ui.timeline_file import NAME as TIMELINE
from stowplan.ui.timeline_file import RerunRecord, TimelineHeader, TimelineWriter
from stowplan_lab.simulation.admission import Admission
from stowplan_lab.simulation.definition.scenario_fields import ModelsSpec, Scenario
from stowplan_lab.simulation.definition.scenario_loading import Located, load_scenario
from stowplan_lab.simulation.faults import Faults
from stowplan_lab.simulation.measuring import Measuring
from stowplan_lab.simulation.never_fitting import Supply, never_fitting
from stowplan_lab.simulation.nodes.autoscaler import Autoscaler
from stowplan_lab.simulation.nodes.budgets import BudgetController
from stowplan_lab.simulation.nodes.drains import Drains
from stowplan_lab.simulation.nodes.fleet import Fleet
from stowplan_lab.simulation.nodes.modelled_use import ModelledUse
from stowplan_lab.simulation.nodes.node_lifecycle import NodeLifecycle, OrphanedPods, TaintEvictions
from stowplan_lab.simulation.nodes.rebalancing import Rebalancing, rebalanced_by
from stowplan_lab.simulation.nodes.running_pods import Kubelets
from stowplan_lab.simulation.report.series import Sampler
from stowplan_lab.simulation.report.simulation_report import simulation_report
from stowplan_lab.simulation.results.ledger import Ledger
from stowplan_lab.simulation.results.output import Digest, Folder, Sink, discard
from stowplan_lab.simulation.results.parts import CALM, hours_of, waits_record
from stowplan_lab.simulation.results.simulation_records import CauseRecord, DecisionRow, SampleRow, SummaryRecord
from stowplan_lab.simulation.scenario_errors import Problems, ScenarioError
from stowplan_lab.simulation.simulation_context import SimulationContext
from stowplan_lab.simulation.start import files_at_start, objects_at_start, version_at_start
from stowplan_lab.simulation.workloads.daemons import DaemonSetController
from stowplan_lab.simulation.workloads.existing import ExistingWorkloads
from stowplan_lab.simulation.workloads.feeds import feed_of, size_of
from stowplan_lab.simulation.workloads.horizontal_pod_autoscalers import (
    HorizontalPodAutoscalers,
    autoscalers_of,
    loads_of,
)
from stowplan_lab.simulation.workloads.owners import Template
from stowplan_lab.simulation.workloads.pod_groups import of_group
from stowplan_lab.simulation.workloads.templates import rollouts_of, template_of

_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_NAME_LABEL = "kubernetes.io/metadata.name"
#: Without a duration, the simulation ends when pods have only been waiting for this many seconds, which is longer than
#: any pod waits for a retry.
_QUIET = 700.0
#: Number of progress reports between two samples.
_PARTS = 64
_DIGITS = 6


class Progress(PlainStruct, frozen=True):
    """The progress of a simulation."""

    #: Seconds since its start, and when it ends if that is known.
    time: float
    duration: float | None
    arrived: int
    #: The approximate number of pods that will arrive, if known.
    expected: int | None


@dataclass(repr=False)
class SimulationResult:
    """The results of a simulation.

    Examples:
        >>> found = simulate_scenario("tuning/batch.yaml", decisions=False)
        >>> len(found.series) > 10
        True
    """

    summary: SummaryRecord
    series: list[SampleRow]
    #: What the report shows.
    record: ReportRecord
    #: None if they were written to a folder, or not requested.
    decisions: list[DecisionRow] | None = None
    folder: Path | None = None

    def __repr__(self) -> str:
        summary = self.summary
        pending = summary.ends.get("pending", 0)
        return f"<SimulationResult: {summary.name}: {count(summary.arrived, 'pod')}, {pending:,} pending at the end>"

    def to_frame(self) -> Any:
        """The decisions as a pandas or polars DataFrame, with a column per resource and label, and NaN for none.

        `summary.units` has the units.
        """
        if self.decisions is None:
            raise ScenarioError(f"the decisions are in {self.folder}: read decisions.jsonl, or simulate without folder")
        return to_frame(map(flat, self.decisions))

    def series_frame(self) -> Any:
        """The series as a DataFrame, with a column such as `used.cpu` for each value of a mapping."""
        return to_frame(map(flat, self.series))

    def parts_frame(self, kind: str = "workload") -> Any:
        """Pods, waits, use and costs by `workload`, `namespace` or a label; the names are those of `summary.parts`."""
        if kind not in self.summary.parts:
            known = ", ".join(self.summary.parts) or "nothing: all pods have the same workload and namespace"
            raise ScenarioError(f"the pods are not summed by {kind!r}, but by {known}")
        return to_frame(map(flat, self.summary.parts[kind]))

    def _repr_html_(self) -> str:
        """A table of the summary for notebooks."""
        from stowplan.scheduler.inspection.html_cells import text_cell, text_head
        from stowplan_lab.simulation.report.summary_text import summary_facts

        rows = (f"<tr>{text_head(name)}{text_cell(text)}</tr>" for name, text in summary_facts(self.summary))
        return f"<table>{''.join(rows)}</table>"

    def report(self) -> str:
        """A self-contained HTML page with charts."""
        return report_file(self.record)


def simulate_scenario(
    scenario: str | os.PathLike[str] | Mapping[str, Any] | Scenario | Located,
    *,
    config: Mapping[str, Any] | str | os.PathLike[str] | Configuration | None = None,
    seed: int | None = None,
    plugins: Sequence[type[Plugin]] = (),
    emulated_version: str | None = None,
    policy: str | None = None,
    folder: Path | None = None,
    decisions: bool = True,
    progress: Callable[[Progress, Simulation], object] | None = None,
) -> SimulationResult:
    """Run a scenario to its end; raises ScenarioError, or ConfigError for the configuration.

    `config`, `seed` and `emulated_version` override the scenario's, `policy` that of its `rebalance` events ("" for
    none); `plugins` are classes in addition to its own. With `folder`, rows are written there continuously; otherwise
    they are kept, unless `decisions` is False. `progress` is called periodically, and may `stop` the simulation.

    Examples:
        >>> job = a_pod("job").requests(cpu="2").obj()
        >>> batch = {"name": "batch", "manifest": job, "rate": "1/m", "lifetime": "30m"}
        >>> nodes = {"name": "general", "count": 2, "capacity": {"cpu": 8, "memory": "32Gi", "pods": 110}}
        >>> found = simulate_scenario({"duration": "2h", "cluster": {"groups": [nodes]}, "workloads": [batch]})
        >>> found.summary.arrived, found.summary.waits.longest > 60
        (121, True)
    """
    simulation = Simulation(
        scenario, config=config, seed=seed, plugins=plugins, emulated_version=emulated_version, policy=policy
    )
    # Before results of an earlier run in the folder are deleted.
    simulation.prepare()
    rows: list[DecisionRow] = []
    out = None if folder is None else Folder(folder)
    sink: Sink = (lambda row, line: rows.append(row)) if out is None else out.decision
    has_rows = decisions and simulation.scenario.output.decisions
    try:
        with nullcontext() if out is None or not has_rows else simulation.writing_timeline(out.path):
            result = simulation.run(sink if has_rows else discard, progress)
    except BaseException:
        if out is not None:
            out.abandon()
        raise
    if out is not None:
        out.finish(result.series, result.summary, result.report())
        result.folder = folder
    elif has_rows:
        result.decisions = rows
    return result


def simulated_until(
    at: float,
    scenario: Located,
    *,
    config: Mapping[str, Any],
    seed: int,
    plugins: Sequence[type[Plugin]],
    emulated_version: str,
    stopped: Callable[[], bool],
) -> Simulation:
    """Run a scenario again up to the time of one of its timeline's frames; return the engine at that time.

    `stopped`: whether the result is no longer needed. Raises like `simulate_scenario`.
    """

    def look(progress: Progress, simulation: Simulation) -> None:
        if simulation.now >= at or stopped():
            simulation.stop()

    simulation = Simulation(scenario, config=config, seed=seed, plugins=plugins, emulated_version=emulated_version)
    simulation.run(discard, look)
    return simulation


class Simulation:
    """One run; single use."""

    def __init__(
        self,
        scenario: str | os.PathLike[str] | Mapping[str, Any] | Scenario | Located,
        *,
        config: Mapping[str, Any] | str | os.PathLike[str] | Configuration | None = None,
        seed: int | None = None,
        plugins: Sequence[type[Plugin]] = (),
        emulated_version: str | None = None,
        policy: str | None = None,
    ) -> None:
        located = load_scenario(scenario)
        if policy is not None:
            located = replace(located, scenario=rebalanced_by(located.scenario, policy))
        self.scenario, self._folder, self._document = located.scenario, located.folder, located.value
        self._plugins = plugins
        self.seed = self.scenario.seed if seed is None else seed
        named = [load_plugin(path) for path in self.scenario.scheduler.plugins]
        self._guard = CallGuard()
        self._own_plugins = tuple(dict.fromkeys((*named, *plugins)))
        self._registry = registry_with_installed(self._own_plugins, self._guard)
        #: Notes from before the context exists.
        self._early_notes: list[str] = []
        self._filed = files_at_start(self.scenario.cluster, self._folder)
        self.features = self._features_of(emulated_version)
        self.config = self._configuration(config)
        self._stopped = self._is_prepared = False
        self._timeline: TimelineWriter | None = None

    def _features_of(self, emulated_version: str | None) -> FeatureGates:
        scheduler = self.scenario.scheduler
        chosen = emulated_version or scheduler.emulated_version
        if chosen is None:
            version, note = version_at_start(self.scenario.cluster, self._folder, self._filed)
            self._early_notes += [note] if note else []
            chosen = str(version)
        try:
            return replace(scheduler, emulated_version=chosen).features
        except (VersionError, GateError) as error:
            raise ScenarioError(f"scheduler, as Kubernetes {chosen}: {error}") from None

    def _configuration(self, given: Any) -> Configuration:
        if isinstance(given, Configuration):
            return given
        source = given
        if source is None:
            own = self.scenario.scheduler.config
            source = str(self._folder / own) if isinstance(own, str) else own
        return load_config(source, plugins=self._registry.declarations, features=self.features)

    @property
    def declarations(self) -> Declarations:
        """The plugins that its configuration may name."""
        return self._registry.declarations

    def stop(self) -> None:
        """Stop the clock; the results so far are reported."""
        self._stopped = True
        if hasattr(self, "_time"):
            self._time.halted = True

    @contextmanager
    def writing_timeline(self, folder: Path) -> Iterator[None]:
        """While it runs, write what `stowplan ui --simulation` plays to this folder. Raises ScenarioError."""
        declarations = self._registry.declarations
        header = TimelineHeader(
            title=self.scenario.name,
            scheduler_name=self.config.profiles[0].scheduler_name,
            configuration=configuration_record(self.config, declarations, self.features),
            rerun=self._rerun(folder),
            prices=self.fleet.price_list(),
        )
        try:
            self._timeline = TimelineWriter(folder / TIMELINE, header, duration=self.scenario.duration)
            try:
                yield
            finally:
                self._timeline.close()
        except OSError as error:
            raise ScenarioError(f"{error.filename or folder / TIMELINE}: {error.strerror or error}") from error

    def _rerun(self, folder: Path) -> RerunRecord | None:
        if self._document is None:
            return None
        return RerunRecord(
            scenario=dict(self._document),
            folder=os.path.relpath(self._folder, folder),
            seed=self.seed,
            plugins=tuple(f"{plugin.__module__}:{plugin.__qualname__}" for plugin in self._plugins),
        )

    # -- setup ---------------------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Build the initial cluster; raises the errors of the inputs."""
        self._build()
        self._begin()
        self._is_prepared = True

    def _build(self) -> None:
        scenario = self.scenario
        start = parse_timestamp(scenario.start)
        store = ObjectStore()
        self._digest = Digest()
        self.ledger = ledger = Ledger(start, now=lambda: time.now, row=self._digest.decision)
        self.engine = Engine(
            self.config,
            registry=self._registry,
            now=start,
            meter=StoppedClock(),
            random=Random(self.seed),
            settings=EngineSettings(stories=False, events=False),
            features=self.features,
            api=VirtualApi(),
            extenders=extenders_without_binders(self.config),
            listener=ledger,
        )
        self._watched = watched_kinds(self.engine.frameworks.values(), report=self._early_notes.append)
        chance = Random(f"{self.seed}/latency")
        self._time = time = VirtualTime(
            self.engine,
            store,
            agenda=Agenda(start),
            latency=self._latency(scenario.models, chance),
            kinds=[one.kind for one in self._watched],
            ask=asking(Calls(self.config, Documents(())), post_to_extender),
            binds_volumes_after=scenario.models.volumes or None,
        )
        time.halted = self._stopped
        self.context = context = SimulationContext(time, ledger, self.engine.state, scenario.models, self.seed)
        self.admission = Admission(store, self._released)
        self.fleet = ledger.prices = Fleet(context, scenario.cluster.groups)
        self.kubelets = Kubelets(context)
        self.budgets = BudgetController(context, self.kubelets)
        orphans, evictions = OrphanedPods(context, self.fleet), TaintEvictions(context)
        for watcher in (ledger, self.fleet, orphans, self.kubelets, self.budgets, evictions):
            time.watch(watcher)
        self.sampler = Sampler(context, self.fleet, ledger, every=scenario.output.every, duration=scenario.duration)
        drains = Drains(context, self.fleet, self.budgets)
        self.autoscaler = Autoscaler(context, self.fleet, self.engine, drains) if scenario.models.autoscaler else None
        self._use = ModelledUse(context, self.fleet, self.kubelets)
        self.rebalancing = Rebalancing(context, self.fleet, drains, self._use, self._copy)
        lifecycle = NodeLifecycle(context, self.fleet, self.kubelets)
        self.faults = Faults(context, self.fleet, lifecycle, drains, self.rebalancing)

    def _copy(self) -> Cluster:
        """The cluster as it is now, for plans."""
        return Cluster(
            map(self._started, self.engine.state.everything()),
            self.config,
            plugins=self._own_plugins,
            emulated_version=str(self.features.emulated_version),
            now=self._time.now,
        )

    def _started(self, obj: Any) -> Any:
        """A pod with the time at which it started, which the store does not know."""
        entry = self.ledger.of(obj.metadata.uid) if isinstance(obj, Pod) else None
        if entry is None or entry.starts > self._time.now:
            return obj
        return replace(obj, status=replace(obj.status, start_time=timestamp(entry.starts)))

    def _latency(self, models: ModelsSpec, chance: Random) -> Latency:
        def drawn(about: object) -> float:
            return models.latency.draw(chance)

        def stops_in(pod: Pod) -> float:
            return self.kubelets.seconds_to_stop(pod, chance)

        delay = drawn if models.latency.mean else 0.0
        return Latency(requests=delay, answers=delay, watches=delay, deletions=stops_in)

    def _released(self, pod: Pod) -> None:
        entry = self.ledger.of(pod.metadata.uid)
        self.context.refused.released(pod, "" if entry is None else entry.origin.workload)

    @property
    def now(self) -> float:
        """Seconds since the epoch, once it runs."""
        return self._time.now

    def _begin(self) -> None:
        """Start the initial cluster, and schedule the events."""
        scenario, context = self.scenario, self.context
        start = objects_at_start(scenario.cluster, self._folder, self._watched, self._filed)
        objects = start.objects
        for note in (*self._early_notes, *start.notes):
            context.note(note)
        for name in _NAMESPACES:
            context.put(Namespace(metadata=ObjectMeta(name=name, labels={_NAME_LABEL: name})))
        classes = [one for one in objects if isinstance(one, PriorityClass)]
        pods = [one for one in objects if isinstance(one, Pod)]
        lifetime, ends = scenario.cluster.cron_job_lifetime, scenario.duration is not None
        self.existing = existing = ExistingWorkloads(
            context, start.workloads, pods, self._folder, classes, lifetime=lifetime, ends=ends
        )
        self._begin_with(objects, existing)
        if start.quotas or start.policies:
            try:
                self.admission.enforce(start.quotas, start.policies)
            except LoadError as error:
                raise ScenarioError(*error.errors) from None
            self._time.watch(self.admission, first=True)
        for group in self.fleet.groups.values():
            for _ in range(group.spec.count):
                self.fleet.add_to(group)
        existing.begin()
        templates = self._templates(classes)
        self._note_trouble_ahead(objects, templates)
        self._begin_measuring(templates)
        self._begin_workloads(templates, classes)

    def _begin_measuring(self, templates: Mapping[str, Template]) -> None:
        use = self._use
        use.loads = loads_of(self.scenario, templates, self.context.start)
        if use.is_given:
            self.sampler.use = use
        sources = measured_sources(self.engine.frameworks.values())
        Measuring(self.context, self.fleet, use).begin(sources, self.scenario.duration)

    def _note_trouble_ahead(self, objects: Sequence[Any], templates: Mapping[str, Template]) -> None:
        for spec in (one for one in self.scenario.workloads if one.pod_group is not None):
            # The first arrival's; the others are equal.
            group, grouped = of_group(templates[spec.name], f"{spec.name}-1", spec.each)
            objects = [*objects, group, grouped.pod]
        if not self.features.enabled("GangScheduling") and any(isinstance(one, PodGroup) for one in objects):
            gate = "GangScheduling" if self.features.emulated_version < V1_37 else "GenericWorkload"
            self.context.note(f"gangs are ignored: scheduler.featureGates does not enable {gate}")
            objects = ()
        for note in never_fitting(list(templates.values()), objects, Supply(self.scenario, self.fleet)):
            self.context.note(note)

    def _begin_workloads(self, templates: Mapping[str, Template], classes: Sequence[PriorityClass]) -> None:
        scenario, context = self.scenario, self.context
        #: Workload -> its controllers that have begun; Jobs leave it when they are finished.
        self.controllers = controllers = dict[str, dict[Any, None]]()
        for spec in scenario.workloads:
            template = templates.get(spec.name)
            if template is None:
                self._time.feed(feed_of(context, spec, self._folder, scenario.duration))
                continue
            of_workload = controllers[spec.name] = {}
            if template.kind == "DaemonSet":
                daemons = DaemonSetController(context, template)
                of_workload[daemons] = None
                daemons.begin()
            else:
                self._time.feed(feed_of(context, spec, self._folder, scenario.duration, template, of_workload))
        planned = autoscalers_of(scenario, templates, context.start)
        self.autoscalers = self.sampler.autoscalers = HorizontalPodAutoscalers(context, planned, controllers)
        if any(event.rebalance is not None for event in scenario.events):
            self.rebalancing.read(scenario, self._folder)
        rollouts = rollouts_of(scenario, templates, controllers, self._folder, classes)
        self.faults.begin(scenario, controllers, rollouts)

    def _templates(self, classes: Sequence[PriorityClass]) -> dict[str, Template]:
        """Workload -> template, for workloads that are not traces."""
        rolled = {event.rollout.workload for event in self.scenario.events if event.rollout is not None}
        templates: dict[str, Template] = {}
        problems = Problems()
        for spec in self.scenario.workloads:
            if spec.trace is None:
                with problems.collected():
                    template, notes = template_of(spec, self._folder, classes, rolls=spec.name in rolled)
                    if template.kind == "CronJob" and self.scenario.duration is None:
                        raise ScenarioError(f"workloads: {spec.name}: a CronJob never ends: give a duration")
                    templates[spec.name] = template
                    for note in notes:
                        self.context.note(note)
        problems.raise_any()
        return templates

    def _begin_with(self, objects: Sequence[Any], existing: ExistingWorkloads) -> None:
        # In the order of an API server's lists: nodes first, and pods by namespace and name.
        for obj in sorted(objects, key=_list_order):
            if isinstance(obj, Node):
                self.fleet.put(obj)
            elif isinstance(obj, Pod):
                uid = obj.metadata.uid or f"{obj.metadata.namespace}/{obj.metadata.name}"
                existing.arrive(_with_uid(obj, uid))
            else:
                self.context.put(obj)

    # -- running ------------------------------------------------------------------------------------------------------

    def run(self, sink: Sink, progress: Callable[[Progress, Simulation], object] | None = None) -> SimulationResult:
        if not self._is_prepared:
            self.prepare()
        self._digest.go_to(sink)
        if self._timeline is not None:
            self._timeline.begin(self.engine.state, self.ledger.waiting, self._cost, features=self.engine.features)
        expected = self._expected()
        duration = self.scenario.duration

        def report() -> None:
            if self._timeline is not None:
                self._timeline.moment(self._time.now)
            if progress is not None:
                progress(Progress(self._passed, duration, self.ledger.arrived, expected), self)

        with self._guard.series():
            self._play(duration, report)
        return self._finish()

    def _cost(self) -> dict[str, float]:
        self.fleet.account()
        cost = sum(self.fleet.costs.values())
        return {"cost": round(cost, 4)} if cost or any(group.price for group in self.fleet.groups.values()) else {}

    def _play(self, duration: float | None, report: Callable[[], None]) -> None:
        quiet_since, seen = 0.0, -1
        self._time.run(until=self._time.now)
        while True:
            self.sampler.take()
            self._sweep()
            report()
            if self._time.halted or (duration is not None and self._passed >= duration):
                break
            happened = self.ledger.placements + self.ledger.arrived + sum(self.ledger.ends.values())
            if happened != seen:
                quiet_since, seen = self._passed, happened
            if duration is None and self._time.idle and self._rests(quiet_since):
                break
            self._advance(self.sampler.next if duration is None else min(self.sampler.next, duration), report)

    def _advance(self, until: float, report: Callable[[], None]) -> None:
        """Advance to that time in parts, so that it can be stopped. Where nothing is due, a part is longer."""
        time, start = self._time, self.context.start
        part = (until - self._passed) / _PARTS
        for _ in range(_PARTS - 1):
            to = max(self._passed + part, time.next - start)
            if to >= until:
                break
            time.advance(max(0.0, start + to - time.now))
            report()
        time.advance(max(0.0, start + until - time.now))

    def _rests(self, quiet_since: float) -> bool:
        return not self.ledger.pending or self._passed - quiet_since >= _QUIET

    @property
    def _passed(self) -> float:
        return round(self._time.now - self.context.start, _DIGITS)

    def _sweep(self) -> None:
        """Pods of a feed that the store has rejected."""
        for _, request, error in self._time.refused:
            if isinstance(request, Create) and isinstance(request.obj, Pod):
                self.ledger.refuse(request.obj, str(error))
            else:
                self.context.note(str(error))
        self._time.refused.clear()

    def _expected(self) -> int | None:
        sizes = [size_of(spec, self._folder, self.scenario.duration) for spec in self.scenario.workloads]
        return None if None in sizes else sum(cast("list[int]", sizes))

    def _finish(self) -> SimulationResult:
        if self._timeline is not None:
            start = self.context.start
            self._timeline.end(self._time.now, [(start + at, text) for at, text in self.context.events])
        self.fleet.account()
        self.context.refused.finish()
        self.ledger.finish()
        self._time.close()
        for framework in self.engine.frameworks.values():
            for problem in framework.close():
                self.context.note(problem)
        for note in self.autoscalers.notes():
            self.context.note(note)
        if self.ledger.errors:
            failed = count(self.ledger.errors, "attempt")
            self.context.note(f"{failed} failed with an error; the first: {self.ledger.first_error}")
        waits = self.ledger.waiting.until(self._time.now)
        summary = self._summary(waits)
        record = simulation_report(summary, self.sampler, waits, self.context.events)
        return SimulationResult(summary=summary, series=self.sampler.rows, record=record)

    def _summary(self, waits: Waits) -> SummaryRecord:
        ledger, fleet, scaler = self.ledger, self.fleet, self.autoscaler
        ends = ledger.ends
        seconds = self._passed
        return SummaryRecord(
            name=self.scenario.name,
            description=self.scenario.description,
            currency=self.scenario.currency,
            seed=self.seed,
            emulated_version=str(self.features.emulated_version),
            simulated=seconds,
            interrupted=self._stopped,
            arrived=ledger.arrived,
            placements=ledger.placements,
            attempts=ledger.attempts,
            ends=dict(sorted(ends.items())),
            jobs={outcome: number for outcome, number in sorted(self.context.jobs.items()) if number},
            evictions=sum(number for how, number in ends.items() if how not in CALM),
            waits=waits_record(waits),
            causes=causes_of(ledger),
            utilization={
                name: round(ledger.used_seconds[name] / amount, _DIGITS)
                for name, amount in sorted(fleet.seconds.items())
                if amount and name != "pods"
            },
            fragmentation=dict(self.sampler.mean("fragmentation")),
            busiest=dict(self.sampler.mean("busiest")),
            cost=round(sum(fleet.costs.values()), _DIGITS),
            cost_by_group={name: round(cost, _DIGITS) for name, cost in sorted(fleet.costs.items())},
            cost_idle=round(sum(fleet.costs.values()) - ledger.billed, _DIGITS),
            idle_hours=hours_of(
                {
                    name: all_of_it - ledger.used_seconds[name]
                    for name, all_of_it in fleet.seconds.items()
                    if name != "pods"
                }
            ),
            parts=dict(ledger.parts.records()),
            nodes_at_end=len(fleet.nodes),
            nodes_most=fleet.most,
            nodes_mean=round(fleet.node_seconds / seconds, _DIGITS) if seconds else float(len(fleet.nodes)),
            nodes_added=scaler.added if scaler is not None else 0,
            nodes_removed=scaler.removed if scaler is not None else 0,
            digest=self._digest.text,
            notes=tuple(self.context.notes),
        )


def causes_of(ledger: Ledger) -> tuple[CauseRecord, ...]:
    found = (
        CauseRecord(cause=cause, pods=one.pods, seconds=round(one.seconds, _DIGITS))
        for cause, one in ledger.causes.items()
    )
    return tuple(sorted(found, key=lambda record: (-record.seconds, record.cause)))


def _with_uid(pod: Pod, uid: str) -> Pod:
    return replace(pod, metadata=replace(pod.metadata, uid=uid))


def _list_order(obj: Any) -> tuple[int, str, str]:
    order = 1 if isinstance(obj, Node) else 2 if isinstance(obj, Pod) else 0
    return order, obj.metadata.namespace, obj.metadata.name
