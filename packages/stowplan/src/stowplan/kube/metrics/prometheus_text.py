"""Prometheus text format 0.0.4, formatted like upstream.

Not encoded by prometheus_client, which is used for OpenMetrics: a busy scheduler's page has some four thousand lines,
and the event loop is blocked meanwhile. That takes 6 ms here and ten times as long there; besides, it appends "_total"
to counters that the reference names without, and ".0" to whole numbers.

Upstream: github.com/prometheus/common/expfmt/text_create.go.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING

from stowplan.kube.metrics.families import Histogram

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stowplan.kube.metrics.samples import Family


def family_text(family: Family) -> str:
    """The family with its series in the order of their labels; empty without series."""
    text = "".join(_series(family))
    if not text:
        return ""
    help = family.help.replace("\\", r"\\").replace("\n", r"\n")
    return f"# HELP {family.name} {help}\n# TYPE {family.name} {family.kind}\n{text}"


def escaped(value: str) -> str:
    """Escape a label value."""
    if "\\" not in value and "\n" not in value and '"' not in value:
        return value
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def go_float(number: float) -> str:
    """The number in Go's format: the shortest digits, with an exponent below 1e-4 and from a million on."""
    if number in (float("inf"), float("-inf")):
        return "+Inf" if number > 0 else "-Inf"
    digits, _, exponent = f"{float(number)!r}".partition("e")
    if exponent:
        return f"{digits.removesuffix('.0')}e{exponent}"
    if abs(number) < 1e6:
        return digits.removesuffix(".0")
    whole, _, fraction = digits.lstrip("-").partition(".")
    mantissa = f"{whole[0]}.{whole[1:]}{fraction}".rstrip("0").rstrip(".")
    return f"{'-' if number < 0 else ''}{mantissa}e+{len(whole) - 1:02d}"


@lru_cache(maxsize=256)
def bucket_bounds(bounds: tuple[float, ...]) -> tuple[str, ...]:
    """The upper bounds of a histogram's buckets, including +Inf."""
    return (*map(go_float, bounds), "+Inf")


def _series(family: Family) -> Iterator[str]:
    # Go sorts labels by name, and series by labels.
    order = sorted(range(len(family.labels)), key=family.labels.__getitem__)
    series = [([values[place] for place in order], child) for values, child in family.series()]
    names = [family.labels[place] for place in order]
    for values, child in sorted(series, key=lambda one: one[0]):
        labels = ",".join([f'{name}="{escaped(value)}"' for name, value in zip(names, values, strict=True)])
        if isinstance(child, Histogram):
            yield from _buckets(family.name, labels, child)
        else:
            yield f"{_named(family.name, labels)} {go_float(child.value)}\n"


def _buckets(name: str, labels: str, child: Histogram) -> Iterator[str]:
    start = f'{name}_bucket{{{labels}{"," if labels else ""}le="'
    count = 0
    for bound, count in zip(bucket_bounds(child.bounds), accumulate(child.counts), strict=True):
        yield f'{start}{bound}"}} {count if count < 1_000_000 else go_float(count)}\n'
    yield f"{_named(f'{name}_sum', labels)} {go_float(child.sum)}\n"
    yield f"{_named(f'{name}_count', labels)} {count if count < 1_000_000 else go_float(count)}\n"


def _named(name: str, labels: str) -> str:
    return f"{name}{{{labels}}}" if labels else name
