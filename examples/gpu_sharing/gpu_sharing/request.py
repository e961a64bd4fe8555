"""Which GPUs a pod asks for, and which it got: what its annotations say.

GPUs are no resource of the node here, as Kubernetes cannot tell which of several a pod has: a pod names the GPUs'
number and the thousandths of each in annotations, and the scheduler answers with another one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX = "alibabacloud.com/"
#: On pods: thousandths of each GPU, number of GPUs, and the models that will do, joined by "|".
GPU_MILLI, GPU_COUNT, GPU_MODEL = PREFIX + "gpu-milli", PREFIX + "gpu-count", PREFIX + "gpu-card-model"
#: On pods that have a node: their GPUs by number, joined by "-".
GPU_INDEX = PREFIX + "gpu-index"
#: Thousandths of a whole GPU.
WHOLE = 1000


class GpuRequestError(ValueError):
    """A pod's annotations make no sense; says which and why."""


@dataclass(frozen=True, slots=True)
class GpuRequest:
    """So many thousandths of each of so many GPUs."""

    count: int
    milli: int
    #: The models that will do; empty: any.
    models: frozenset[str] = frozenset()

    @property
    def total(self) -> int:
        return self.count * self.milli

    @property
    def is_share(self) -> bool:
        """Whether it is a part of one GPU."""
        return self.milli < WHOLE

    @property
    def kind(self) -> int:
        """0 for a part of a GPU, else the number of GPUs: what GpuClustering keeps together."""
        return 0 if self.is_share else self.count


def request_of(annotations: Mapping[str, str]) -> GpuRequest | None:
    """The GPUs that a pod asks for; None: none. Raise GpuRequestError."""
    milli, count = annotations.get(GPU_MILLI), annotations.get(GPU_COUNT)
    if milli is None and count is None:
        return None
    return _request(milli, count, annotations.get(GPU_MODEL, ""))


def indexes_of(annotations: Mapping[str, str]) -> tuple[int, ...] | None:
    """The GPUs that a pod got, by number; None if nobody has said, or nothing that can be read."""
    text = annotations.get(GPU_INDEX)
    return None if text is None else _indexes(text)


def index_text(indexes: tuple[int, ...]) -> str:
    return "-".join(map(str, indexes))


@lru_cache(maxsize=4096)
def _request(milli: str | None, count: str | None, models: str) -> GpuRequest | None:
    found = GpuRequest(
        count=1 if count is None else _number(GPU_COUNT, count),
        milli=WHOLE if milli is None else _number(GPU_MILLI, milli),
        models=frozenset(model for model in models.split("|") if model),
    )
    if not found.total:
        return None
    if found.milli > WHOLE:
        raise GpuRequestError(f'annotation {GPU_MILLI}: "{milli}" is more than the {WHOLE} of a whole GPU')
    if found.count > 1 and found.is_share:
        raise GpuRequestError(f'annotation {GPU_MILLI}: "{milli}" of {found.count} GPUs: several GPUs come whole')
    return found


def _number(name: str, text: str) -> int:
    # Digits alone: int() also takes "+1", "1_000" and " 1".
    if not (text.isascii() and text.isdigit()):
        raise GpuRequestError(f'annotation {name}: "{text}" is not a number of 0 or more')
    return int(text)


@lru_cache(maxsize=4096)
def _indexes(text: str) -> tuple[int, ...] | None:
    parts = text.split("-")
    return tuple(map(int, parts)) if all(part.isascii() and part.isdigit() for part in parts) else None
