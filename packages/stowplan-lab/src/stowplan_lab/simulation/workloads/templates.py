"""The pod templates of a scenario's workloads, and those that its rollouts switch to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from stowplan.ask.loading.admission import admit
from stowplan.ask.loading.workloads import pod_of
from stowplan.kube.api.decode import DecodeError, convert
from stowplan.kube.api.manifest_files import LoadError, load_files
from stowplan.kube.api.merge_patches import merge_patched
from stowplan.kube.api.meta import ApiStruct
from stowplan.kube.api.types import PriorityClass, ReplicaSet, StatefulSet
from stowplan.kube.config.config_errors import did_you_mean
from stowplan_lab.simulation.definition.scenario_fields import Scenario, WorkloadSpec
from stowplan_lab.simulation.scenario_errors import Problems, ScenarioError
from stowplan_lab.simulation.workloads.owners import Template
from stowplan_lab.simulation.workloads.pod_groups import GROUPED, of_group
from stowplan_lab.simulation.workloads.workload_specs import (
    LEFT_OUT,
    PATCHED_KINDS,
    job_in,
    patched_fields,
    typed_workload,
)

KINDS = ("Pod", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob")
#: Kinds whose pods may have runs that fail.
_FAILING = ("Pod", "Job", "CronJob")
#: Fields that a rollout may change.
_PATCHED = ("template", "strategy", "updateStrategy", "minReadySeconds")
#: Kinds whose pods are updated to another template.
ROLLED = ("Deployment", "StatefulSet", "DaemonSet")
_COMPANIONS: dict[str, tuple[type[ApiStruct], str]] = {
    "Deployment": (ReplicaSet, "ReplicaSet"),
    "ReplicaSet": (ReplicaSet, "ReplicaSet"),
    "StatefulSet": (StatefulSet, "StatefulSet"),
}


def template_of(
    spec: WorkloadSpec, folder: Path, classes: Sequence[PriorityClass], *, rolls: bool = False, where: str = ""
) -> tuple[Template, list[str]]:
    """The template, and notes for the user; raises ScenarioError.

    `rolls`: whether the scenario rolls it out at some time; `where`: where it comes from.
    """
    where = where or f"workloads: {spec.name}"
    manifest = _manifest(spec, folder, where)
    kind = manifest.get("kind")
    if kind not in KINDS:
        hint = next(did_you_mean(str(kind), KINDS), f"want one of {', '.join(KINDS)}")
        raise ScenarioError(f"{where}: a workload cannot be a {kind!r}; {hint}")
    if spec.failures is not None and kind not in _FAILING:
        raise ScenarioError(f"{where}: failures: only pods of a {' or a '.join(_FAILING)} fail, not those of a {kind}")
    try:
        pod = pod_of(_with_name(manifest, spec.name))
    except LoadError as error:
        raise ScenarioError(*(f"{where}: {problem}" for problem in error.errors)) from None
    admitted = admit([*classes, pod])
    found: Any = admitted.objects[-1]
    if spec.scheduler_name:
        found = replace(found, spec=replace(found.spec, scheduler_name=spec.scheduler_name))
    of_spec = manifest.get("spec") or {}
    typed: Any = None if kind == "Pod" else typed_workload(manifest, where)
    cron_job = typed if kind == "CronJob" else None
    job = job_in(typed) if kind == "CronJob" else typed if kind == "Job" else None
    if job is not None:
        if spec.lifetime is None:
            raise ScenarioError(f"{where}: a Job's pods end: give a lifetime")
        found = replace(found, spec=replace(found.spec, restart_policy=job.spec.restart_policy))
    if spec.pod_group is not None and kind not in GROUPED:
        raise ScenarioError(f"{where}: podGroup: each arrival of {' or '.join(GROUPED)} may have one, not a {kind}")
    template = Template(
        workload=spec.name,
        kind=kind,
        pod=found,
        spec=None if typed is None or job is not None else typed.spec,
        job=job,
        cron_job=cron_job,
        min_ready=0.0 if typed is None or job is not None else float(typed.spec.min_ready_seconds),
        rolls=rolls and kind in ROLLED,
        lifetime=spec.lifetime,
        failures=spec.failures,
        pod_group=spec.pod_group,
        annotations={**((manifest.get("metadata") or {}).get("annotations") or {}), **found.metadata.annotations},
        companion=_companion(kind, of_spec, found.metadata.namespace, where),
    )
    try:
        of_group(template, spec.name, spec.each)
    except DecodeError as error:
        raise ScenarioError(f"{where}: podGroup: {error}") from None
    return template, [*admitted.notes, *_ignored(kind, of_spec, where)]


def _ignored(kind: str, spec: Mapping[str, Any], where: str) -> list[str]:
    if kind not in PATCHED_KINDS:
        return []
    path = "spec"
    if kind == "CronJob":
        path, spec = "spec.jobTemplate.spec", spec["jobTemplate"]["spec"]
    return [f"{where}: {path}.{name} is not modelled" for name in LEFT_OUT if name in spec]


def patched_template(
    spec: WorkloadSpec, patch: Mapping[str, Any], folder: Path, classes: Sequence[PriorityClass], where: str
) -> Template:
    """The template that a rollout switches to; raises ScenarioError."""
    manifest = _manifest(spec, folder, f"workloads: {spec.name}")
    of_spec = patch.get("spec")
    others = [f"spec.{name}" for name in of_spec if name not in _PATCHED] if isinstance(of_spec, dict) else ["spec"]
    others += [name for name in patch if name != "spec"]
    if others:
        wanted = ", ".join(f"spec.{name}" for name in _PATCHED)
        raise ScenarioError(f"{where}.patch: a rollout changes {wanted}, not {' and '.join(others)}")
    patched = merge_patched(manifest, patch)
    try:
        return template_of(replace(spec, manifest=patched, file=None), folder, classes, rolls=True)[0]
    except ScenarioError as error:
        raise ScenarioError(*(f"{where}.patch: {problem}" for problem in error.problems)) from None


def _manifest(spec: WorkloadSpec, folder: Path, where: str) -> dict[str, Any]:
    if spec.manifest is not None:
        return spec.manifest
    path = folder / (spec.file or "")
    try:
        loaded = load_files([str(path)], others=frozenset(KINDS))
    except LoadError as error:
        raise ScenarioError(*(f"{where}: {problem}" for problem in error.errors)) from None
    found = [dict(raw) for raw in (*loaded.raw, *loaded.others) if raw.get("kind") in KINDS]
    if len(found) != 1:
        raise ScenarioError(f"{where}: file {path}: want one workload, got {len(found)}")
    return found[0]


def _with_name(manifest: dict[str, Any], name: str) -> dict[str, Any]:
    metadata = manifest.get("metadata") or {}
    return {"apiVersion": "v1", **manifest, "metadata": {"namespace": "default", **metadata, "name": name}}


def _companion(kind: str, spec: dict[str, Any], namespace: str, where: str) -> Callable[[str], ApiStruct] | None:
    if kind not in _COMPANIONS or not isinstance(spec.get("selector"), dict):
        return None
    struct, of_kind = _COMPANIONS[kind]

    def made(name: str) -> ApiStruct:
        metadata = {"name": name, "namespace": namespace, "uid": name}
        return convert(
            {"apiVersion": "apps/v1", "kind": of_kind, "metadata": metadata, "spec": {"selector": spec["selector"]}},
            struct,
        )

    try:
        made("a")
    except DecodeError as error:
        raise ScenarioError(f"{where}: {error}") from None
    return made


#: Kinds with replicas.
_SCALED = ("Deployment", "ReplicaSet", "StatefulSet")


class Change(NamedTuple):
    """A patch of Jobs."""

    #: Each has `change(fields)`.
    controllers: Collection[Any]
    #: Fields of the spec, by their names in Python, and their new values.
    fields: Mapping[str, Any]


class Rollout(NamedTuple):
    #: The workload's controllers that exist at that time; each has `roll_out(template)`.
    controllers: Collection[Any]
    #: None: restart the current template.
    template: Template | None


def rollouts_of(
    scenario: Scenario,
    templates: Mapping[str, Template],
    controllers: Mapping[str, Collection[Any]],
    folder: Path,
    classes: Sequence[PriorityClass],
) -> dict[int, Rollout | Change]:
    """Rollouts and patches by the number of their event; raises ScenarioError, also for what cannot be scaled."""
    specs = {spec.name: spec for spec in scenario.workloads}
    found: dict[int, Rollout | Change] = {}
    problems = Problems()
    for index, event in enumerate(scenario.events):
        with problems.collected():
            if event.scale is not None:
                _check(templates.get(event.scale.workload), event.scale.workload, _SCALED, f"events[{index}].scale")
            if event.rollout is not None:
                name, patch, where = event.rollout.workload, event.rollout.patch, f"events[{index}].rollout"
                _check(templates.get(name), name, ROLLED, where)
                template = None if patch is None else patched_template(specs[name], patch, folder, classes, where)
                found[index] = Rollout(controllers[name], template)
            if event.patch is not None:
                name, where = event.patch.workload, f"events[{index}].patch"
                _check(templates.get(name), name, PATCHED_KINDS, where)
                manifest = _manifest(specs[name], folder, f"workloads: {name}")
                found[index] = Change(controllers[name], patched_fields(manifest, event.patch.spec, f"{where}.spec"))
    problems.raise_any()
    return found


def _check(template: Template | None, name: str, kinds: Sequence[str], where: str) -> None:
    kind = "trace" if template is None else template.kind
    if kind not in kinds:
        raise ScenarioError(f"{where}: workload {name!r} is a {kind}; want one of {', '.join(kinds)}")
