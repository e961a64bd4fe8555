"""Users of requests: their info, well-known names, and the reviews that identify and authorize them.

Upstream: staging/src/k8s.io/apiserver/pkg/authentication/user.
"""

# ruff: noqa: RUF012 - msgspec copies a `{}` default for each instance.

from collections.abc import Mapping

from msgspec import field

from stowplan.kube.api.meta import ApiStruct, ObjectMeta
from stowplan.kube.structs import PlainStruct

ANONYMOUS = "system:anonymous"
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
MASTERS = "system:masters"


class UserInfo(PlainStruct, frozen=True):
    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


ANONYMOUS_USER = UserInfo(ANONYMOUS, groups=(UNAUTHENTICATED,))


# TokenReview and SubjectAccessReview.
#
# A review is created like an object but not stored; the response is the review with its status.
#
# Upstream: staging/src/k8s.io/api/authentication/v1, authorization/v1.


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


# ConfigMap; used only for the cluster's client authentication settings.


class ConfigMap(ApiStruct, frozen=True, kw_only=True):
    api_version: str = "v1"
    kind: str = "ConfigMap"
    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] = {}
