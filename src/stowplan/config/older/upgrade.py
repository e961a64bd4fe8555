"""A document of any version to one of v1, or the same if it is v1 already.

The file is checked against the schema of its own version first, so errors name its fields as it has them.
"""

import logging
from dataclasses import dataclass, field
from typing import Any

from stowplan.config.declaration import Declarations
from stowplan.config.documents import Document
from stowplan.config.errors import ConfigError, strict_error
from stowplan.config.header import Header, read_header
from stowplan.config.older.draft import Draft
from stowplan.config.older.lenient import known_fields
from stowplan.config.older.schema import VERSIONS, configuration_schema
from stowplan.config.older.versions import to_v1
from stowplan.config.schema import CONFIGURATION_KIND, GROUP, Struct
from stowplan.config.walk import decode_struct

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Upgrade:
    document: Document
    #: What the file was before, e.g. `kubescheduler.config.k8s.io/v1beta2`; empty if nothing was to be done.
    origin: str = ""
    #: Path of a field of the result -> why it is there or what it was.
    comments: dict[str, list[str]] = field(default_factory=dict)
    #: What the result does not do although the file says it.
    warnings: tuple[str, ...] = ()


def upgrade(document: Document, plugins: Declarations) -> Upgrade:
    header = read_header(document.value, document.text)
    if header.kind != CONFIGURATION_KIND or header.group != GROUP or header.version not in VERSIONS:
        return Upgrade(document=document)
    draft = Draft(fields={}, origin=header.version, plugins=plugins)
    schema = configuration_schema(header.version)
    _check(document, schema, draft)
    draft.fields = _plain(known_fields(schema, document.value))
    _strip_headers(draft, header)
    to_v1(draft, header.version)
    converted = Document(document.text, draft.fields)
    return Upgrade(
        document=converted,
        origin=header.api_version,
        comments=draft.comments,
        warnings=tuple(draft.warnings),
    )


def tell(upgrade: Upgrade) -> None:
    """Log that a file is of an older version, and what of it is lost."""
    if upgrade.origin:
        _LOG.warning(
            "The configuration is of an older version and was converted; stowplan config convert shows to what",
            extra={"version": upgrade.origin},
        )
    for warning in upgrade.warnings:
        _LOG.warning("The configuration cannot be converted in full", extra={"field": warning})


def _check(document: Document, schema: Struct, draft: Draft) -> None:
    _, strict = decode_struct(schema, document.value)
    errors = [*document.strict_errors, *strict]
    if not errors:
        return
    if draft.origin != "v1alpha1":
        raise ConfigError(strict_error(errors))
    # Parity: this version was read leniently.
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
    """Take apiVersion and kind out of arguments: they are of the file's version, and v1's follow from the plugin."""
    entries = list(draft.fields.get("pluginConfig", ()))
    for _, profile in draft.profiles():
        entries += profile.get("pluginConfig", ())
    for entry in entries:
        args = entry.get("args")
        if isinstance(args, dict) and args.get("apiVersion", header.api_version) == header.api_version:
            entry["args"] = {key: element for key, element in args.items() if key != "apiVersion"}
