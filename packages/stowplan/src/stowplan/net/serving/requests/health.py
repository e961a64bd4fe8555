"""Health checks, together or individually.

The group's page, which is public, only shows which checks fail. The reasons are in the log, and on the page of each
check.

Upstream: staging/src/k8s.io/apiserver/pkg/server/healthz.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from stowplan.kube.api.field_errors import go_quote
from stowplan.kube.klog.logger import get_logger
from stowplan.net.serving.requests.messages import NO_SNIFF, Page, Request, Response, refusal, text

if TYPE_CHECKING:
    from stowplan.kube.metrics.component import HealthMetrics

log = get_logger(__name__)

#: The problem, None if healthy.
Check = Callable[[], str | None]


class HealthChecks:
    def __init__(self, name: str, checks: Mapping[str, Check], *, observer: HealthMetrics | None = None) -> None:
        """`name` is the group: healthz, livez, readyz. A group without checks is healthy."""
        self._name = name
        if not checks:
            log.v(5).info("No default health checks specified. Installing the ping handler.")
        self._checks = dict(checks) or {"ping": lambda: None}
        named = ",".join(go_quote(check) for check in self._checks)
        log.v(5).plain(f"Installing health checkers for (/{name}): {named}")
        self._observer = observer

    @property
    def pages(self) -> dict[str, Page]:
        """The group's page and one per check, by path."""
        path = f"/{self._name}"
        return {path: self._group, **{f"{path}/{name}": _page_of(check) for name, check in self._checks.items()}}

    def _group(self, request: Request) -> Response:
        return self.report(excluded=request.query.get("exclude", ()), verbose="verbose" in request.query)

    def report(self, *, excluded: Sequence[str] = (), verbose: bool = False) -> Response:
        failed: dict[str, str] = {}
        lines = [self._line(name, check, excluded, failed) for name, check in self._checks.items()]
        unknown = sorted(set(excluded) - set(self._checks))
        if unknown:
            listed = ",".join(go_quote(name) for name in unknown)
            lines.append(f"warn: some health checks cannot be excluded: no matches for {listed}")
        if failed:
            reasons = (f"[-]{name} failed: {reason}" for name, reason in failed.items())
            log.v(2).plain("\n".join((f"{','.join(failed)} check failed: {self._name}", *reasons)))
            return refusal("\n".join((*lines, f"{self._name} check failed")), 500)
        if not verbose:
            return text("ok", headers=NO_SNIFF)
        return text("\n".join((*lines, f"{self._name} check passed", "")), headers=NO_SNIFF)

    def _line(self, name: str, check: Check, excluded: Sequence[str], failed: dict[str, str]) -> str:
        if name in excluded:
            return f"[+]{name} excluded: ok"
        reason = check()
        if self._observer is not None:
            self._observer.observe(name, self._name, reason is None)
        if reason is None:
            return f"[+]{name} ok"
        failed[name] = reason
        return f"[-]{name} failed: reason withheld"


def _page_of(check: Check) -> Page:
    return lambda request: check_answer(check)


def check_answer(check: Check) -> Response:
    """The page of one check, which shows why it fails."""
    reason = check()
    return text("ok") if reason is None else refusal(f"internal server error: {reason}", 500)
