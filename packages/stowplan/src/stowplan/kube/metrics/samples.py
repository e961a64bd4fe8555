"""Metric families as passed to the writers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from stowplan.kube.structs import PlainStruct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from stowplan.kube.metrics.families import Counter, Gauge, Histogram

Kind = Literal["counter", "gauge", "histogram"]


class Family(PlainStruct, frozen=True, kw_only=True):
    """One metric and its series: label values, in the order of `labels`, and their children."""

    name: str
    help: str
    kind: Kind
    labels: tuple[str, ...]
    series: Callable[[], Iterable[tuple[tuple[str, ...], Counter | Gauge | Histogram]]]
