"""Duration metrics of authentication and authorization."""

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from stowplan.kube.api.api_errors import Forbidden, InternalError, Unauthorized
from stowplan.kube.api.port import Unreachable
from stowplan.kube.api.users import SubjectAccessReview, SubjectAccessReviewStatus, UserInfo
from stowplan.kube.metrics.registry import MetricsRegistry
from stowplan.kube.metrics.serving import ServingMetrics
from stowplan.kube.timing.times import ManualTime
from stowplan.net.serving.access_metrics import RequestMetrics, TokenCacheMetrics
from stowplan.net.serving.authentication.authenticator import DelegatedAuthenticator
from stowplan.net.serving.authentication.request_header import STANDARD
from stowplan.net.serving.authorization import AllowedPaths, DelegatedAuthorizer
from stowplan.net.serving.reviewer import Reviewer
from stowplan.net.serving.user import Peer, Rejected

NO_HEADERS = CIMultiDictProxy(CIMultiDict())


@pytest.fixture
def time():
    """Far from 0, so that an absolute time in place of a duration would show."""
    time = ManualTime()
    time.now = 1000.0
    return time


@pytest.fixture
def metrics():
    return ServingMetrics(MetricsRegistry())


def observed(family):
    """Labels -> number and sum of the observations."""
    return {values: (child.count, child.sum) for values, child in family.series()}


class Slow:
    """Returns its answer after two seconds."""

    def __init__(self, time, answer):
        self._time = time
        self._answer = answer

    def _say(self):
        self._time.now += 2.0
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    async def identify(self, headers, peer):
        return self._say()

    async def opinion(self, user, *, verb, path):
        return self._say()

    async def create(self, review):
        return self._say()


@pytest.mark.parametrize(("answer", "result"), [(UserInfo("me"), "success"), (Rejected("no"), "error")])
async def test_authentication_duration(time, metrics, answer, result):
    method = Slow(time, answer)
    authenticator = DelegatedAuthenticator([method], clock=time.clock, headers=lambda: STANDARD, metrics=metrics)
    try:
        await authenticator.authenticate(NO_HEADERS, Peer())
    except Unauthorized:
        assert result == "error"
    assert observed(metrics.authentication_duration_seconds) == {(result,): (1, 2.0)}


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        (SubjectAccessReviewStatus(allowed=True), "allowed"),
        (SubjectAccessReviewStatus(denied=True), "denied"),
        (SubjectAccessReviewStatus(), "no-opinion"),
        (InternalError("no"), "error"),
    ],
)
async def test_authorization_duration(time, metrics, answer, result):
    reviews = Slow(time, answer)
    authorizer = DelegatedAuthorizer(allowed_paths=AllowedPaths(), reviews=reviews, clock=time.clock, metrics=metrics)
    try:
        await authorizer.authorize(UserInfo("me"), verb="get", path="/metrics")
    except (Forbidden, InternalError):
        assert result != "allowed"
    assert observed(metrics.authorization_duration_seconds) == {(result,): (1, 2.0)}


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (SubjectAccessReview(), "201"),
        (Forbidden("no"), "403"),
        (Unreachable("nobody is there"), "<error>"),
    ],
)
async def test_review_duration(time, metrics, answer, code):
    total = metrics.apiserver_delegated_authz_request_total
    seconds = metrics.apiserver_delegated_authz_request_duration_seconds
    reviewer = Reviewer(Slow(time, answer), times=time, metrics=RequestMetrics(total, seconds))
    try:
        await reviewer.review(SubjectAccessReview())
    except (Forbidden, Unreachable):
        assert code != "201"
    assert observed(seconds) == {(code,): (1, 2.0)}
    assert [(values, child.value) for values, child in total.series()] == [((code,), 1)]


def test_cache_lookup_duration(time, metrics):
    cache = TokenCacheMetrics(metrics, clock=time.clock)
    waiting = metrics.authentication_token_cache_active_fetch_count
    cache.hit()
    with cache.missed(), cache.fetching():
        time.now += 3.0
        assert {values: child.value for values, child in waiting.series()} == {("blocked",): 1, ("in_flight",): 1}
    assert {values: child.value for values, child in waiting.series()} == {("blocked",): 0, ("in_flight",): 0}
    family = metrics.authentication_token_cache_request_duration_seconds
    assert observed(family) == {("hit",): (1, 0.0), ("miss",): (1, 3.0)}
