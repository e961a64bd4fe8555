"""TokenReview and SubjectAccessReview.

A review is created like an object but not stored; the response is the review with its status.

Upstream: staging/src/k8s.io/api/authentication/v1, authorization/v1.
"""

# ruff: noqa: RUF012 - msgspec copies a `{}` default for each instance.

from stowplan.kube.api.meta import ApiStruct, ObjectMeta


class ReviewedUser(ApiStruct, frozen=True, kw_only=True):
    """UserInfo of authentication.k8s.io."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


class TokenReviewSpec(ApiStruct, frozen=True, kw_only=True):
    token: str = ""
    audiences: tuple[str, ...] = ()

    def __repr__(self) -> str:
        # Without the token, which must not appear in logs.
        return f"TokenReviewSpec(audiences={self.audiences!r})"


class TokenReviewStatus(ApiStruct, frozen=True, kw_only=True):
    authenticated: bool = False
    user: ReviewedUser = ReviewedUser()
    audiences: tuple[str, ...] = ()
    error: str = ""


class TokenReview(ApiStruct, frozen=True, kw_only=True):
    api_version: str = "authentication.k8s.io/v1"
    kind: str = "TokenReview"
    metadata: ObjectMeta = ObjectMeta()
    spec: TokenReviewSpec = TokenReviewSpec()
    status: TokenReviewStatus = TokenReviewStatus()


class NonResourceAttributes(ApiStruct, frozen=True, kw_only=True):
    path: str = ""
    verb: str = ""


class SubjectAccessReviewSpec(ApiStruct, frozen=True, kw_only=True):
    """Without resourceAttributes: we only serve paths."""

    non_resource_attributes: NonResourceAttributes | None = None
    user: str = ""
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: dict[str, tuple[str, ...]] = {}


class SubjectAccessReviewStatus(ApiStruct, frozen=True, kw_only=True):
    allowed: bool = False
    denied: bool = False
    reason: str = ""
    evaluation_error: str = ""


class SubjectAccessReview(ApiStruct, frozen=True, kw_only=True):
    api_version: str = "authorization.k8s.io/v1"
    kind: str = "SubjectAccessReview"
    metadata: ObjectMeta = ObjectMeta()
    spec: SubjectAccessReviewSpec = SubjectAccessReviewSpec()
    status: SubjectAccessReviewStatus = SubjectAccessReviewStatus()
