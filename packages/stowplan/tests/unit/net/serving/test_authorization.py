"""Authorization: groups, always-allowed paths, and decisions of the API server."""

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.api.api_errors import Forbidden
from stowplan.kube.api.port import Unreachable
from stowplan.kube.api.users import ANONYMOUS_USER, SubjectAccessReviewStatus, UserInfo
from stowplan.kube.metrics.registry import MetricsRegistry
from stowplan.kube.metrics.serving import ServingMetrics
from stowplan.kube.timing.times import ManualTime
from stowplan.net.serving.access_metrics import AuthorizationMetrics
from stowplan.net.serving.authorization import AccessReviews, AllowedPaths, DelegatedAuthorizer
from stowplan.net.serving.reviewer import Reviewer
from stowplan.net.serving.user import AuthorizationFailed
from support.serving.delegation import ReviewingApi

DEFAULT_PATHS = ("/healthz", "/readyz", "/livez")
ALICE = UserInfo("alice", uid="7", groups=("staff", "system:authenticated"), extra={"k": ("v", "w")})
YES, NO = SubjectAccessReviewStatus(allowed=True), SubjectAccessReviewStatus()


class World:
    def __init__(self, *, paths=DEFAULT_PATHS, yes_kept_for=10.0, no_kept_for=10.0, metrics=None):
        self.time = ManualTime()
        self.api = ReviewingApi()
        times = self.time
        requests = None if metrics is None else AuthorizationMetrics(metrics).requests
        self.reviews = AccessReviews(
            Reviewer(self.api, times=times, metrics=requests),
            clock=times.clock,
            yes_kept_for=yes_kept_for,
            no_kept_for=no_kept_for,
        )
        self.authorizer = DelegatedAuthorizer(
            allowed_paths=AllowedPaths.of(paths), reviews=self.reviews, clock=times.clock, metrics=metrics
        )

    async def may(self, user=ALICE, verb="get", path="/metrics"):
        try:
            await self.authorizer.authorize(user, verb=verb, path=path)
        except Forbidden:
            return False
        return True


@pytest.fixture
async def world():
    world = World()
    yield world
    await world.reviews.close()


@pytest.mark.parametrize(("entry", "shown"), [("/a*b", "a*b"), ("a**", "a**"), ("*/", "*/")])
def test_wildcards_are_allowed_only_at_the_end(entry, shown):
    with pytest.raises(ValueError, match="only trailing") as caught:
        AllowedPaths.of(["/fine", entry])
    assert str(caught.value) == f'only trailing * allowed in "{shown}"'


async def test_privileged_groups_are_not_reviewed(world):
    assert await world.may(ANONYMOUS_USER, path="/readyz")
    assert await world.may(ANONYMOUS_USER, "post", "/livez")
    assert await world.may(UserInfo("root", groups=("a", "system:masters")))
    assert world.api.asked == []


async def test_other_requests_are_reviewed(world):
    world.api.rights["alice", "put", "/debug/flags/v"] = YES
    assert await world.may(verb="put", path="/debug/flags/v")
    (asked,) = world.api.asked
    spec = asked.spec
    assert (spec.user, spec.uid, spec.groups, spec.extra) == ("alice", "7", ALICE.groups, {"k": ("v", "w")})
    assert (spec.non_resource_attributes.verb, spec.non_resource_attributes.path) == ("put", "/debug/flags/v")


@pytest.mark.parametrize(
    ("user", "path", "status", "message"),
    [
        pytest.param(
            ALICE,
            "/metrics",
            SubjectAccessReviewStatus(denied=True, reason="not today"),
            'forbidden: User "alice" cannot get path "/metrics": not today',
            id="denied for a reason",
        ),
        pytest.param(
            UserInfo('<b>"&'),
            "/<script>",
            NO,
            r'forbidden: User "&lt;b&gt;\"&amp;" cannot get path "/&lt;script&gt;"',
            id="nothing that a browser takes for a page",
        ),
        pytest.param(
            ALICE,
            "/x",
            SubjectAccessReviewStatus(evaluation_error="a role is missing"),
            'forbidden: User "alice" cannot get path "/x"',
            id="an evaluation error is no reason",
        ),
    ],
)
async def test_forbidden(world, user, path, status, message):
    world.api.rights[user.name, "get", path] = status
    with pytest.raises(Forbidden) as caught:
        await world.authorizer.authorize(user, verb="get", path=path)
    said = caught.value.status
    assert (said.code, said.reason, said.message) == (403, "Forbidden", message)
    assert said.details is not None


async def test_without_reviews_the_rest_is_forbidden():
    authorizer = DelegatedAuthorizer(
        allowed_paths=AllowedPaths.of(DEFAULT_PATHS), reviews=None, clock=ManualTime().clock
    )
    await authorizer.authorize(ANONYMOUS_USER, verb="get", path="/healthz")
    with pytest.raises(Forbidden):
        await authorizer.authorize(ALICE, verb="get", path="/metrics")


