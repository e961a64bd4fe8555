"""Authorize requests: system:masters and always-allowed paths first, then SubjectAccessReview.

Reviews are cached for a few seconds. Everything that is not allowed is forbidden.

Upstream: staging/src/k8s.io/apiserver/pkg/server/options/authorization.go, pkg/authorization/path,
plugin/pkg/authorizer/webhook, pkg/endpoints/filters/authorization.go.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import msgspec

from stowplan.kube.api.api_errors import Forbidden, StatusDetails
from stowplan.kube.api.field_errors import go_quote
from stowplan.kube.api.users import (
    MASTERS,
    NonResourceAttributes,
    SubjectAccessReview,
    SubjectAccessReviewSpec,
    SubjectAccessReviewStatus,
    UserInfo,
)
from stowplan.kube.klog import get_logger
from stowplan.kube.metrics.serving import ServingMetrics
from stowplan.kube.structs import PlainStruct
from stowplan.net.serving.access_metrics import AuthorizationMetrics, Decision
from stowplan.net.serving.reviewer import FAILURES, ReviewCache, Reviewer
from stowplan.net.serving.user import AuthorizationFailed, escaped

_log = get_logger(__name__)

#: Results for longer requests are not cached, to bound memory.
_LONGEST_KEPT = 10_000

_ALLOWED = SubjectAccessReviewStatus(allowed=True)
_NO_OPINION = SubjectAccessReviewStatus()


class AllowedPaths(PlainStruct, frozen=True):
    """Paths that are open to everybody; stored and compared without their leading slash."""

    exact: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()

    @classmethod
    def of(cls, entries: Sequence[str]) -> AllowedPaths:
        """Raises ValueError with upstream's text for a * that is not at the end."""
        paths = [entry.removeprefix("/") for entry in entries]
        for path in paths:
            if "*" in path[:-1]:
                raise ValueError(f"only trailing * allowed in {go_quote(path)}")
        return cls(
            frozenset(path for path in paths if not path.endswith("*")),
            tuple(path[:-1] for path in paths if path.endswith("*")),
        )

    def __contains__(self, path: str) -> bool:
        path = path.removeprefix("/")
        return path in self.exact or path.startswith(self.prefixes)


class AccessReviews:
    """SubjectAccessReviews by the API server; must be closed."""

    def __init__(
        self, reviewer: Reviewer, *, clock: Callable[[], float], yes_kept_for: float, no_kept_for: float
    ) -> None:
        self._reviewer = reviewer
        self._answers: ReviewCache[SubjectAccessReviewStatus] = ReviewCache(
            clock=clock, seconds_of=lambda status: yes_kept_for if status.allowed else no_kept_for
        )

    async def opinion(self, user: UserInfo, *, verb: str, path: str) -> SubjectAccessReviewStatus:
        """Send a review; raises AuthorizationFailed without a result."""
        spec = SubjectAccessReviewSpec(
            user=user.name,
            uid=user.uid,
            groups=user.groups,
            extra=dict(user.extra),
            non_resource_attributes=NonResourceAttributes(path=path, verb=verb),
        )
        if len(verb) + len(path) >= _LONGEST_KEPT:
            return await self._review(spec)
        key = hashlib.sha256(msgspec.json.encode(spec, order="sorted")).digest()
        kept = self._answers.kept(key)
        return kept if kept is not None else await self._answers.ask(key, lambda: self._review(spec), kind=user.name)

    async def close(self) -> None:
        await self._answers.close()

    async def _review(self, spec: SubjectAccessReviewSpec) -> SubjectAccessReviewStatus:
        try:
            return (await self._reviewer.review(SubjectAccessReview(spec=spec))).status
        except FAILURES as error:
            _log.error(error, "Failed to make webhook authorizer request")
            raise AuthorizationFailed(str(error)) from None


class DelegatedAuthorizer:
    """An `Authorizer`. Without reviews, only system:masters may use more than the allowed paths."""

    def __init__(
        self,
        *,
        allowed_paths: AllowedPaths,
        reviews: AccessReviews | None,
        clock: Callable[[], float],
        metrics: ServingMetrics | None = None,
    ) -> None:
        self._allowed_paths = allowed_paths
        self._reviews = reviews
        self._clock = clock
        self._metrics = None if metrics is None else AuthorizationMetrics(metrics)

    async def authorize(self, user: UserInfo, *, verb: str, path: str) -> None:
        began = self._clock()
        decision: Decision = "error"
        try:
            status = await self._opinion(user, verb=verb, path=path)
            decision = _decision(status)
        finally:
            if self._metrics is not None:
                self._metrics.decided(decision, self._clock() - began)
        if decision != "allowed":
            _log.v(4).info("Forbidden", URI=path, reason=status.reason)
            raise _forbidden(user, verb=verb, path=path, reason=status.reason)

    async def _opinion(self, user: UserInfo, *, verb: str, path: str) -> SubjectAccessReviewStatus:
        if MASTERS in user.groups or path in self._allowed_paths:
            return _ALLOWED
        if self._reviews is None:
            return _NO_OPINION
        return await self._reviews.opinion(user, verb=verb, path=path)


def _decision(status: SubjectAccessReviewStatus) -> Decision:
    if status.denied and status.allowed:
        raise AuthorizationFailed("webhook subject access review returned both allow and deny response")
    if status.denied:
        return "denied"
    return "allowed" if status.allowed else "no-opinion"


def _forbidden(user: UserInfo, *, verb: str, path: str, reason: str) -> Forbidden:
    message = escaped(f"User {go_quote(user.name)} cannot {verb} path {go_quote(path)}")
    return Forbidden(f"forbidden: {message}" + (f": {reason}" if reason else ""), details=StatusDetails())
