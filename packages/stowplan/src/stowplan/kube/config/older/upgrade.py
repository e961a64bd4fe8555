"""Convert a document of any version to v1.

The file is first checked against the schema of its own version, so errors use its field names.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Protocol

from stowplan.kube.api.field_errors import child
from stowplan.kube.config.config_documents import Document, members_of, parse_document, read_source
from stowplan.kube.config.config_errors import ConfigError, ConfigFileError, strict_error
from stowplan.kube.config.declaration import Declarations
from stowplan.kube.config.header import Header, no_kind, read_header
from stowplan.kube.config.older.draft import Draft, Json
from stowplan.kube.config.older.older_schemas import API_VERSIONS, POLICY, POLICY_KIND, VERSIONS, configuration_schema
from stowplan.kube.config.older.older_versions import check_provider, to_profiles, to_v1
from stowplan.kube.config.older.policy import convert_policy
from stowplan.kube.config.schema import CONFIGURATION_KIND, GROUP, Pointer, Slice, Struct, Type
from stowplan.kube.config.suggestions import MAX_HINTS, field_hints
from stowplan.kube.config.walk import decode_struct

# Lenient decoding: unknown fields are dropped, and case is ignored if there is no exact match.
#
# Upstream: encoding/json, as v1alpha1 configurations and policies were decoded.


def known_fields(schema: Type, value: Any) -> Any:
    """Copy data without unknown fields, and with the canonical names of the others."""
    match schema:
        case Pointer(item=item):
            return known_fields(item, value)
        case Slice(item=item) if isinstance(value, list):
            return [known_fields(item, element) for element in value]
        case Struct() if isinstance(value, dict):
            pairs = ((_name(schema, key), element) for key, element in members_of(value))
            return {
                name: known_fields(schema.fields[name].type, element) for name, element in pairs if name is not None
            }
        case _:
            return value


def unknown_fields(schema: Type, value: Any, path: str = "") -> Iterator[str]:
    """Yield the paths of dropped fields."""
    match schema:
        case Pointer(item=item):
            yield from unknown_fields(item, value, path)
        case Slice(item=item) if isinstance(value, list):
            for i, element in enumerate(value):
                yield from unknown_fields(item, element, f"{path}[{i}]")
        case Struct() if isinstance(value, dict):
            for key, element in members_of(value):
                name = _name(schema, key)
                if name is None:
                    yield child(path, key)
                else:
                    yield from unknown_fields(schema.fields[name].type, element, child(path, key))


def _name(schema: Struct, key: str) -> str | None:
    if key in schema.fields:
        return key
    return next((name for name in schema.fields if name.lower() == key.lower()), None)


_LOG = logging.getLogger(__name__)

#: Maximum number of warnings.
_MAX_LOGGED = 100


@dataclass(frozen=True, kw_only=True)
class Upgrade:
    document: Document
    #: The original version, e.g. `kubescheduler.config.k8s.io/v1beta2`; empty if nothing was converted.
    origin: str = ""
    #: Path of a field of the result -> why it is there or what it was.
    comments: dict[str, list[str]] = field(default_factory=dict)
    #: Paths of plugins that ran by default in the file's release.
    defaults: frozenset[str] = frozenset()
    #: Settings of the file that are lost.
    warnings: tuple[str, ...] = ()


class PolicyMaps(Protocol):
    """Reads Policies from ConfigMaps."""

    def policy(self, namespace: str, name: str, /, *, kubeconfig: str) -> Document:
        """The policy in a ConfigMap; raises ConfigError. `kubeconfig`: the configuration's own, or ""."""


def upgrade(document: Document, plugins: Declarations, maps: PolicyMaps | None = None) -> Upgrade:
    """`maps` of None: a policy in a ConfigMap is an error."""
    header = read_header(document.value, document.text)
    draft = Draft(fields={}, origin=header.version, plugins=plugins)
    if header.kind == POLICY_KIND and header.api_version in API_VERSIONS:
        draft.fields = {"apiVersion": "", "kind": CONFIGURATION_KIND, "profiles": [{}]}
        upgrade_policy(draft, document)
        return finished(draft, POLICY_KIND)
    if header.kind == CONFIGURATION_KIND and header.group == GROUP and header.version in VERSIONS:
        _upgrade_configuration(draft, document, header, maps)
        return finished(draft, header.api_version, document.text)
    return Upgrade(document=document)


def finished(draft: Draft, origin: str, text: str = "") -> Upgrade:
    return Upgrade(
        document=Document(text, draft.fields),
        origin=origin,
        comments=draft.comments,
        defaults=frozenset(draft.defaults),
        warnings=tuple(draft.warnings),
    )