async def test_allowed_and_denied_have_their_own_ttl():
    world = World(yes_kept_for=5.0, no_kept_for=1.0)
    world.api.rights["alice", "get", "/yes"] = YES
    counts = []
    for seconds in (0, 0.9, 0.2, 3.8, 0.2):
        await world.time.advance(seconds)
        assert await world.may(path="/yes")
        assert not await world.may(path="/no")
        paths = [review.spec.non_resource_attributes.path for review in world.api.asked]
        counts.append((paths.count("/yes"), paths.count("/no")))
    assert counts == [(1, 1), (1, 1), (1, 2), (1, 3), (2, 3)]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"user": UserInfo("alicf", uid="7", groups=ALICE.groups, extra=ALICE.extra)}, id="name"),
        pytest.param({"user": UserInfo("alice", uid="8", groups=ALICE.groups, extra=ALICE.extra)}, id="uid"),
        pytest.param({"user": UserInfo("alice", uid="7", groups=("staff",), extra=ALICE.extra)}, id="groups"),
        pytest.param({"user": UserInfo("alice", uid="7", groups=ALICE.groups)}, id="extra"),
        pytest.param({"verb": "post"}, id="verb"),
        pytest.param({"path": "/metrics/"}, id="path"),
    ],
)
async def test_cached_decisions_are_for_one_request(world, other):
    world.api.rights["alice", "get", "/metrics"] = YES
    await world.may()
    await world.may(**other)
    await world.may()
    assert len(world.api.asked) == 2


async def test_the_order_of_extra_does_not_matter(world):
    for extra in ({"a": ("1",), "b": ("2",)}, {"b": ("2",), "a": ("1",)}):
        await world.may(UserInfo("alice", extra=extra))
    assert len(world.api.asked) == 1


async def test_decisions_for_oversized_paths_are_not_cached(world):
    for _ in range(2):
        await world.may(path="/" + "x" * 10_000)
    assert len(world.api.asked) == 2
    assert len(world.reviews._answers) == 0


async def test_failed_reviews(world, caplog):
    world.api.trouble = [Unreachable("https://s: connection refused")]
    with pytest.raises(AuthorizationFailed) as caught:
        await world.authorizer.authorize(ALICE, verb="get", path="/metrics")
    error = caught.value
    assert error.status.code == 500
    assert error.text("/metrics?a=<b>") == (
        'Internal Server Error: "/metrics?a=&lt;b&gt;": https://s: connection refused'
    )
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert 'Failed to make webhook authorizer request err="https://s: connection refused"' in record.getMessage()
    world.api.rights["alice", "get", "/metrics"] = YES
    assert await world.may()


async def test_both_allowed_and_denied_is_an_error(world):
    world.api.rights["alice", "get", "/metrics"] = SubjectAccessReviewStatus(allowed=True, denied=True)
    with pytest.raises(AuthorizationFailed, match="returned both allow and deny response"):
        await world.authorizer.authorize(ALICE, verb="get", path="/metrics")


async def test_metrics_of_decisions_and_reviews():
    metrics = ServingMetrics(MetricsRegistry())
    world = World(metrics=metrics)
    world.api.rights["alice", "get", "/yes"] = YES
    world.api.rights["alice", "get", "/denied"] = SubjectAccessReviewStatus(denied=True)
    for path in ("/healthz", "/yes", "/yes", "/denied", "/other"):
        await world.may(path=path)
    world.api.trouble = [Unreachable("gone")]
    with pytest.raises(AuthorizationFailed):
        await world.may(path="/trouble")
    attempts = metrics.authorization_attempts_total
    results = ("allowed", "denied", "no-opinion", "error")
    assert [attempts.with_label_values(result).value for result in results] == [3, 1, 1, 1]
    requests = metrics.apiserver_delegated_authz_request_total
    assert [requests.with_label_values(code).value for code in ("201", "<error>")] == [3, 1]


@given(
    st.lists(st.sampled_from(["/", "", "/a", "//a", "a/b", "/a*", "*", "/a/b*", "/a/*"])),
    st.sampled_from(["/", "/a", "//a", "/A", "/a/", "/ab", "/a/b", "/a/bc", "/a/../c", "/c", "a"]),
)
def test_paths_by_the_plain_rule(entries, path):
    def matches(entry):
        if entry.endswith("*"):
            return path.removeprefix("/").startswith(entry.removeprefix("/")[:-1])
        return path.removeprefix("/") == entry.removeprefix("/")

    assert (path in AllowedPaths.of(entries)) == any(map(matches, entries))
