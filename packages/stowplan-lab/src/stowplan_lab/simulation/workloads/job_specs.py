"""The specs of Jobs in scenarios: with an API server's defaults, and refused with its messages.

Unlike there, `restartPolicy` may be left out; it is Never then.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from stowplan.kube.api.decode import DecodeError, convert, to_dict
from stowplan.kube.api.merge_patches import merge_patched
from stowplan_cluster.apiserver.defaults.workloads import default_job
from stowplan_cluster.apiserver.validation.field_errors import Errors
from stowplan_cluster.apiserver.validation.jobs import check_completions, check_job_fields, check_restart_policy
from stowplan_cluster.reconcile.views import Job
from stowplan_lab.simulation.scenario_errors import ScenarioError

#: Kinds that a scenario may patch, and the fields that it may change.
PATCHED_KINDS = ("Job",)
_PATCHED = {
    "Job": {
        "parallelism": "parallelism",
        "completions": "completions",
        "suspend": "suspend",
        "backoffLimit": "backoff_limit",
        "activeDeadlineSeconds": "active_deadline_seconds",
        "ttlSecondsAfterFinished": "ttl_seconds_after_finished",
    },
}
#: Fields that nothing here acts on.
LEFT_OUT = ("podFailurePolicy", "successPolicy", "backoffLimitPerIndex", "maxFailedIndexes", "managedBy")


def job_of(manifest: Mapping[str, Any], where: str) -> Job:
    """The Job of a manifest, whose pod template is sound; raises ScenarioError."""
    made = {"metadata": {}, "spec": deepcopy(dict(manifest.get("spec") or {}))}
    try:
        convert(made, Job)
    except DecodeError as error:
        raise ScenarioError(f"{where}: {error}") from None
    made["spec"]["template"].setdefault("spec", {}).setdefault("restartPolicy", "Never")
    default_job(made)
    errors = Errors()
    check_job_fields(errors, made["spec"])
    check_restart_policy(errors, made["spec"])
    if errors:
        raise ScenarioError(*(f"{where}: {error}" for error in errors))
    return convert(made, Job)


def patched_fields(manifest: Mapping[str, Any], patch: Mapping[str, Any], where: str) -> dict[str, Any]:
    """What a patch of a manifest's spec changes, by the names of fields in Python; raises ScenarioError."""
    names = _PATCHED[manifest["kind"]]
    others = [name for name in patch if name not in names]
    if others:
        raise ScenarioError(f"{where}: a patch changes {', '.join(names)}, not {' and '.join(others)}")
    old, new = job_of(manifest, where), job_of(merge_patched(manifest, {"spec": patch}), where)
    errors = Errors()
    check_completions(errors, to_dict(new.spec), to_dict(old.spec))
    if errors:
        raise ScenarioError(*(f"{where}: {error}" for error in errors))
    return {names[name]: getattr(new.spec, names[name]) for name in patch}
