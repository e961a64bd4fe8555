"""Render metrics in the format that the client accepts: Prometheus 0.0.4 or OpenMetrics 1.0.

OpenMetrics is only used for clients that accept nothing else. It formats bucket bounds differently ("1.0" for "1"), and
these are labels: for a Prometheus that prefers OpenMetrics, the series would differ from those of the reference, which
never uses OpenMetrics. Protocol buffers are not offered; clients that prefer them accept text, too.

Upstream: github.com/prometheus/client_golang/prometheus/promhttp/http.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from stowplan.kube.metrics.openmetrics import openmetrics
from stowplan.kube.metrics.prometheus_text import family_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stowplan.kube.metrics.samples import Family

#: Names contain no characters that need escaping; the scheme is the reference's.
TEXT = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


class HasFamilies(Protocol):
    def families(self) -> Iterable[Family]: ...


def render(registries: Iterable[HasFamilies], accept: str) -> tuple[str, bytes]:
    """Content type and body. Names must be unique among the registries."""
    families = [family for registry in registries for family in registry.families()]
    families.sort(key=lambda family: family.name)
    if _wants_openmetrics(accept):
        return OPENMETRICS, openmetrics(families)
    return TEXT, "".join(map(family_text, families)).encode()


def _wants_openmetrics(accept: str) -> bool:
    kinds = {part.partition(";")[0].strip().lower() for part in accept.split(",")}
    return "application/openmetrics-text" in kinds and kinds.isdisjoint(("text/plain", "text/*", "*/*"))
