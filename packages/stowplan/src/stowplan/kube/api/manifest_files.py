"""Read objects from files like `kubectl -f`: YAML or JSON, multiple documents, Lists, and directories.

All problems of all files are collected and raised at once, one line each, with the location: `cluster.yaml: document 3:
Pod default/web-0: spec.containers[0].resources.requests[cpu]: ...`. Kinds that the scheduler does not read are skipped
with a note, so that a whole `kubectl get -o yaml` dump works.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

from msgspec import field

from stowplan.kube.api.decode import (
    DecodeError,
    UnknownKindError,
    decode_object,
    group_of,
    namespace_of,
    validation_errors,
)
from stowplan.kube.api.file_documents import SUFFIXES, TOO_DEEP, UnreadableError, documents_of, first_of, manifest_files
from stowplan.kube.api.meta import ApiStruct
from stowplan.kube.api.yaml_text import QUOTE_BOOLEANS
from stowplan.kube.structs import PlainStruct

_STDIN = "-"
_URLS = ("http://", "https://")
_DEFAULT_NAMESPACE = "default"
#: The field of a List of a whole cluster that has its version of Kubernetes; `kubectl` ignores it.
VERSION_FIELD = "kubernetesVersion"


class LoadError(ValueError):
    """All problems of the given files; one line per problem."""

    def __init__(self, errors: Sequence[str]) -> None:
        super().__init__("\n".join(errors))
        self.errors = tuple(errors)


class Source(PlainStruct, frozen=True):
    file: str
    #: Counted from 1, like the item of a List.
    document: int
    items: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.file}: document {self.document}" + "".join(f", item {item}" for item in self.items)


class Loaded(PlainStruct, frozen=True):
    """The result. `objects`, `raw` and `sources` run in parallel."""

    objects: tuple[ApiStruct, ...] = ()
    raw: tuple[Mapping[str, Any], ...] = ()
    sources: tuple[Source, ...] = ()
    #: Objects of the additionally requested kinds.
    others: tuple[Mapping[str, Any], ...] = ()
    other_sources: tuple[Source, ...] = ()
    #: Skipped objects, such as custom resources.
    skipped: tuple[Mapping[str, Any], ...] = ()
    #: Those of them that no API server has stored, each with where it is from.
    unread: tuple[tuple[Mapping[str, Any], Source], ...] = ()
    #: Notes for the user about what was skipped.
    notes: tuple[str, ...] = ()
    #: Of Kubernetes, as the first List that tells it has it.
    version: str = ""

    def manifests(self) -> list[tuple[Mapping[str, Any], Source]]:
        """All that are read, each with where it is from."""
        return list(zip((*self.raw, *self.others), (*self.sources, *self.other_sources), strict=True))


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
    reader = _Reader(recursive=recursive)
    for path in paths:
        reader.read(path, stdin)
    loader = _Loader(kept=others)
    for source, raw in reader.found.values():
        loader.add(raw, source)
    _raise([*reader.errors, *loader.errors])
    return Loaded(
        tuple(loader.objects),
        tuple(loader.raw),
        tuple(loader.sources),
        others=tuple(loader.others),
        other_sources=tuple(loader.other_sources),
        skipped=tuple(loader.skipped),
        unread=tuple(loader.unread),
        notes=(*reader.notes(), *loader.notes()),
        version=reader.version,
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
    found = list(reader.found.values())
    without = [f"{at}: {_name_of(raw)}metadata: missing" for at, raw in found if not _has_metadata(raw)]
    _raise([*reader.errors, *without])
    for note in reader.notes():
        report(note)
    return found


def _raise(errors: Sequence[str]) -> None:
    if errors:
        raise LoadError(errors)


def skipped_notes(skipped: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What is told of objects that nobody reads."""
    kinds = Counter((str(raw["kind"]), str(raw["apiVersion"])) for raw in skipped)
    objects = "1 object" if len(skipped) == 1 else f"{len(skipped)} objects"
    if len(kinds) == 1:
        [(kind, api_version)] = kinds
        yield f"skipped {objects} of kind {kind} ({api_version}), which the scheduler does not read"
    elif kinds:
        listed = ", ".join(f"{count} {kind}" for (kind, _), count in sorted(kinds.items()))
        yield f"skipped {objects} of kinds that the scheduler does not read: {listed}"


