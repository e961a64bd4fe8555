"""The specs of workloads in scenarios: with an API server's defaults, and refused with its messages.

Pod templates are checked elsewhere. Unlike there, `restartPolicy` may be left out for Jobs; it is Never then.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from stowplan.kube.api.decode import DecodeError, convert
from stowplan.kube.api.merge_patches import merge_patched
from stowplan_cluster.apiserver.manifest_checks import stored_form
from stowplan_cluster.apiserver.validation.field_errors import Errors
from stowplan_cluster.apiserver.validation.jobs import check_completions
from stowplan_cluster.reconcile.views import CRON_JOBS, JOBS, WORKLOAD_KINDS, CronJob, Job, Workload
from stowplan_lab.simulation.scenario_errors import ScenarioError

_LABELS = {"workload": "any"}

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
    names = _PATCHED[manifest["kind"]]
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
