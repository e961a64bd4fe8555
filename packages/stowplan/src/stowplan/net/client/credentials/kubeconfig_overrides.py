"""Replace entries and fields of a context by kubectl's flags: --cluster, --user, --server, --token and the like.

A flag about the trusted CA replaces all that the entry says of trust, a token what it says of tokens, and a
certificate that of certificates. Without a context, --server alone makes a cluster. File names of flags are relative
to the current directory, those of entries to the directory of their file.

Upstream: staging/src/k8s.io/client-go/tools/clientcmd/client_config.go, getCluster and getAuthInfo.
"""

from __future__ import annotations

import os
from typing import TypeVar

from msgspec.structs import replace

from stowplan.net.client.cluster_flags import ClusterFlags
from stowplan.net.client.credentials.kubeconfig import Entry, Kubeconfig, Selection, named
from stowplan.net.client.credentials.kubeconfig_types import Cluster, User
from stowplan.net.client.endpoint.proxies import server_url

EntryT = TypeVar("EntryT", Cluster, User)
_FLAGS = "the flags"


def overridden(selection: Selection, config: Kubeconfig, flags: ClusterFlags) -> Selection:
    """Raises ClientConfigError for entries that are not there, and for what is no server."""
    cluster, user = selection.cluster, selection.user
    if flags.cluster:
        cluster = named(config, "--cluster", config.clusters, "cluster", flags.cluster)
    if flags.user:
        user = named(config, "--user", config.users, "user", flags.user)
    return Selection(
        context=selection.context,
        cluster=_with("cluster", cluster, Cluster(), _of_cluster(flags)),
        user=_with("user", user, User(), _of_user(flags)),
    )


def _with(kind: str, entry: Entry[EntryT] | None, empty: EntryT, fields: dict[str, object]) -> Entry[EntryT] | None:
    if not fields:
        return entry
    if entry is None:
        entry = Entry(kind, "", empty, _FLAGS)
    return replace(entry, value=replace(entry.value, **fields))


def _of_cluster(flags: ClusterFlags) -> dict[str, object]:
    fields: dict[str, object] = {}
    if flags.server:
        # Parity: the entry's name is not that of another server.
        fields |= {"server": server_url(flags.server, where="--server"), "tls_server_name": ""}
    if flags.tls_server_name:
        fields["tls_server_name"] = flags.tls_server_name
    if flags.certificate_authority or flags.insecure_skip_tls_verify:
        fields |= {
            "certificate_authority": _absolute(flags.certificate_authority),
            "certificate_authority_data": "",
            "insecure_skip_tls_verify": flags.insecure_skip_tls_verify,
        }
    return fields


def _of_user(flags: ClusterFlags) -> dict[str, object]:
    fields: dict[str, object] = {}
    if flags.token:
        fields |= {"token": flags.token, "token_file": "", "username": "", "password": ""}
    if flags.client_certificate:
        fields |= {"client_certificate": _absolute(flags.client_certificate), "client_certificate_data": ""}
    if flags.client_key:
        fields |= {"client_key": _absolute(flags.client_key), "client_key_data": ""}
    return fields


def _absolute(path: str) -> str:
    return os.path.abspath(path) if path and "\0" not in path else path
