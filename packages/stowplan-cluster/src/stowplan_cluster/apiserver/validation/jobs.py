"""Validate Jobs: completions and the generated selector.

Left out is what no controller here acts on: failure policies, success policies and limits per index.

Upstream: pkg/apis/batch/validation.
"""

from __future__ import annotations

import re
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from msgspec.structs import replace

from stowplan.kube.api.cron_schedules import parse_schedule
from stowplan_cluster.apiserver.objects import JsonObject, is_true
from stowplan_cluster.apiserver.selection import compiled
from stowplan_cluster.apiserver.validation import names
from stowplan_cluster.apiserver.validation.field_errors import OMITTED, Errors, same
from stowplan_cluster.apiserver.validation.names import check_domain_prefixed_path
from stowplan_cluster.apiserver.validation.pods import check_pod_template
from stowplan_cluster.apiserver.validation.selectors import check_label_selector

LABEL_PREFIX = "batch.kubernetes.io/"

_JOB_COUNTS = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
_MAX_INDEXED = 100_000


def check_job(errors: Errors, job: JsonObject) -> None:
    metadata, spec = job.get("metadata") or {}, job.get("spec") or {}
    if spec.get("selector") is not None and not spec.get("manualSelector"):
        _check_generated_selector(errors, metadata, spec)
    check_job_spec(errors, spec)
    _check_selector(errors, spec)
    completions = spec.get("completions") or 0
    if spec.get("completionMode") == "Indexed" and completions > 0:
        hostname = f"{metadata.get('name', '')}-{completions - 1}"
        if names.dns_label(hostname):
            detail = f"will not able to create pod with invalid DNS label: {hostname}"
            errors.invalid("metadata.name", metadata.get("name", ""), detail)


def _check_generated_selector(errors: Errors, metadata: JsonObject, spec: JsonObject) -> None:
    uid, name = metadata.get("uid", ""), metadata.get("name", "")
    if not uid:
        errors.required("metadata.uid")
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    expected = {
        "controller-uid": uid,
        "job-name": name,
        f"{LABEL_PREFIX}controller-uid": uid,
        f"{LABEL_PREFIX}job-name": name,
    }
    for key, value in expected.items():
        path = f"spec.template.metadata.labels[{key}]"
        if key not in labels:
            errors.required(path, f"must be '{value}'")
        elif labels[key] != value:
            errors.invalid(path, labels, f"must be '{value}'")
    ready = compiled(spec["selector"])
    if ready is not None and not ready.matches(expected):
        errors.invalid("spec.selector", spec["selector"], "`selector` not auto-generated")


def check_job_spec(errors: Errors, spec: JsonObject) -> None:
    """Check what Jobs and templates of Jobs have in common: everything but the selector."""
    check_job_fields(errors, spec)
    check_pod_template(errors, "spec.template", spec.get("template") or {})
    check_restart_policy(errors, spec)


def check_job_fields(errors: Errors, spec: JsonObject) -> None:
    """Check everything but the selector and the pod template."""
    errors.check_not_negative_fields("spec", spec, _JOB_COUNTS)
    if (manager := spec.get("managedBy")) is not None:
        check_domain_prefixed_path(errors, "spec.managedBy", manager)
        errors.check_length("spec.managedBy", manager, 63)
    _check_mode(errors, spec)
    replacement = spec.get("podReplacementPolicy")
    supported = ("Failed",) if "podFailurePolicy" in spec else ("Failed", "TerminatingOrFailed")
    errors.check_supported("spec.podReplacementPolicy", replacement, supported)


def _check_selector(errors: Errors, spec: JsonObject) -> None:
    selector = spec.get("selector")
    if selector is None:
        errors.required("spec.selector")
    check_label_selector(errors, "spec.selector", selector)
    labels, ready = ((spec.get("template") or {}).get("metadata") or {}).get("labels"), compiled(selector)
    if ready is not None and not ready.matches(labels or {}):
        detail = "`selector` does not match template `labels`"
        errors.invalid("spec.template.metadata.labels", labels, detail)


