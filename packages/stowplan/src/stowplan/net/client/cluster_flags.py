"""kubectl's flags that select a cluster and a user, and those that replace what the kubeconfig says of them.

Commands import this module for their options, so the client is imported when it connects.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from stowplan.kube.structs import PlainStruct

if TYPE_CHECKING:
    from stowplan.net.client.connection import Connection


class ClusterFlags(PlainStruct, frozen=True, kw_only=True):
    """Unset flags are empty. A field is its flag's name with underscores."""

    kubeconfig: str | None = None
    context: str | None = None
    #: Entries other than those of the context.
    cluster: str = ""
    user: str = ""
    #: Instead of fields of the cluster's entry.
    server: str = ""
    tls_server_name: str = ""
    certificate_authority: str = ""
    insecure_skip_tls_verify: bool = False
    #: Instead of fields of the user's entry.
    token: str = ""
    client_certificate: str = ""
    client_key: str = ""
    username: str = ""
    password: str = ""
    #: Impersonated, as by kubectl: --as, --as-uid, --as-group.
    as_user: str = ""
    as_uid: str = ""
    as_groups: tuple[str, ...] = ()
    #: Of the requests. A number of seconds, or a duration; 0 is without end.
    request_timeout: str = ""
    disable_compression: bool = False

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> ClusterFlags:
        """Of the values of a command's options, among others."""
        return cls(**{name: values[name] for name in cls.__struct_fields__ if values.get(name)})

    @property
    def given(self) -> tuple[str, ...]:
        """The flags that are set."""
        values = ((name, getattr(self, name)) for name in self.__struct_fields__)
        return tuple(_FLAGS.get(name) or f"--{name.replace('_', '-')}" for name, value in values if value)

    def __repr__(self) -> str:
        # Without values: they may be a token or a password.
        return f"ClusterFlags({', '.join(self.given)})"

    def connect(self) -> Connection:
        """Raises ClientConfigError."""
        from stowplan.net.client.connection import connect_from_flags

        return connect_from_flags(self)


#: The flags whose fields have other names.
_FLAGS = {"as_user": "--as", "as_groups": "--as-group"}
