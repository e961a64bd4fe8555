"""Tools for agents: arguments and answers as data with schemas.

Whatever comes from a cluster is data. It is in answers alone, never in the description of a tool; control characters do
not reach the text; and an answer is of a size that fits into the context of a model, with what was left out said.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from stowplan.app.cli.explain.answers import LEFT_OUT
from stowplan.app.command_line.error_reporting import InputError
from stowplan.app.sources.followed_cluster import Reads
from stowplan.ask.explain.text.tables import Block, plain, printable, printable_text
from stowplan.kube.structs import PlainStruct

if TYPE_CHECKING:
    from stowplan.app.sources.cluster_source import ClusterSource

#: Installed packages add tools by this entry-point group.
ENTRY_POINT_GROUP = "stowplan.mcp_tools"
#: Characters of the text, of the JSON and of one value in it.
_MAX_TEXT, _MAX_DOCUMENT, _MAX_VALUE = 4_000, 40_000, 2_000
#: Numbers of entries that are tried, most first; a record has fewer fields than `_FIELDS`.
_ENTRIES, _FIELDS = (1_000, 500, 200, 100, 50, 20, 10, 5, 2), 50


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """The arguments of a tool; unknown ones are errors."""


class Answer(Protocol):
    def document(self) -> dict[str, Any]:
        """The JSON record, as the command's `-o json`."""

    def text(self) -> list[Block]:
        """The command's page."""


class Host(Protocol):
    """The server, for its tools."""

    #: What the server was started with.
    recording: str | None
    plugins: tuple[str, ...]
    #: A clock in seconds.
    now: Callable[[], float]

    async def about(self, reads: Reads) -> ClusterSource:
        """The cluster that questions are about; raises InputError."""


class Tool(PlainStruct, frozen=True, kw_only=True):
    name: str
    title: str
    description: str
    arguments: type[msgspec.Struct]
    #: The types of its answers.
    records: Sequence[type[msgspec.Struct]]
    call: Callable[[Host, Any], Awaitable[Answer]]

    def input_schema(self) -> dict[str, Any]:
        (schema,), parts = msgspec.json.schema_components([self.arguments], ref_template="#/$defs/{name}")
        return {**parts.pop(schema["$ref"].rpartition("/")[2]), **({"$defs": parts} if parts else {})}

    def output_schema(self) -> dict[str, Any]:
        schemas, parts = msgspec.json.schema_components(self.records, ref_template="#/$defs/{name}")
        left_out = {"type": "object", "additionalProperties": {"type": "integer"}}
        own = {"emulatedVersion": {"type": "string"}, LEFT_OUT: left_out}
        return {"type": "object", "properties": own, "anyOf": list(schemas), "$defs": parts}

    def given(self, arguments: Mapping[str, Any]) -> msgspec.Struct:
        """Raises InputError."""
        try:
            return msgspec.convert(arguments, self.arguments)
        except msgspec.ValidationError as error:
            known = ", ".join(self.arguments.__struct_encode_fields__)
            raise InputError(f"arguments of {self.name}: {error}; it takes {known}") from None


def no_extenders(field: str, config: object) -> None:
    """Raise InputError if a configuration that a question brings names addresses, which the server would call."""
    if isinstance(config, Mapping) and config.get("extenders"):
        raise InputError(f"{field}: extenders: leave them out; no addresses are called that a question names")


class Shown(PlainStruct, frozen=True):
    """An answer as it is sent: a short text, the JSON as text, and as data."""

    text: str
    document: dict[str, Any]

    @classmethod
    def of(cls, answer: Answer, notes: Sequence[str]) -> Shown:
        document = _bounded(answer.document())
        text = "".join(f"note: {note}\n" for note in map(printable_text, notes)) + _text_of(answer.text())
        left = document.get(LEFT_OUT)
        more = f"\nleft out of the JSON, for its size: {json.dumps(left)}" if left else ""
        return cls(bounded_text(text) + more, document)

    @property
    def json(self) -> str:
        """In ASCII: any other character is escaped."""
        return json.dumps(self.document, sort_keys=True, separators=(",", ":"))


def _text_of(page: list[Block]) -> str:
    return plain(printable(page))


def bounded_text(text: str) -> str:
    """What is printable of the text, up to a limit."""
    clean = "\n".join(map(printable_text, text.splitlines()))
    if len(clean) <= _MAX_TEXT:
        return clean
    kept, _, _ = clean[:_MAX_TEXT].rpartition("\n")
    kept = kept or clean[:_MAX_TEXT]
    return f"{kept}\n… {len(clean) - len(kept):,} more characters"


def _bounded(document: dict[str, Any]) -> dict[str, Any]:
    """The document, with as many entries as fit; `leftOut` counts the others, and the characters of texts, by field."""
    if _fits(document):
        return document
    found: dict[str, Any] = {}
    for entries in _ENTRIES:
        left_out = Counter(document.get(LEFT_OUT, {}))
        found = {**_cut(document, "", entries, left_out), LEFT_OUT: dict(left_out)}
        if _fits(found):
            break
    return found


def _fits(document: object) -> bool:
    return len(msgspec.json.encode(document)) <= _MAX_DOCUMENT


def _cut(value: Any, path: str, entries: int, left_out: Counter[str]) -> Any:
    if isinstance(value, str):
        left_out.update({path: len(value) - _MAX_VALUE} if len(value) > _MAX_VALUE else {})
        return value[:_MAX_VALUE]
    if isinstance(value, list):
        left_out.update({path: len(value) - entries} if len(value) > entries else {})
        return [_cut(one, path, entries, left_out) for one in value[:entries]]
    if isinstance(value, dict):
        # Its keys are fields, or names: those of a record are all kept.
        most, is_record = max(entries, _FIELDS), len(value) <= _FIELDS
        left_out.update({path: len(value) - most} if len(value) > most else {})
        return {
            key: _cut(one, f"{path}.{key}" if path and is_record else path or key, entries, left_out)
            for key, one in islice(value.items(), most)
        }
    return value
