"""Validate CronJobs: schedule, time zone and the template of their Jobs.

Upstream: pkg/apis/batch/validation, github.com/robfig/cron.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from msgspec.structs import replace

from stowplan.kube.api.durations import parse_duration
from stowplan_cluster.apiserver.validation.fields import (
    Errors,
    check_enum,
    check_not_negative_fields,
    invalid,
    not_supported,
    required,
)
from stowplan_cluster.apiserver.validation.jobs import check_job_spec

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.objects import JsonObject

#: A Job's name is the CronJob's with a suffix of 11 characters.
_LONGEST_NAME = 52
_COUNTS = ("startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit")
_CONCURRENCY = ("Allow", "Forbid", "Replace")
_ZONE_PART_RE = re.compile(r"[A-Za-z.\-_0-9+]{1,14}")
_NUMBER_RE = re.compile(r"[+-]?[0-9]+")

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
#: Of each field: least, most, names.
_FIELDS: tuple[tuple[int, int, dict[str, int]], ...] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, {name: number for number, name in enumerate(_MONTHS, start=1)}),
    (0, 6, {name: number for number, name in enumerate(_DAYS)}),
)
_DESCRIPTORS = frozenset(("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"))
_EVERY = "@every "


def check_cron_job(errors: Errors, cron_job: JsonObject) -> None:
    _check_spec(errors, cron_job.get("spec") or {}, None)
    name = (cron_job.get("metadata") or {}).get("name", "")
    if len(name) > _LONGEST_NAME:
        errors.append(invalid("metadata.name", name, f"must be no more than {_LONGEST_NAME} characters"))


def check_cron_job_update(errors: Errors, cron_job: JsonObject, old: JsonObject, subresource: str) -> None:
    if not subresource:
        _check_spec(errors, cron_job.get("spec") or {}, old.get("spec") or {})


def _check_spec(errors: Errors, spec: JsonObject, old: JsonObject | None) -> None:
    _check_schedule(errors, spec, old)
    check_not_negative_fields(errors, "spec", spec, _COUNTS[:1])
    zone = spec.get("timeZone")
    if zone is not None and (old is None or old.get("timeZone") != zone):
        _check_time_zone(errors, zone)
    check_enum(errors, "spec.concurrencyPolicy", spec.get("concurrencyPolicy"), _CONCURRENCY)
    job = (spec.get("jobTemplate") or {}).get("spec") or {}
    of_job: Errors = []
    check_job_spec(of_job, job)
    errors += (replace(error, field=f"spec.jobTemplate.{error.field}") for error in of_job)
    if (selector := job.get("selector")) is not None:
        errors.append(invalid("spec.jobTemplate.spec.selector", selector, "`selector` will be auto-generated"))
    if job.get("manualSelector"):
        errors.append(not_supported("spec.jobTemplate.spec.manualSelector", True, ("nil", "false")))
    check_not_negative_fields(errors, "spec", spec, _COUNTS[1:])


# -- schedules --------------------------------------------------------------------------------------------------------


def _check_schedule(errors: Errors, spec: JsonObject, old: JsonObject | None) -> None:
    path, schedule = "spec.schedule", spec.get("schedule", "")
    if not schedule:
        errors.append(required(path))
        return
    try:
        _parse(schedule)
    except ValueError as problem:
        errors.append(invalid(path, schedule, str(problem)))
    if "TZ" not in schedule:
        return
    if old is None or "TZ" not in old.get("schedule", ""):
        detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        errors.append(invalid(path, schedule, detail))
    elif spec.get("timeZone") is not None:
        errors.append(invalid(path, schedule, "cannot use both timeZone field and TZ or CRON_TZ in schedule"))


def _parse(schedule: str) -> None:
    """Raise ValueError with the reference's message."""
    if schedule.startswith(("TZ=", "CRON_TZ=")):
        schedule = schedule.partition(" ")[2].strip()
    if schedule.startswith("@"):
        _parse_descriptor(schedule)
        return
    fields = schedule.split()
    if len(fields) != len(_FIELDS):
        raise ValueError(f"expected exactly {len(_FIELDS)} fields, found {len(fields)}: [{' '.join(fields)}]")
    for field, (least, most, named) in zip(fields, _FIELDS, strict=True):
        for part in filter(None, field.split(",")):
            _parse_range(part, least, most, named)


def _parse_descriptor(text: str) -> None:
    if text in _DESCRIPTORS:
        return
    if not text.startswith(_EVERY):
        raise ValueError(f"unrecognized descriptor: {text}")
    try:
        parse_duration(text.removeprefix(_EVERY))
    except ValueError as problem:
        raise ValueError(f"failed to parse duration {text}: {problem}") from None


def _parse_range(text: str, least: int, most: int, named: dict[str, int]) -> None:
    bounds, *steps = text.split("/")
    low, *high = bounds.split("-")
    if low in ("*", "?"):
        start, end = least, most
    else:
        start = end = _number(low, named)
        if len(high) > 1:
            raise ValueError(f"too many hyphens: {text}")
        if high:
            end = _number(high[0], named)
    if len(steps) > 1:
        raise ValueError(f"too many slashes: {text}")
    step = _number(steps[0], {}) if steps else 1
    if steps and not high:
        end = most
    if start < least:
        raise ValueError(f"beginning of range ({start}) below minimum ({least}): {text}")
    if end > most:
        raise ValueError(f"end of range ({end}) above maximum ({most}): {text}")
    if start > end:
        raise ValueError(f"beginning of range ({start}) beyond end of range ({end}): {text}")
    if step == 0:
        raise ValueError(f"step of range should be a positive number: {text}")


def _number(text: str, named: dict[str, int]) -> int:
    if text.lower() in named:
        return named[text.lower()]
    if not _NUMBER_RE.fullmatch(text):
        raise ValueError(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
    number = int(text)
    if not -(1 << 63) <= number < 1 << 63:
        raise ValueError(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": value out of range')
    if number < 0:
        raise ValueError(f"negative number ({number}) not allowed: {text}")
    return number


# -- time zones -------------------------------------------------------------------------------------------------------


def _check_time_zone(errors: Errors, zone: str) -> None:
    path = "spec.timeZone"
    if not zone:
        errors.append(invalid(path, zone, "timeZone must be nil or non-empty string"))
        return
    parts = zone.split("/")
    if any(part in (".", "..") or part.startswith("-") or not _ZONE_PART_RE.fullmatch(part) for part in parts):
        errors.append(invalid(path, zone, f"unknown time zone {zone}"))
        return
    if zone.lower() == "local":
        detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        errors.append(invalid(path, zone, detail))
    # Without a database of time zones nothing can be said of them.
    if zone != "Local" and not _is_zone(zone) and _is_zone("Europe/London"):
        errors.append(invalid(path, zone, f"unknown time zone {zone}"))


def _is_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True