def _check_mode(errors: Errors, spec: JsonObject) -> None:
    mode = spec.get("completionMode")
    errors.check_supported("spec.completionMode", mode, ("NonIndexed", "Indexed"))
    if mode != "Indexed":
        return
    completions, parallelism = spec.get("completions"), spec.get("parallelism")
    if completions is None:
        errors.required("spec.completions", "when completion mode is Indexed")
    if parallelism is not None and parallelism > _MAX_INDEXED:
        detail = f"must be less than or equal to {_MAX_INDEXED} when completion mode is Indexed"
        errors.invalid("spec.parallelism", parallelism, detail)


def check_restart_policy(errors: Errors, spec: JsonObject) -> None:
    path = "spec.template.spec.restartPolicy"
    policy = ((spec.get("template") or {}).get("spec") or {}).get("restartPolicy", "")
    if policy in ("", "Always"):
        errors.required(path, 'valid values: "OnFailure", "Never"')
    elif policy not in ("OnFailure", "Never"):
        errors.not_supported(path, policy, ("OnFailure", "Never"))


def check_job_update(errors: Errors, job: JsonObject, old: JsonObject, subresource: str) -> None:
    if subresource == "status":
        _check_status(errors, job, old)
        return
    spec, old_spec = job.get("spec") or {}, old.get("spec") or {}
    if spec.get("selector") is not None and not spec.get("manualSelector"):
        _check_generated_selector(errors, job.get("metadata") or {}, spec)
    check_job_spec(errors, spec)
    _check_selector(errors, spec)
    check_completions(errors, spec, old_spec)
    _check_template_kept(errors, spec, old_spec, started="startTime" in (old.get("status") or {}))
    fixed = ("selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")
    errors.check_immutable_fields("spec", spec, old_spec, *fixed)


def check_completions(errors: Errors, spec: JsonObject, old: JsonObject) -> None:
    completions = spec.get("completions")
    if spec.get("completionMode") != "Indexed":
        errors.check_immutable("spec.completions", completions, old.get("completions"))
    elif completions not in (None, old.get("completions"), spec.get("parallelism")):
        detail = "can only be modified in tandem with spec.parallelism"
        errors.invalid("spec.completions", completions, detail)


_DIRECTIVES = ("nodeSelector", "tolerations", "schedulingGates")


def _check_template_kept(errors: Errors, spec: JsonObject, old: JsonObject, *, started: bool) -> None:
    """Check that the template is unchanged; a suspended Job that never ran may change scheduling and resources."""
    new, allowed = spec.get("template") or {}, old.get("template") or {}
    if old.get("suspend"):
        pod, new_pod = dict(allowed.get("spec") or {}), new.get("spec") or {}
        for name in ("containers", "initContainers"):
            pod[name] = _with_new_resources(pod.get(name) or [], new_pod.get(name) or [])
        if not started:
            for name in _DIRECTIVES:
                pod[name] = new_pod.get(name)
            node_affinity = (new_pod.get("affinity") or {}).get("nodeAffinity")
            pod["affinity"] = (pod.get("affinity") or {}) | {"nodeAffinity": node_affinity}
            metadata, new_metadata = dict(allowed.get("metadata") or {}), new.get("metadata") or {}
            metadata |= {name: new_metadata.get(name) for name in ("labels", "annotations")}
            allowed = allowed | {"metadata": metadata}
        allowed = allowed | {"spec": pod}
    if not same(new, allowed):
        errors.check_immutable("spec.template", new, old.get("template"))


def _with_new_resources(old: list[JsonObject], new: list[JsonObject]) -> list[JsonObject]:
    if [container.get("name") for container in old] != [container.get("name") for container in new]:
        return old
    return [before | {"resources": after.get("resources")} for before, after in zip(old, new, strict=True)]


def _check_status(errors: Errors, job: JsonObject, old: JsonObject) -> None:
    status, old_status = job.get("status") or {}, old.get("status") or {}
    errors.check_not_negative_fields("status", status, ("active", "succeeded", "failed", "ready", "terminating"))
    done, failed = is_true(status, "Complete"), is_true(status, "Failed")
    if done and failed:
        errors.invalid("status.conditions", OMITTED, "cannot set Complete=True and Failed=true conditions")
    ended = status.get("completionTime")
    if ended is not None and not done:
        detail = "cannot set completionTime when there is no Complete=True condition"
        errors.invalid("status.completionTime", ended, detail)
    if ended is None and done:
        errors.required("status.completionTime", "completionTime is required for Complete jobs")
    if (done or failed) and status.get("startTime") is None:
        errors.required("status.startTime", "startTime is required for finished job")
    if (done or failed) and status.get("active", 0) > 0:
        errors.invalid("status.active", status["active"], "active>0 is invalid for finished job")
    for kind in ("Failed", "Complete", "FailureTarget"):
        if is_true(old_status, kind) and not is_true(status, kind):
            detail = f"cannot disable the terminal {kind}=True condition"
            errors.invalid("status.conditions", OMITTED, detail)


