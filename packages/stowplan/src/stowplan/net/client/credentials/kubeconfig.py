"""Read kubeconfig files, merge them like kubectl, resolve a context, and replace parts of it by kubectl's flags.

Each entry stores its file: relative paths are relative to the file's directory, and every message names the file.
Merging works on whole entries: the first file with a cluster, user or context of a name wins, and later ones are
ignored entirely. The same applies to `current-context`.

A flag about the trusted CA replaces all that the entry says of trust, a token or a password what it says of
both, and a certificate that of certificates. Without a context, --server alone makes a cluster. File names of flags
are relative to the current directory.

Upstream: staging/src/k8s.io/client-go/tools/clientcmd/loader.go and merge.go;
client_config.go, getCluster and getAuthInfo.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import field
from msgspec.structs import replace

from stowplan.kube.api.field_errors import go_quote
from stowplan.kube.config.config_documents import parse_document
from stowplan.kube.config.config_errors import ConfigError, os_error_text
from stowplan.kube.structs import PlainStruct
from stowplan.net.client.client_errors import ClientConfigError
from stowplan.net.client.cluster_flags import ClusterFlags
from stowplan.net.client.credentials.kubeconfig_types import Cluster, Context, Header, User
from stowplan.net.client.endpoint.proxies import server_url

EntryT = TypeVar("EntryT", Cluster, User, Context)


class Entry(PlainStruct, Generic[EntryT], frozen=True):
    kind: str
    name: str
    value: EntryT
    file: str

    @property
    def where(self) -> str:
        return f"{self.file}: {self.kind} {go_quote(self.name)}"

    def path(self, path: str) -> str:
        """Resolve a path in the entry relative to the directory of its file."""
        if "\0" in path:
            raise ClientConfigError(f"invalid configuration: {self.where}: a file's name cannot hold a NUL character")
        return os.path.normpath(Path(self.file).parent.absolute() / path) if path else ""


class Kubeconfig(PlainStruct, frozen=True, kw_only=True):
    #: The files that were read, in order of precedence.
    files: tuple[str, ...] = ()
    current_context: str = ""
    clusters: Mapping[str, Entry[Cluster]] = field(default_factory=dict)
    users: Mapping[str, Entry[User]] = field(default_factory=dict)
    contexts: Mapping[str, Entry[Context]] = field(default_factory=dict)

    @property
    def where(self) -> str:
        return ", ".join(self.files)


class Selection(PlainStruct, frozen=True, kw_only=True):
    """The entries of a context. Without a context they are empty, and the server has to be given otherwise."""

    context: Entry[Context] | None = None
    cluster: Entry[Cluster] | None = None
    #: None connects anonymously.
    user: Entry[User] | None = None


def kubeconfig_paths(environ: Mapping[str, str]) -> list[str]:
    """The files to read without --kubeconfig: those in KUBECONFIG, or ~/.kube/config."""
    paths = environ.get("KUBECONFIG", "")
    if paths:
        return [path for path in dict.fromkeys(paths.split(os.pathsep)) if path]
    home = environ.get("HOME", "")
    return [os.path.join(home, ".kube", "config")] if home else []


def load_kubeconfig(path: str) -> Kubeconfig:
    """Read an explicitly given file; raises ClientConfigError, even if it is missing."""
    try:
        return parse_kubeconfig(Path(path).read_bytes(), path)
    except FileNotFoundError as error:
        raise ClientConfigError(os_error_text("stat", path, error)) from None
    except OSError as error:
        raise ClientConfigError(_loading(path, os_error_text("open", path, error))) from None


def load_kubeconfigs(paths: Iterable[str]) -> Kubeconfig:
    """Read and merge files; missing ones are skipped."""
    configs = [load_kubeconfig(path) for path in paths if not _is_missing(path)]
    return merged(configs)


def _is_missing(path: str) -> bool:
    try:
        os.stat(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False  # reading it reports the problem
    return False


def merged(configs: Sequence[Kubeconfig]) -> Kubeconfig:
    result = Kubeconfig()
    for config in configs:
        result = replace(
            result,
            files=(*result.files, *config.files),
            current_context=result.current_context or config.current_context,
            clusters={**config.clusters, **result.clusters},
            users={**config.users, **result.users},
            contexts={**config.contexts, **result.contexts},
        )
    return result


# --- one file


def parse_kubeconfig(data: bytes, file: str) -> Kubeconfig:
    header = _header(_without_nulls(_document(data, file)), file)
    return Kubeconfig(
        files=(file,),
        current_context=header.current_context,
        clusters=_entries(Cluster, "cluster", header.clusters, file),
        users=_entries(User, "user", header.users, file),
        contexts=_entries(Context, "context", header.contexts, file),
    )


def _loading(file: str, problem: str) -> str:
    return f"error loading config file {go_quote(file)}: {problem}"


def _document(data: bytes, file: str) -> object:
    try:
        return parse_document(data.decode("utf-8-sig")).value
    except UnicodeDecodeError as error:
        raise ClientConfigError(_loading(file, f"not UTF-8 text (byte {error.start})")) from None
    except ConfigError as error:
        raise ClientConfigError(_loading(file, str(error))) from None
    except (ValueError, RecursionError):
        raise ClientConfigError(_loading(file, "not YAML that can be read: too deep or too large a number")) from None


def _without_nulls(value: Any) -> Any:
    """Remove null members, which mean unset."""
    if isinstance(value, dict):
        return {key: _without_nulls(member) for key, member in value.items() if member is not None}
    return [_without_nulls(element) for element in value] if isinstance(value, list) else value


def _header(document: Any, file: str) -> Header:
    try:
        header = msgspec.convert({} if document is None else document, Header)
    except msgspec.ValidationError as error:
        raise ClientConfigError(_loading(file, _described(error))) from None
    if header.api_version not in ("", "v1") or header.kind not in ("", "Config"):
        found = f"kind {go_quote(header.kind or 'Config')} of version {go_quote(header.api_version or 'v1')}"
        raise ClientConfigError(_loading(file, f'this is {found}, expected kind "Config" of version "v1"'))
    return header


def _entries(type_: type[EntryT], kind: str, raw_entries: list[dict[str, Any]], file: str) -> dict[str, Entry[EntryT]]:
    entries: dict[str, Entry[EntryT]] = {}
    for position, raw in enumerate(raw_entries):
        name = raw.get("name", "")
        if not isinstance(name, str):
            raise ClientConfigError(_loading(file, f"{kind}s[{position}].name: expected a string, quote it"))
        if name in entries:
            raise ClientConfigError(_loading(file, f"duplicate name {go_quote(name)} in {kind}s"))
        try:
            value = msgspec.convert(raw.get(kind, {}), type_)
        except msgspec.ValidationError as error:
            raise ClientConfigError(_loading(file, f"{kind} {go_quote(name)}: {_described(error)}")) from None
        entries[name] = Entry(kind, name, value, file)
    return entries


def _described(error: msgspec.ValidationError) -> str:
    """`token: expected a string, got a number`; msgspec never quotes the value."""
    problem, _, path = str(error).partition(" - at `$")
    problem = problem[:1].lower() + problem[1:]
    for name, word in _TYPE_WORDS.items():
        problem = problem.replace(f"`{name}`", word)
    place = path.rstrip("`").lstrip(".")
    return f"{place}: {problem}" if place else problem


_TYPE_WORDS = {
    "str": "a string",
    "int": "a number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


# --- contexts


def select(config: Kubeconfig, context: str | None = None) -> Selection:
    """The entries of a context, by default the current one."""
    name = context or config.current_context
    if not name:
        return Selection()
    found = config.contexts.get(name)
    if found is None:
        raise ClientConfigError(_no_such_context(config, name, asked_for=bool(context)))
    cluster = named(config, found.where, config.clusters, "cluster", found.value.cluster)
    user = named(config, found.where, config.users, "user", found.value.user)
    return Selection(context=found, cluster=cluster, user=user)


def known_contexts(config: Kubeconfig) -> str:
    names = ", ".join(go_quote(name) for name in sorted(config.contexts))
    return f"the contexts are {names}" if names else "the kubeconfig has no contexts"


def _no_such_context(config: Kubeconfig, name: str, *, asked_for: bool) -> str:
    where = f"{config.where}: " if config.files else ""
    if asked_for:
        return f"{where}context {go_quote(name)} does not exist; {known_contexts(config)}"
    problem = f"context was not found for specified context: {name}"
    return f"invalid configuration: {where}current-context: {problem}; {known_contexts(config)}"


def named(
    config: Kubeconfig, where: str, entries: Mapping[str, Entry[EntryT]], kind: str, name: str
) -> Entry[EntryT] | None:
    """The entry that a context or a flag (`where`) names; raises ClientConfigError."""
    if not name:
        return None
    if name not in entries:
        known = ", ".join(go_quote(known) for known in sorted(entries)) or "none"
        problem = f"{kind}: {kind} {go_quote(name)} was not found in {config.where}; known {kind}s: {known}"
        raise ClientConfigError(f"invalid configuration: {where}: {problem}")
    return entries[name]


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
    if flags.token or flags.username or flags.password:
        fields |= {"token": flags.token, "token_file": "", "username": flags.username, "password": flags.password}
    if flags.client_certificate:
        fields |= {"client_certificate": _absolute(flags.client_certificate), "client_certificate_data": ""}
    if flags.client_key:
        fields |= {"client_key": _absolute(flags.client_key), "client_key_data": ""}
    return fields


def _absolute(path: str) -> str:
    return os.path.abspath(path) if path and "\0" not in path else path
