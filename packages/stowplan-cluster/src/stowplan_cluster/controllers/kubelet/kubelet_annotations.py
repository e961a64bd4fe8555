"""Annotations that control how simulated containers behave.

They are parsed together: if one is invalid, the pod runs as if it had none.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from stowplan.kube.api.durations import parse_duration
from stowplan.kube.structs import PlainStruct

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.objects import JsonObject

START_AFTER = "stowplan.io/start-after"
RUN_FOR = "stowplan.io/run-for"
EXIT_CODE = "stowplan.io/exit-code"
STOP_AFTER = "stowplan.io/stop-after"
KUBELET = "stowplan.io/kubelet"
STOPPED = "stopped"

#: How long pods of Jobs run by default.
JOB_SECONDS = 1.0
_MAX_EXIT_CODE = 255
_DIGITS = re.compile("[0-9]{1,3}")


class InvalidAnnotation(ValueError):
    """The message names annotation, value and expected format."""


class KubeletAnnotations(PlainStruct, frozen=True):
    start_after: float = 0.0
    #: None: until deleted.
    run_for: float | None = None
    exit_code: int = 0
    stop_after: float = 0.0


def is_stopped(node: JsonObject) -> bool:
    return (node["metadata"].get("annotations") or {}).get(KUBELET) == STOPPED


def kubelet_annotations_of(pod: JsonObject) -> KubeletAnnotations:
    annotations = pod["metadata"].get("annotations") or {}
    run_for = JOB_SECONDS if _is_of_job(pod) else None
    return KubeletAnnotations(
        start_after=_seconds(annotations, START_AFTER) or 0.0,
        run_for=_seconds(annotations, RUN_FOR) if RUN_FOR in annotations else run_for,
        exit_code=_exit_code(annotations),
        stop_after=_seconds(annotations, STOP_AFTER) or 0.0,
    )


def _is_of_job(pod: JsonObject) -> bool:
    references = pod["metadata"].get("ownerReferences") or ()
    return any(one.get("controller") and one.get("kind") == "Job" for one in references)


def _seconds(annotations: dict[str, str], name: str) -> float | None:
    text = annotations.get(name)
    if text is None:
        return None
    try:
        seconds = parse_duration(text).seconds
    except ValueError as error:
        raise InvalidAnnotation(f"annotation {name}: {error}; write it as 30s or 1m30s") from None
    if seconds < 0:
        raise InvalidAnnotation(f"annotation {name}: {text!r} is negative")
    return seconds


def _exit_code(annotations: dict[str, str]) -> int:
    text = annotations.get(EXIT_CODE, "0")
    if not _DIGITS.fullmatch(text) or int(text) > _MAX_EXIT_CODE:
        raise InvalidAnnotation(f"annotation {EXIT_CODE}: {text[:64]!r} is not a number from 0 to {_MAX_EXIT_CODE}")
    return int(text)
