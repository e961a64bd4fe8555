"""The specs of Jobs and CronJobs in scenarios: with an API server's defaults, and refused with its messages.

Unlike there, `restartPolicy` may be left out; it is Never then.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from stowplan.kube.api.decode import DecodeError, convert, to_dict
from stowplan.kube.api.merge_patches import merge_patched
from stowplan_cluster.apiserver.defaults.workloads import default_cron_job, default_job
from stowplan_cluster.apiserver.validation.field_errors import Errors
from stowplan_cluster.apiserver.validation.jobs import (
    check_completions,
    check_cron_job_spec,
    check_job_fields,
    check_restart_policy,
)
from stowplan_cluster.reconcile.views import CronJob, Job, Workload
from stowplan_lab.simulation.scenario_errors import ScenarioError

#: Kinds that a scenario may patch, and the fields that it may change.
_PATCHED = {
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
PATCHED_KINDS = tuple(_PATCHED)
#: Fields of Jobs that nothing here acts on.
LEFT_OUT = ("podFailurePolicy", "successPolicy", "backoffLimitPerIndex", "maxFailedIndexes", "managedBy")


def job_of(manifest: Mapping[str, Any], where: str) -> Job:
    """The Job of a manifest, whose pod template is sound; raises ScenarioError."""
    made = {"metadata": {}, "spec": deepcopy(dict(manifest.get("spec") or {}))}
    _check_types(made, Job, where)
    _default_restart_policy(made["spec"])
    default_job(made)
    errors = Errors()
    _check_job(errors, made["spec"])
    _raise(errors, where)
    return convert(made, Job)


def cron_job_of(manifest: Mapping[str, Any], where: str) -> tuple[CronJob, Job]:
    """The CronJob of a manifest, and the Job that it creates; raises ScenarioError."""
    made = {"metadata": {}, "spec": deepcopy(dict(manifest.get("spec") or {}))}
    _check_types(made, CronJob, where)
    job = {"spec": made["spec"].get("jobTemplate", {}).get("spec") or {}}
    _check_types(job, Job, where, "spec.jobTemplate.")
    _default_restart_policy(job["spec"])
    default_cron_job(made)
    errors = Errors()
    check_cron_job_spec(errors, made["spec"], None, _check_job)
    _raise(errors, where)
    return convert(made, CronJob), job_of(job, where)


def _default_restart_policy(spec: dict[str, Any]) -> None:
    spec["template"].setdefault("spec", {}).setdefault("restartPolicy", "Never")


def _check_types(made: Mapping[str, Any], struct: type[Workload], where: str, path: str = "") -> None:
    try:
        convert(made, struct)
    except DecodeError as error:
        raise ScenarioError(f"{where}: {path}{error}") from None


def _check_job(errors: Errors, spec: dict[str, Any]) -> None:
    check_job_fields(errors, spec)
    check_restart_policy(errors, spec)


def _raise(errors: Errors, where: str) -> None:
    if errors:
        raise ScenarioError(*(f"{where}: {error}" for error in errors))


def patched_fields(manifest: Mapping[str, Any], patch: Mapping[str, Any], where: str) -> dict[str, Any]:
    """What a patch of a manifest's spec changes, by the names of fields in Python; raises ScenarioError."""
    names = _PATCHED[manifest["kind"]]
    others = [name for name in patch if name not in names]
    if others:
        raise ScenarioError(f"{where}: a patch changes {', '.join(names)}, not {' and '.join(others)}")
    patched = merge_patched(manifest, {"spec": patch})
    if manifest["kind"] == "CronJob":
        new: CronJob | Job = cron_job_of(patched, where)[0]
    else:
        old, new = job_of(manifest, where), job_of(patched, where)
        errors = Errors()
        check_completions(errors, to_dict(new.spec), to_dict(old.spec))
        _raise(errors, where)
    return {names[name]: getattr(new.spec, names[name]) for name in patch}