# Validate CronJobs: schedule, time zone and the template of their Jobs.
#
# Upstream: pkg/apis/batch/validation, github.com/robfig/cron.

#: A Job's name is the CronJob's with a suffix of 11 characters.
_LONGEST_NAME = 52
_COUNTS = ("startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit")
_CONCURRENCY = ("Allow", "Forbid", "Replace")
_ZONE_PART_RE = re.compile(r"[A-Za-z.\-_0-9+]{1,14}")


def check_cron_job(errors: Errors, cron_job: JsonObject) -> None:
    _check_cron_job_spec(errors, cron_job.get("spec") or {}, None)
    name = (cron_job.get("metadata") or {}).get("name", "")
    if len(name) > _LONGEST_NAME:
        errors.invalid("metadata.name", name, f"must be no more than {_LONGEST_NAME} characters")


def check_cron_job_update(errors: Errors, cron_job: JsonObject, old: JsonObject, subresource: str) -> None:
    if not subresource:
        _check_cron_job_spec(errors, cron_job.get("spec") or {}, old.get("spec") or {})


def _check_cron_job_spec(errors: Errors, spec: JsonObject, old: JsonObject | None) -> None:
    _check_schedule(errors, spec, old)
    errors.check_not_negative_fields("spec", spec, _COUNTS[:1])
    zone = spec.get("timeZone")
    if zone is not None and (old is None or old.get("timeZone") != zone):
        _check_time_zone(errors, zone)
    errors.check_enum("spec.concurrencyPolicy", spec.get("concurrencyPolicy"), _CONCURRENCY)
    job = (spec.get("jobTemplate") or {}).get("spec") or {}
    of_job = Errors()
    check_job_spec(of_job, job)
    errors += (replace(error, field=f"spec.jobTemplate.{error.field}") for error in of_job)
    if (selector := job.get("selector")) is not None:
        errors.invalid("spec.jobTemplate.spec.selector", selector, "`selector` will be auto-generated")
    if job.get("manualSelector"):
        errors.not_supported("spec.jobTemplate.spec.manualSelector", True, ("nil", "false"))
    errors.check_not_negative_fields("spec", spec, _COUNTS[1:])


# -- schedules --------------------------------------------------------------------------------------------------------


def _check_schedule(errors: Errors, spec: JsonObject, old: JsonObject | None) -> None:
    path, schedule = "spec.schedule", spec.get("schedule", "")
    if not schedule:
        errors.required(path)
        return
    try:
        parse_schedule(schedule)
    except ValueError as problem:
        errors.invalid(path, schedule, str(problem))
    if "TZ" not in schedule:
        return
    if old is None or "TZ" not in old.get("schedule", ""):
        detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        errors.invalid(path, schedule, detail)
    elif spec.get("timeZone") is not None:
        errors.invalid(path, schedule, "cannot use both timeZone field and TZ or CRON_TZ in schedule")


# -- time zones -------------------------------------------------------------------------------------------------------


def _check_time_zone(errors: Errors, zone: str) -> None:
    path = "spec.timeZone"
    if not zone:
        errors.invalid(path, zone, "timeZone must be nil or non-empty string")
        return
    parts = zone.split("/")
    if any(part in (".", "..") or part.startswith("-") or not _ZONE_PART_RE.fullmatch(part) for part in parts):
        errors.invalid(path, zone, f"unknown time zone {zone}")
        return
    if zone.lower() == "local":
        detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        errors.invalid(path, zone, detail)
    # Without a database of time zones nothing can be said of them.
    if zone != "Local" and not _is_zone(zone) and _is_zone("Europe/London"):
        errors.invalid(path, zone, f"unknown time zone {zone}")


def _is_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True
