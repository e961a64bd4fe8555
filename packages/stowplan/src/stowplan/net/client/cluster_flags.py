"""kubectl's flags that select a cluster and a user: --kubeconfig, --context, --as and --as-group.

Commands import this module for their options, so the client is imported when it connects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.kube.structs import PlainStruct

if TYPE_CHECKING:
    from stowplan.net.client.connection import Connection


class ClusterFlags(PlainStruct, frozen=True, kw_only=True):
    kubeconfig: str | None = None
    context: str | None = None
    #: Impersonated, as by kubectl.
    as_user: str = ""
    as_groups: tuple[str, ...] = ()

    @property
    def given(self) -> bool:
        return bool(self.kubeconfig or self.context or self.as_user or self.as_groups)

    def connect(self) -> Connection:
        """Raises ClientConfigError."""
        from stowplan.net.client.connection import connect_from_flags

        return connect_from_flags(
            kubeconfig=self.kubeconfig, context=self.context, as_user=self.as_user, as_groups=self.as_groups
        )
