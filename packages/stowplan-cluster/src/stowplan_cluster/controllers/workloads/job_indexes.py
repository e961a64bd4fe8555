"""Completion indexes of Indexed Jobs, in status (`0,2-5,9`) and on pods.

Upstream: pkg/controller/job/indexed_job_utils.go.
"""

from __future__ import annotations

from itertools import groupby, islice
from typing import TYPE_CHECKING

from stowplan.kube.api.whole_numbers import whole_number

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from stowplan_cluster.apiserver.objects import JsonObject
    from stowplan_cluster.controllers.pods import Pod

COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
INDEX_VARIABLE = "JOB_COMPLETION_INDEX"

_MAX_GENERATE_NAME = 58


def index_of(pod: Pod, completions: int) -> int | None:
    """The pod's index; None if it has none, or one that is no longer below completions."""
    return whole_number(pod.metadata.annotations.get(COMPLETION_INDEX, ""), completions - 1)


def parse_indexes(text: str, completions: int) -> set[int]:
    indexes: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        low, high = whole_number(first), whole_number(last or first)
        if low is not None and high is not None:
            indexes.update(range(low, min(high + 1, completions)))
    return indexes


def format_indexes(indexes: Iterable[int]) -> str:
    """Format sorted indexes; runs of three or more become ranges."""
    return ",".join(_run(first, last) for first, last in _runs(indexes))


def _runs(indexes: Iterable[int]) -> Iterator[tuple[int, int]]:
    for _, group in groupby(enumerate(sorted(indexes)), key=lambda pair: pair[1] - pair[0]):
        run = [index for _, index in group]
        yield run[0], run[-1]


def _run(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first},{last}" if last == first + 1 else f"{first}-{last}"


def first_free(taken: Collection[int], completions: int, count: int) -> list[int]:
    return list(islice((index for index in range(completions) if index not in taken), count))


def give_index(pod: JsonObject, job: str, index: int) -> None:
    """Set a pod's completion index: in metadata, hostname and environment."""
    metadata, spec = pod["metadata"], pod["spec"]
    suffix = f"-{index}-"
    metadata["generateName"] = f"{job[: _MAX_GENERATE_NAME - len(suffix)]}{suffix}"
    for field in ("labels", "annotations"):
        metadata[field] = {**(metadata.get(field) or {}), COMPLETION_INDEX: str(index)}
    spec["hostname"] = f"{job}-{index}"
    for container in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
        variables = container.get("env") or []
        if all(variable.get("name") != INDEX_VARIABLE for variable in variables):
            source = {"fieldRef": {"fieldPath": f"metadata.labels['{COMPLETION_INDEX}']"}}
            container["env"] = [*variables, {"name": INDEX_VARIABLE, "valueFrom": source}]
