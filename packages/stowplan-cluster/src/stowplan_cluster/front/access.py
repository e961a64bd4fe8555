"""Authentication and authorization of requests.

A bearer token identifies the user; impersonation headers switch to another user if allowed. Then the authorizer
decides. Requests without a token get only the pages that every cluster serves to anonymous users: health and version.

Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/filters (authentication, authorization, impersonation).
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote

from stowplan.kube.api.api_errors import BadRequest, Forbidden, StatusDetails, Unauthorized, forbidden
from stowplan.kube.api.field_errors import go_quote
from stowplan.kube.api.users import ANONYMOUS, ANONYMOUS_USER, AUTHENTICATED, UNAUTHENTICATED, UserInfo
from stowplan.net.serving.user import escaped
from stowplan_cluster.apiserver.authorization import Attributes, Authorizer
from stowplan_cluster.front.routes import Route

if TYPE_CHECKING:
    from multidict import CIMultiDictProxy

    Headers = CIMultiDictProxy[str]

#: Pages that anonymous users may read.
_PUBLIC = frozenset(("/healthz", "/livez", "/readyz", "/version"))
_EXTRA = "impersonate-extra-"
_SERVICE_ACCOUNT = "system:serviceaccount:"


class Tokens:
    """Bearer tokens and their users. The repr never shows tokens."""

    def __init__(self, users: Mapping[str, UserInfo]) -> None:
        self._users = [(token.encode(), user) for token, user in users.items()]

    def user_of(self, token: str) -> UserInfo | None:
        """The user of a token; None for an unknown token."""
        given = token.encode("utf-8", "surrogateescape")
        found = None
        for known, user in self._users:
            # Compare with all tokens, so that the timing reveals nothing.
            if hmac.compare_digest(known, given):
                found = user
        return found


class Access:
    def __init__(self, tokens: Tokens, authorizer: Authorizer) -> None:
        self.tokens = tokens
        self.authorizer = authorizer

    def authenticate(self, headers: Headers, route: Route) -> UserInfo:
        """Authenticate and impersonate; raise Unauthorized or Forbidden."""
        authorization = headers.get("Authorization")
        if authorization is None:
            if route.verb == "get" and route.path in _PUBLIC:
                return ANONYMOUS_USER
            raise Unauthorized("Unauthorized")
        scheme, _, token = authorization.partition(" ")
        user = self.tokens.user_of(token.strip()) if scheme.lower() == "bearer" else None
        if user is None:
            raise Unauthorized("Unauthorized")
        return self._impersonated(user, headers) or user

    def authorize(self, user: UserInfo, route: Route, *, verb: str = "", name: str = "") -> None:
        """Raise Forbidden unless the user may make the route's request; `verb` overrides the route's."""
        verb = verb or route.verb
        if not route.is_resource:
            self._authorize_path(user, route, verb)
            return
        self._demand(
            Attributes(
                user=user,
                verb=verb,
                group=route.group,
                resource=route.plural,
                subresource=route.subresource,
                name=route.name or name,
                namespace=route.namespace,
                path=route.path,
            )
        )

    def _authorize_path(self, user: UserInfo, route: Route, verb: str) -> None:
        decision = self.authorizer.authorize(Attributes(user=user, verb=verb, path=route.path))
        if not decision.allowed:
            message = f"forbidden: User {go_quote(user.name)} cannot {verb} path {go_quote(route.path)}"
            raise Forbidden(_with_reason(escaped(message), decision.reason), details=StatusDetails())

    def _demand(self, attributes: Attributes) -> None:
        decision = self.authorizer.authorize(attributes)
        if not decision.allowed:
            raise forbidden(
                attributes.resource,
                attributes.group,
                attributes.name,
                _with_reason(_why(attributes), decision.reason),
            )

    def _impersonated(self, user: UserInfo, headers: Headers) -> UserInfo | None:
        if not any(name.lower().startswith("impersonate-") for name in headers):
            return None
        name, groups, uid = (
            headers.get("Impersonate-User", ""),
            headers.getall("Impersonate-Group", []),
            headers.get("Impersonate-Uid", ""),
        )
        extra = _extra_of(headers)
        if not name:
            if groups or uid or extra:
                raise BadRequest("requested to impersonate a group, uid or extra field without impersonating a user")
            return None
        account = _service_account(name)
        if account:
            self._may_impersonate(user, "", "serviceaccounts", account[1], namespace=account[0])
        else:
            self._may_impersonate(user, "", "users", name)
        for group in groups:
            self._may_impersonate(user, "", "groups", group)
        for key, values in extra.items():
            for value in values:
                self._may_impersonate(user, "authentication.k8s.io", "userextras", value, subresource=key)
        if uid:
            self._may_impersonate(user, "authentication.k8s.io", "uids", uid)
        return UserInfo(name=name, groups=_groups(name, groups, account), uid=uid, extra=extra)

    def _may_impersonate(
        self, user: UserInfo, group: str, resource: str, name: str, *, namespace: str = "", subresource: str = ""
    ) -> None:
        self._demand(
            Attributes(
                user=user,
                verb="impersonate",
                group=group,
                resource=resource,
                subresource=subresource,
                name=name,
                namespace=namespace,
            )
        )


def _why(attributes: Attributes) -> str:
    resource = attributes.resource
    if attributes.subresource:
        resource = f"{resource}/{attributes.subresource}"
    where = f"in the namespace {go_quote(attributes.namespace)}" if attributes.namespace else "at the cluster scope"
    text = (
        f"User {go_quote(attributes.user.name)} cannot {attributes.verb} resource {go_quote(resource)} "
        f"in API group {go_quote(attributes.group)} {where}"
    )
    return escaped(text)


def _with_reason(message: str, reason: str) -> str:
    return f"{message}: {reason}" if reason else message


def _extra_of(headers: Headers) -> dict[str, tuple[str, ...]]:
    extra: dict[str, tuple[str, ...]] = {}
    for name, value in headers.items():
        if name.lower().startswith(_EXTRA):
            key = unquote(name[len(_EXTRA) :].lower())
            extra[key] = (*extra.get(key, ()), value)
    return extra


def _service_account(name: str) -> tuple[str, str] | None:
    """Namespace and name of the service account with this user name; None if it is not one."""
    if not name.startswith(_SERVICE_ACCOUNT):
        return None
    namespace, _, account = name.removeprefix(_SERVICE_ACCOUNT).partition(":")
    return (namespace, account) if namespace and account and ":" not in account else None


def _groups(name: str, requested: Sequence[str], account: tuple[str, str] | None) -> tuple[str, ...]:
    groups = list(requested)
    if account and not groups:
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{account[0]}"]
    if name == ANONYMOUS:
        implied = UNAUTHENTICATED
        missing = implied not in groups
    else:
        implied = AUTHENTICATED
        missing = AUTHENTICATED not in groups and UNAUTHENTICATED not in groups
    return (*groups, implied) if missing else tuple(groups)
