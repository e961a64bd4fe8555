"""User info of authenticated requests, and well-known user and group names.

Upstream: staging/src/k8s.io/apiserver/pkg/authentication/user.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import field

from stowplan.kube.structs import PlainStruct

if TYPE_CHECKING:
    from collections.abc import Mapping

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
