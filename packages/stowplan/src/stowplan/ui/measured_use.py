"""What nodes use, as metrics.k8s.io measures it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from stowplan.ask.rebalance.policy.measured_use import use_of
from stowplan.kube.api.api_errors import ApiError, ServiceUnavailable
from stowplan.kube.api.port import Unreachable
from stowplan.net.serving.requests.messages import JSON, Page, Request, Response
from stowplan.scheduler.inspection.records import Record, encoded


class UseRecord(Record, frozen=True, kw_only=True, omit_defaults=False):
    kind: str = "Use"
    #: Node -> resource -> amount, in the units of requests.
    nodes: dict[str, dict[str, int]]


def use_record(metrics: Iterable[Mapping[str, Any]]) -> UseRecord:
    """Of NodeMetrics, as JSON."""
    return UseRecord(nodes=use_of(metrics, ()).nodes)


def use_pages(prefix: str, ask: Callable[[], Awaitable[UseRecord]]) -> dict[str, Page]:
    async def use(request: Request) -> Response:
        try:
            return Response(encoded(await ask()), content_type=JSON)
        except (ApiError, Unreachable) as error:
            raise ServiceUnavailable(f"metrics.k8s.io: {error}") from error

    return {f"{prefix}use": use}