def _upgrade_configuration(draft: Draft, document: Document, header: Header, maps: PolicyMaps | None) -> None:
    schema = configuration_schema(header.version)
    _check(document, schema, draft)
    draft.fields = _plain(known_fields(schema, document.value))
    _strip_headers(draft, header)
    source = draft.fields.pop("algorithmSource", {})
    if source.get("policy"):
        kubeconfig = (draft.fields.get("clientConnection") or {}).get("kubeconfig") or ""
        _use_policy(draft, read_policy(source["policy"], maps, kubeconfig))
        return
    draft.provider = source.get("provider") or draft.provider
    check_provider(draft.provider)
    if source.get("provider"):
        draft.explain("profiles[0].plugins", f"was algorithmSource.provider {draft.provider}")
    to_v1(draft, header.version)


# --- policies


def upgrade_policy(draft: Draft, document: Document) -> None:
    """Write a policy to the only profile."""
    draft.origin = POLICY_KIND
    convert_policy(draft, _policy(draft, document), draft.fields["profiles"][0])
    to_v1(draft, "v1beta1")


def read_policy(source: Json, maps: PolicyMaps | None, kubeconfig: str) -> Document:
    """Read the policy that a configuration names."""
    path = source.get("file", {}).get("path")
    if path is None:
        found = source.get("configMap", {})
        namespace, name = found.get("namespace") or "kube-system", found.get("name", "")
        if maps is not None:
            return maps.policy(namespace, name, kubeconfig=kubeconfig)
        raise ConfigError(
            f"algorithmSource.policy.configMap: ConfigMap {namespace}/{name} is not read here: write its key "
            "policy.cfg to a file, and name that in algorithmSource.policy.file.path"
        )
    try:
        return parse_document(read_source(path))
    except ConfigFileError as error:
        raise ConfigFileError(f"couldn't read policy config: {error}") from None
    except ConfigError as error:
        raise error.prefixed("invalid policy: ") from None


def _use_policy(draft: Draft, document: Document) -> None:
    """Replace the plugins of a v1alpha1 configuration by a policy."""
    for name in ("plugins", "pluginConfig"):
        if draft.fields.get(name):
            what = f"{name[0].upper()}{name[1:]}"
            raise ConfigError(
                f"couldn't create scheduler from policy: using {what} and Policy simultaneously is not supported"
            )
    header = read_header(document.value, document.text)
    if header.kind != POLICY_KIND or header.api_version not in API_VERSIONS:
        raise no_kind(header).prefixed("invalid policy: ")
    # The policy has its own weight.
    draft.fields.pop("hardPodAffinitySymmetricWeight", None)
    to_profiles(draft)
    convert_policy(draft, _policy(draft, document), draft.fields["profiles"][0])
    to_v1(draft, "v1alpha2")


def _policy(draft: Draft, document: Document) -> Json:
    """Decode a policy leniently, as older releases did."""
    for path in islice(unknown_fields(POLICY, document.value), _MAX_LOGGED):
        draft.warn("", f"{path} left out: policies have no such field")
    policy = known_fields(POLICY, document.value)
    try:
        decode_struct(POLICY, policy)
    except ConfigError as error:
        raise error.prefixed("invalid policy: ") from None
    without_nulls: Json = _plain(policy)
    return without_nulls


def log_upgrade(upgrade: Upgrade) -> None:
    """Log that a file is of an older version, and which settings are lost."""
    if upgrade.origin:
        what = f"of version {upgrade.origin}" if "/" in upgrade.origin else f"a {upgrade.origin}"
        _LOG.warning(f"The configuration is {what} and was converted to v1; stowplan config convert shows how")
    for warning in upgrade.warnings[:_MAX_LOGGED]:
        _LOG.warning(f"The configuration cannot be converted in full: {warning}")


def _check(document: Document, schema: Struct, draft: Draft) -> None:
    _, strict = decode_struct(schema, document.value)
    errors = [*document.strict_errors, *strict]
    if not errors:
        return
    if draft.origin != "v1alpha1":
        raise ConfigError(strict_error(errors), *islice(field_hints(schema, document.value), MAX_HINTS))
    # Parity: this version was decoded leniently.
    draft.warn("", f"using lenient decoding as strict decoding failed: {strict_error(errors)}")


def _plain(value: Any) -> Any:
    """Copy data without nulls, which mean unset; arguments of plugins keep theirs."""
    if isinstance(value, dict):
        return {
            key: element if key == "args" else _plain(element) for key, element in value.items() if element is not None
        }
    if isinstance(value, list):
        return [{} if element is None else _plain(element) for element in value]
    return value


def _strip_headers(draft: Draft, header: Header) -> None:
    """Remove apiVersion and kind from arguments: they are of the file's version, and v1's follow from the plugin."""
    entries: list[Json] = list(draft.fields.get("pluginConfig", ()))
    for _, profile in draft.profiles():
        entries += profile.get("pluginConfig", ())
    for entry in entries:
        args = entry.get("args")
        if isinstance(args, dict) and args.get("apiVersion", header.api_version) == header.api_version:
            # A kind of another plugin stays, so that it is rejected.
            own = {"apiVersion": header.api_version, "kind": f"{entry.get('name')}Args"}
            entry["args"] = {key: element for key, element in args.items() if own.get(key) != element}
