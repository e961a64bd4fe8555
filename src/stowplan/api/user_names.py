"""Names of the users and groups that every cluster knows.

Upstream: staging/src/k8s.io/apiserver/pkg/authentication/user.
"""

from __future__ import annotations

ANONYMOUS = "system:anonymous"
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
MASTERS = "system:masters"
