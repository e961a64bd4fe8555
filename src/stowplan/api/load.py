"""Read objects from files like `kubectl -f`: YAML or JSON, multiple documents, Lists, and directories.

All problems of all files are collected and raised at once, one line each, with the location: `cluster.yaml: document 3:
Pod default/web-0: spec.containers[0].resources.requests[cpu]: ...`. Kinds that the scheduler does not read are skipped
with a note, so that a whole `kubectl get -o yaml` dump works.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn, cast

import msgspec
import yaml

from stowplan.api.decode import (
    DecodeError,
    UnknownKindError,
    decode_object,
    group_of,
    namespace_of,
    validation_errors,
)
from stowplan.api.yaml_text import HostileYamlError, StrictLoader, composed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from stowplan.api.meta import ApiStruct

_SUFFIXES = (".yaml", ".yml", ".json")
_STDIN = "-"
#: Input of `kubectl kustomize`, found in directories of manifests, but not a manifest.
_KUSTOMIZATION = ("kustomization.yaml", "kustomization.yml")


class LoadError(ValueError):
    """All problems of the given files; one line per problem."""

    def __init__(self, errors: Sequence[str]) -> None:
        super().__init__("\n".join(errors))
        self.errors = tuple(errors)


@dataclass(frozen=True, slots=True)
class Source:
    file: str
    #: Counted from 1, like the item of a List.
    document: int
    items: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.file}: document {self.document}" + "".join(f", item {item}" for item in self.items)


@dataclass(frozen=True, slots=True)
class Loaded:
    """The result. `objects`, `raw` and `sources` run in parallel."""

    objects: tuple[ApiStruct, ...] = ()
    raw: tuple[Mapping[str, Any], ...] = ()
    sources: tuple[Source, ...] = ()
    #: Objects of the additionally requested kinds.
    others: tuple[Mapping[str, Any], ...] = ()
    other_sources: tuple[Source, ...] = ()
    #: Skipped objects that no API server has stored, each with where it is from.
    unread: tuple[tuple[Mapping[str, Any], Source], ...] = ()
    #: Notes for the user about what was skipped.
    notes: tuple[str, ...] = ()


def load_files(
    paths: Sequence[str],
    stdin: BinaryIO | None = None,
    *,
    others: Collection[str] = frozenset(),
    recursive: bool = False,
) -> Loaded:
    """Read files, directories (not recursively, unless `recursive`) and, for `-`, `stdin`.

    `others`: kinds to return unconverted.
    """
    loader = _Loader(kept=others, recursive=recursive)
    for path in paths:
        loader.read(path, stdin)
    loader.finish()
    return Loaded(
        tuple(loader.objects),
        tuple(loader.raw),
        tuple(loader.sources),
        others=tuple(loader.others),
        other_sources=tuple(loader.other_sources),
        unread=tuple(loader.unread),
        notes=(*loader.skipped_files, *loader.notes()),
    )


def load_manifests(
    paths: Sequence[str],
    stdin: BinaryIO | None = None,
    *,
    recursive: bool = False,
    report: Callable[[str], None] = lambda note: None,
) -> list[tuple[Source, dict[str, Any]]]:
    """The unconverted objects of any kind, to be validated by an API server; `report` gets what was skipped."""
    reader = _Reader(recursive=recursive)
    for path in paths:
        reader.read(path, stdin)
    reader.finish()
    for note in reader.skipped_files:
        report(note)
    return reader.found


@dataclass(slots=True, kw_only=True)
class _Reader:
    """Reads objects with an apiVersion and a kind from paths, without further checks."""

    recursive: bool = False
    errors: list[str] = field(default_factory=list)
    #: Files of directories that are not manifests; one note each.
    skipped_files: list[str] = field(default_factory=list)
    found: list[tuple[Source, dict[str, Any]]] = field(default_factory=list)

    def read(self, path: str, stdin: BinaryIO | None) -> None:
        try:
            if path == _STDIN:
                self._read_text("stdin", stdin.read() if stdin is not None else b"")
            elif Path(path).is_dir():
                self._read_directory(Path(path))
            else:
                self._read_text(path, Path(path).read_bytes())
        except OSError as error:
            self.errors.append(f"{path}: {error.strerror or error}")

    def finish(self) -> None:
        if self.errors:
            raise LoadError(self.errors)

    def _read_directory(self, directory: Path) -> None:
        files = [path for path in self._files_in(directory) if path.suffix in _SUFFIXES and path.is_file()]
        if not files:
            hint = "" if self.recursive or not any(map(Path.is_dir, directory.iterdir())) else "; -R reads its folders"
            self.errors.append(f"{directory}: a directory without {', '.join('*' + s for s in _SUFFIXES)} files{hint}")
        said_something = []
        for path in files:
            if path.name in _KUSTOMIZATION:
                self.skipped_files.append(f"{path}: skipped, `kubectl kustomize {path.parent}` builds what it says")
            else:
                said_something.append(self._read_one_of_several(path))
        if said_something and not any(said_something):
            self.errors.append(f"{directory}: there is no object in its files")

    def _read_one_of_several(self, path: Path) -> bool:
        """Like kubectl, skip a file of a directory that only contains comments; return whether it was read."""
        try:
            found = self._read_documents(str(path), path.read_bytes())
        except OSError as error:
            self.errors.append(f"{path}: {error.strerror or error}")
            return True
        if not found:
            self.skipped_files.append(f"{path}: skipped, there is no object in it")
        return found

    def _files_in(self, directory: Path) -> list[Path]:
        if not self.recursive:
            return sorted(directory.iterdir())
        return sorted(Path(folder, name) for folder, _, names in os.walk(directory) for name in names)

    def _read_text(self, file: str, data: bytes) -> None:
        if not self._read_documents(file, data):
            self.errors.append(f"{file}: empty, there is no object in it")

    def _read_documents(self, file: str, data: bytes) -> bool:
        """Whether there were documents, valid or not."""
        found = False
        try:
            for number, document in enumerate(_documents(data), start=1):
                if document is not None:
                    found = True
                    self._add_whole(document, Source(file, number))
        except _SyntaxError as error:
            self.errors.append(f"{file}: {error}")
            return True
        return found

    def _add_whole(self, document: object, source: Source) -> None:
        try:
            self._add(document, source)
        except RecursionError:
            self.errors.append(f"{source}: {_TOO_DEEP}")

    def _add(self, document: object, source: Source) -> None:
        if not isinstance(document, dict):
            self.errors.append(f"{source}: expected an object with apiVersion and kind, got {_described(document)}")
        elif _is_list(document):
            for number, item in enumerate(document.get("items") or (), start=1):
                self._add(_with_kind(item, document), Source(source.file, source.document, (*source.items, number)))
        else:
            self._add_object(document, source)

    def _add_object(self, raw: dict[str, Any], source: Source) -> None:
        missing = [name for name in ("apiVersion", "kind") if not isinstance(raw.get(name), str)]
        if missing or not isinstance(raw.get("metadata"), dict):
            self.errors.append(f"{source}: {_name_of(raw)}{(missing or ['metadata'])[0]}: missing")
        else:
            self.found.append((source, raw))


@dataclass(slots=True, kw_only=True)
class _Loader(_Reader):
    kept: Collection[str]
    others: list[Mapping[str, Any]] = field(default_factory=list)
    other_sources: list[Source] = field(default_factory=list)
    objects: list[ApiStruct] = field(default_factory=list)
    raw: list[Mapping[str, Any]] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)
    unread: list[tuple[Mapping[str, Any], Source]] = field(default_factory=list)
    #: Number of skipped objects by (kind, apiVersion).
    skipped: Counter[tuple[str, str]] = field(default_factory=Counter)
    #: Where each (group, kind, namespace, name) first appeared.
    seen: dict[tuple[str, str, str, str], Source] = field(default_factory=dict)

    def notes(self) -> Iterator[str]:
        total = self.skipped.total()
        objects = "1 object" if total == 1 else f"{total} objects"
        if len(self.skipped) == 1:
            kind, api_version = next(iter(self.skipped))
            yield f"skipped {objects} of kind {kind} ({api_version}), which the scheduler does not read"
        elif self.skipped:
            kinds = ", ".join(f"{count} {kind}" for (kind, _), count in sorted(self.skipped.items()))
            yield f"skipped {objects} of kinds that the scheduler does not read: {kinds}"
        if any(kind == "KubeSchedulerConfiguration" for kind, _ in self.skipped):
            yield "a KubeSchedulerConfiguration is no object of a cluster: give it as the configuration, --config FILE"

    def _add_object(self, raw: dict[str, Any], source: Source) -> None:
        try:
            obj = decode_object(raw)
        except UnknownKindError as error:
            if error.kind in self.kept:
                self.others.append(raw)
                self.other_sources.append(source)
                return
            self.skipped[error.kind, error.api_version] += 1
            metadata = raw.get("metadata")
            if isinstance(metadata, dict) and not metadata.get("uid"):
                self.unread.append((raw, source))
            return
        except DecodeError as error:
            self.errors.append(f"{source}: {_name_of(raw)}{error}")
            return
        self.errors += (f"{source}: {_name_of(raw)}{error}" for error in validation_errors(obj))
        if self._is_new(raw, obj, source):
            self.objects.append(obj)
            self.raw.append(raw)
            self.sources.append(source)

    def _is_new(self, raw: Mapping[str, Any], obj: ApiStruct, source: Source) -> bool:
        name: str = cast("Any", obj).metadata.name
        if not name:
            self.errors.append(f"{source}: {raw['kind']}: metadata.name: missing")
            return False
        key = (group_of(raw["apiVersion"]), raw["kind"], namespace_of(obj), name)
        first = self.seen.setdefault(key, source)
        if first is not source:
            self.errors.append(f"{source}: {_name_of(raw)}already given in {first}")
        return first is source


def _is_list(document: Mapping[str, Any]) -> bool:
    kind = document.get("kind")
    items = document.get("items", ())
    return isinstance(kind, str) and kind.endswith("List") and (items is None or isinstance(items, list | tuple))


def _with_kind(item: object, parent: Mapping[str, Any]) -> object:
    """Add the kind to an item of a PodList, where only the List has it."""
    kind = parent["kind"].removesuffix("List")
    if not isinstance(item, dict) or not kind or "kind" in item:
        return item
    return {"apiVersion": parent.get("apiVersion"), "kind": kind, **item}


def _name_of(raw: Mapping[str, Any]) -> str:
    """`Pod default/web-0: `, as far as possible for arbitrary data."""
    kind, metadata = raw.get("kind"), raw.get("metadata")
    if not isinstance(metadata, dict) or not metadata.get("name"):
        return f"{kind}: " if kind else ""
    namespace = metadata.get("namespace") or _default_namespace(raw)
    return f"{kind} {namespace}/{metadata['name']}: " if namespace else f"{kind} {metadata['name']}: "


def _default_namespace(raw: Mapping[str, Any]) -> str:
    try:
        return namespace_of(decode_object({"apiVersion": raw.get("apiVersion"), "kind": raw.get("kind")}))
    except ValueError:
        return ""


def _described(document: object) -> str:
    return "a list" if isinstance(document, list) else f"{document!r:.60}"


class _SyntaxError(ValueError):
    """Neither YAML nor JSON; the text has the location."""


def _documents(data: bytes) -> Iterator[Any]:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _SyntaxError(f"not UTF-8 text (byte {error.start})") from None
    if text.lstrip()[:1] in ("{", "["):
        documents = _json_documents(text)
        if documents is not None:
            return iter(documents)
    return _yaml_documents(text)


#: Limit for hand-written flow YAML; larger invalid JSON is a truncated file, which would be slow to parse again.
_MAX_FLOW_YAML = 1 << 20


def _json_documents(text: str) -> list[Any] | None:
    """One or several consecutive JSON values; None if it is not JSON, such as flow YAML."""
    try:
        return [msgspec.json.decode(text)]
    except (msgspec.DecodeError, UnicodeEncodeError):
        pass
    except RecursionError:
        raise _SyntaxError(_TOO_DEEP) from None
    documents, position = [], 0
    while position < len(text):
        try:
            document, position = _JSON.raw_decode(text, position)
            # The YAML parser accepts numbers and lone surrogates that JSON cannot represent.
            msgspec.json.encode(document)
        except json.JSONDecodeError as error:
            if len(text) <= _MAX_FLOW_YAML:
                return None
            raise _SyntaxError(f"line {error.lineno}, column {error.colno}: {error.msg}") from None
        except RecursionError:
            raise _SyntaxError(_TOO_DEEP) from None
        except (ValueError, OverflowError) as error:
            raise _SyntaxError(f"unreadable JSON: {error}") from None
        documents.append(document)
        position += len(text[position:]) - len(text[position:].lstrip())
    return documents


_TOO_DEEP = "nested too deeply"


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


_JSON = json.JSONDecoder(parse_constant=_refuse_constant)


def _yaml_documents(text: str) -> Iterator[Any]:
    try:
        for loader, node in composed(text, StrictLoader):
            yield loader.value(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
        raise _SyntaxError(f"{place}{error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise _SyntaxError(str(error).replace("\n", " ")) from None
    except HostileYamlError as error:
        raise _SyntaxError(str(error)) from None