class _Reader(PlainStruct, kw_only=True):
    """Reads objects with an apiVersion and a kind from paths, without further checks.

    Of objects with the same name the last one counts, as if `kubectl apply` had applied them in this order.
    """

    recursive: bool = False
    errors: list[str] = field(default_factory=list)
    #: Objects by their keys.
    found: dict[object, tuple[Source, dict[str, Any]]] = field(default_factory=dict)
    #: Parts of directories that are not manifests; one note each.
    skipped: list[str] = field(default_factory=list)
    #: Documents of directories that are not objects, such as the values of a chart.
    not_objects: list[Source] = field(default_factory=list)
    #: `Pod default/web-0 (a.yaml: document 1, b.yaml: document 1)` for objects with different contents.
    replaced: list[str] = field(default_factory=list)
    in_directory: bool = False
    #: Number of objects, including replaced ones.
    seen: int = 0
    version: str = ""

    def read(self, path: str, stdin: BinaryIO | None) -> None:
        try:
            if path == _STDIN:
                self._read_text("stdin", stdin.read() if stdin is not None else b"")
            elif path.startswith(_URLS):
                self.errors.append(f"{path}: URLs are not read; pass it on: curl -fsSL {path} | stowplan ... -f -")
            elif Path(path).is_dir():
                self._read_directory(Path(path))
            else:
                self._read_text(path, Path(path).read_bytes())
        except OSError as error:
            self.errors.append(f"{path}: {error.strerror or error}")

    def notes(self) -> Iterator[str]:
        yield from self.skipped
        if self.not_objects:
            yield f"skipped what has neither apiVersion nor kind: {first_of(self.not_objects)}"
        if self.replaced:
            yield f"given more than once, the last one is used, as with kubectl apply: {first_of(self.replaced)}"

    def _read_directory(self, directory: Path) -> None:
        folder = manifest_files(directory, recursive=self.recursive)
        if not folder.files:
            hint = "" if self.recursive or not any(map(Path.is_dir, directory.iterdir())) else "; -R reads its folders"
            nothing = f"{directory}: a directory without {', '.join('*' + s for s in SUFFIXES)} files{hint}"
            self.errors += [f"{directory}: {note}" for note in folder.skipped()] or [nothing]
            return
        self.skipped += folder.skipped()
        before = self.seen, len(self.errors)
        self.in_directory = True
        for path in folder.files:
            self._read_one_of_several(path)
        self.in_directory = False
        if before == (self.seen, len(self.errors)):
            self.errors.append(f"{directory}: there is no object in its files")

    def _read_one_of_several(self, path: Path) -> None:
        """Like kubectl, skip a file of a directory that only contains comments."""
        try:
            if not self._read_documents(str(path), path.read_bytes()):
                self.skipped.append(f"{path}: skipped, there is no object in it")
        except OSError as error:
            self.errors.append(f"{path}: {error.strerror or error}")

    def _read_text(self, file: str, data: bytes) -> None:
        if not self._read_documents(file, data):
            self.errors.append(f"{file}: empty, there is no object in it")

    def _read_documents(self, file: str, data: bytes) -> bool:
        """Whether there were documents, valid or not."""
        found = False
        try:
            for number, document in enumerate(documents_of(data), start=1):
                if document is not None:
                    found = True
                    self._add_whole(document, Source(file, number))
        except UnreadableError as error:
            self.errors.append(f"{file}: {error}")
            return True
        return found

    def _add_whole(self, document: object, source: Source) -> None:
        try:
            self._add(document, source)
        except RecursionError:
            self.errors.append(f"{source}: {TOO_DEEP}")

    def _add(self, document: object, source: Source) -> None:
        if self.in_directory and _is_no_object(document):
            self.not_objects.append(source)
        elif not isinstance(document, dict):
            self.errors.append(f"{source}: expected an object with apiVersion and kind, got {_described(document)}")
        elif _is_list(document):
            if isinstance(version := document.get(VERSION_FIELD), str):
                self.version = self.version or version
            for number, item in enumerate(document.get("items") or (), start=1):
                self._add(_with_kind(item, document), Source(source.file, source.document, (*source.items, number)))
        else:
            self._add_object(document, source)

    def _add_object(self, raw: dict[str, Any], source: Source) -> None:
        missing = [name for name in ("apiVersion", "kind") if not isinstance(raw.get(name), str)]
        if missing:
            self.errors.append(f"{source}: {_name_of(raw)}{missing[0]}: missing")
            return
        self.seen += 1
        key = _key_of(raw, source)
        if key in self.found:
            first, before = self.found[key]
            if raw != before:
                self.replaced.append(f"{_name_of(raw).removesuffix(': ')} ({first}, {source})")
        self.found[key] = (source, raw)


