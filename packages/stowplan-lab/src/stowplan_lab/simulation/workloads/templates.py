"""The pod templates of a scenario's workloads, those that its rollouts switch to, and the specs of the workloads.

Specs have an API server's defaults, and are refused with its messages. Unlike there, `restartPolicy` may be left out
for Jobs; it is Never then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from copy import deepcopy
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
from stowplan_cluster.apiserver.manifest_checks import stored_form
from stowplan_cluster.apiserver.validation.field_errors import Errors
from stowplan_cluster.apiserver.validation.jobs import check_completions
from stowplan_cluster.reconcile.views import CRON_JOBS, JOBS, WORKLOAD_KINDS, CronJob, Job, Workload
from stowplan_lab.simulation.definition.scenario_fields import Scenario, WorkloadSpec
from stowplan_lab.simulation.scenario_errors import Problems, ScenarioError
from stowplan_lab.simulation.workloads.owners import FIRST, HASH, Template
from stowplan_lab.simulation.workloads.pod_groups import GROUPED, of_group

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
    rolls = rolls and kind in ROLLED
    if kind == "Deployment" and not rolls:
        labels = {**found.metadata.labels, HASH: FIRST}
        found = replace(found, metadata=replace(found.metadata, labels=labels))
    template = Template(
        workload=spec.name,
        kind=kind,
        pod=found,
        spec=None if typed is None or job is not None else typed.spec,
        job=job,
        cron_job=cron_job,
        min_ready=0.0 if typed is None or job is not None else float(typed.spec.min_ready_seconds),
        rolls=rolls,
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


_LABELS = {"workload": "any"}

#: Kinds that a scenario may patch, and the fields that it may change.
_PATCHED_FIELDS = {
    "Job": {
        "parallelism": "parallelism",
        "completions": "completions",
        "suspend": "suspend",
        "backoffLimit": "backoff_limit",
        "activeDeadlineSeconds": "active_deadline_seconds",
        "ttlSecondsAfterFinished": "ttl_seconds_after_finished",
    },
    "CronJob": {
        "schedule": "schedule",
        "timeZone": "time_zone",
        "suspend": "suspend",
        "concurrencyPolicy": "concurrency_policy",
        "startingDeadlineSeconds": "starting_deadline_seconds",
        "successfulJobsHistoryLimit": "successful_jobs_history_limit",
        "failedJobsHistoryLimit": "failed_jobs_history_limit",
    },
}
PATCHED_KINDS = tuple(_PATCHED_FIELDS)
#: Fields of Jobs that nothing here acts on.
LEFT_OUT = ("podFailurePolicy", "successPolicy", "backoffLimitPerIndex", "maxFailedIndexes", "managedBy")


def typed_workload(manifest: Mapping[str, Any], where: str) -> Any:
    """The workload as its controller reads it, with a pod template that says no more than `restartPolicy`.

    Raises ScenarioError.
    """
    return convert(_stored(manifest, where), WORKLOAD_KINDS[manifest["kind"]].struct)


def _stored(manifest: Mapping[str, Any], where: str) -> Any:
    """The same with an API server's defaults."""
    about = WORKLOAD_KINDS[manifest["kind"]]
    made = {"metadata": {"name": "any"}, "spec": deepcopy(dict(manifest.get("spec") or {}))}
    _check_types(made, about.struct, where)
    if about is CRON_JOBS:
        _check_types(made["spec"].get("jobTemplate") or {}, Job, f"{where}: spec.jobTemplate", ".")
    spec = made["spec"]["jobTemplate"]["spec"] if about is CRON_JOBS else made["spec"]
    policy = (spec["template"].get("spec") or {}).get("restartPolicy", "Never") if "Job" in about.kind else "Always"
    containers = [{"name": "any", "image": "any"}]
    spec["template"] = {"metadata": {"labels": _LABELS}, "spec": {"containers": containers, "restartPolicy": policy}}
    if "Job" not in about.kind:
        spec["selector"] = {"matchLabels": _LABELS}
    stored, problems = stored_form({"apiVersion": about.api_version, "kind": about.kind, **made})
    if problems:
        raise ScenarioError(*(f"{where}: {problem}" for problem in problems))
    return stored


def _check_types(made: Mapping[str, Any], struct: type[Workload], where: str, separator: str = ": ") -> None:
    """The API server's own words for a wrong type are Go's."""
    try:
        convert(made, struct)
    except DecodeError as error:
        raise ScenarioError(f"{where}{separator}{error}") from None


def job_in(cron_job: CronJob) -> Job:
    """The Job that it creates."""
    return convert(cron_job.spec.job_template, Job)


def patched_fields(manifest: Mapping[str, Any], patch: Mapping[str, Any], where: str) -> dict[str, Any]:
    """What a patch of a manifest's spec changes, by the names of fields in Python; raises ScenarioError."""
    names = _PATCHED_FIELDS[manifest["kind"]]
    others = [name for name in patch if name not in names]
    if others:
        raise ScenarioError(f"{where}: a patch changes {', '.join(names)}, not {' and '.join(others)}")
    stored = _stored(merge_patched(manifest, {"spec": patch}), where)
    if manifest["kind"] == JOBS.kind:
        errors = Errors()
        check_completions(errors, stored["spec"], _stored(manifest, where)["spec"])
        if errors:
            raise ScenarioError(*(f"{where}: {error}" for error in errors))
    spec = convert(stored, WORKLOAD_KINDS[manifest["kind"]].struct).spec
    return {names[name]: getattr(spec, names[name]) for name in patch}