class _Loader(PlainStruct, kw_only=True):
    """Converts the objects that were read."""

    kept: Collection[str]
    errors: list[str] = field(default_factory=list)
    others: list[Mapping[str, Any]] = field(default_factory=list)
    other_sources: list[Source] = field(default_factory=list)
    objects: list[ApiStruct] = field(default_factory=list)
    raw: list[Mapping[str, Any]] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)
    unread: list[tuple[Mapping[str, Any], Source]] = field(default_factory=list)
    skipped: list[Mapping[str, Any]] = field(default_factory=list)
    #: Number of objects by generateName, and the names that were made of it.
    prefixes: Counter[str] = field(default_factory=Counter)
    named: list[str] = field(default_factory=list)

    def notes(self) -> Iterator[str]:
        yield from skipped_notes(self.skipped)
        if any(raw["kind"] == "KubeSchedulerConfiguration" for raw in self.skipped):
            yield "a KubeSchedulerConfiguration is no object of a cluster: give it as the configuration, --config FILE"
        if self.named:
            yield f"made names from generateName, as kubectl create does: {first_of(self.named)}"

    def add(self, raw: Mapping[str, Any], source: Source) -> None:
        try:
            named = self._named(raw)
            if self._add(named, source) and named is not raw:
                self.named.append(named["metadata"]["name"])
        except RecursionError:
            self.errors.append(f"{source}: {TOO_DEEP}")

    def _add(self, raw: Mapping[str, Any], source: Source) -> bool:
        """Whether somebody reads it."""
        try:
            obj = decode_object(raw)
        except UnknownKindError as error:
            if error.kind in self.kept:
                self.others.append(raw)
                self.other_sources.append(source)
                return True
            self.skipped.append(raw)
            if _has_metadata(raw) and not raw["metadata"].get("uid"):
                self.unread.append((raw, source))
            return False
        except DecodeError as error:
            self.errors.append(f"{source}: {_name_of(raw)}{error}{_quoting(error)}")
            return False
        self.errors += (f"{source}: {_name_of(raw)}{error}" for error in validation_errors(obj))
        if not cast("Any", obj).metadata.name:
            self.errors.append(f"{source}: {raw['kind']}: metadata.name: missing")
            return False
        self.objects.append(obj)
        self.raw.append(raw)
        self.sources.append(source)
        return True

    def _named(self, raw: Mapping[str, Any]) -> Mapping[str, Any]:
        """The object with a name if it only has a generateName."""
        metadata = raw.get("metadata")
        prefix = metadata.get("generateName") if isinstance(metadata, dict) and not metadata.get("name") else None
        if not isinstance(prefix, str) or not prefix:
            return raw
        self.prefixes[prefix] += 1
        return {**raw, "metadata": {**raw["metadata"], "name": f"{prefix}{self.prefixes[prefix]}"}}


def _quoting(error: DecodeError) -> str:
    """What to do about a text that YAML reads as something else."""
    is_boolean = error.message == "expected a string, got true or false"
    return f"; {QUOTE_BOOLEANS}" if is_boolean else ""


def _has_metadata(raw: Mapping[str, Any]) -> bool:
    return isinstance(raw.get("metadata"), dict)


def _key_of(raw: Mapping[str, Any], source: Source) -> object:
    """What identifies an object in a cluster; the source of one without a name."""
    metadata = raw.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not name:
        return source
    namespace = raw["metadata"].get("namespace") or _DEFAULT_NAMESPACE
    return json.dumps([group_of(raw["apiVersion"]), raw["kind"], namespace, name])


def _is_no_object(document: object) -> bool:
    """Whether it cannot be meant as an object: a list of patches, or values of a chart."""
    if isinstance(document, dict):
        return "apiVersion" not in document and "kind" not in document
    return isinstance(document, list)


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
