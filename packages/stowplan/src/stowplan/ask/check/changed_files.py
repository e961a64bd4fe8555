"""Read the manifests of a change, each with the line on which it begins.

A repository has other files beside manifests, and a tool that is run on all that changed must not stumble over them:
what has no object with apiVersion and kind is passed over, and so are templates. A file that cannot be read as
manifests is a finding; the others are checked without it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from msgspec.structs import replace

from stowplan.ask.check.finding_records import ERROR, WARNING, FindingRecord
from stowplan.ask.loading.generated import WORKLOADS
from stowplan.ask.loading.object_files import LoadedFiles, objects_of_files
from stowplan.kube.api.file_documents import UnreadableError, documents_of, manifest_files
from stowplan.kube.api.manifest_files import LoadError, Source, load_manifests
from stowplan.kube.api.meta import ApiStruct
from stowplan.kube.api.yaml_text import HostileYamlError, StrictLoader, composed
from stowplan.kube.structs import PlainStruct

#: As problems begin that are about an object, or about a file.
_PLACE = re.compile(r"(?P<file>.+?): (?:document (?P<document>\d+)(?P<items>(?:, item \d+)*): )?")
_LINE = re.compile(r"line (\d+)")
#: As problems begin that are about a workload.
_WORKLOAD = re.compile(rf"({'|'.join(sorted(WORKLOADS))}) (\S+?)/(\S+): ")
_TEMPLATE = re.compile(rb"\{\{")


class Place(PlainStruct, frozen=True):
    file: str
    line: int


class ChangedFiles(PlainStruct, frozen=True):
    loaded: LoadedFiles
    #: Kind, namespace and name -> where it is.
    places: Mapping[tuple[str, str, str], Place]
    findings: tuple[FindingRecord, ...]
    notes: tuple[str, ...]


def read_changed(paths: Sequence[str], beside: Sequence[ApiStruct]) -> ChangedFiles:
    """`beside`: the objects of the cluster."""
    findings: list[FindingRecord] = []
    kept = []
    paths, lines = [*_files_of(paths)], _Lines()
    for path in paths:
        try:
            kept += [path] if _has_objects(Path(path).read_bytes()) else []
        except OSError as error:
            findings.append(_unreadable(f"{path}: {error.strerror or error}", paths, lines))
        except UnreadableError as error:
            findings.append(_unreadable(f"{path}: {error}", paths, lines))
    wrong = {one.file for one in findings}
    notes = [f"{path}: passed over, it has no objects" for path in paths if path not in kept and path not in wrong]
    loaded = LoadedFiles((), ())
    while kept:
        try:
            loaded = objects_of_files(kept, beside=beside)
            break
        except LoadError as error:
            refused = [_unreadable(text, kept, lines) for text in error.errors]
            findings += refused
            files = {one.file for one in refused}
            # A problem that is of no file is of all.
            kept = [path for path in kept if path not in files] if files & set(kept) else []
    for said in loaded.notes:
        placed = _finding(WARNING, "about-manifest", said, kept, lines)
        if placed.file:
            findings.append(placed)
        else:
            notes.append(said)
    return ChangedFiles(loaded, dict(_places(kept, lines)), tuple(findings), tuple(notes))


def _files_of(paths: Sequence[str]) -> Iterator[str]:
    """The files of folders instead of these; what is no folder stays."""
    for path in paths:
        if Path(path).is_dir():
            yield from map(str, manifest_files(Path(path), recursive=True).files)
        else:
            yield path


def _has_objects(data: bytes) -> bool:
    try:
        return any(_is_object(document) for document in documents_of(data))
    except UnreadableError:
        if _TEMPLATE.search(data):
            return False
        raise


def _is_object(document: Any) -> bool:
    return isinstance(document, dict) and all(isinstance(document.get(name), str) for name in ("apiVersion", "kind"))


def _unreadable(text: str, files: Sequence[str], lines: _Lines) -> FindingRecord:
    found = _finding(ERROR, "unreadable", text, files, lines)
    named = None if found.file else _WORKLOAD.match(text)
    # Problems of workloads come after all files were read.
    place = None if named is None else dict(_places(files, lines)).get((named[1], named[2], named[3]))
    return found if place is None else replace(found, file=place.file, line=place.line)


def _finding(level: str, rule: str, text: str, files: Sequence[str], lines: _Lines) -> FindingRecord:
    """At the place with which the text begins."""
    found = _PLACE.match(text)
    if found is None or found["file"] not in files:
        return FindingRecord(level=level, rule=rule, message=text)
    file, message = found["file"], text[found.end() :]
    if found["document"]:
        items = tuple(int(number) for number in re.findall(r"\d+", found["items"]))
        line = lines.of(Source(file, int(found["document"]), items))
    else:
        said = _LINE.match(message)
        line = int(said[1]) if said else 1
    return FindingRecord(level=level, rule=rule, message=message, file=file, line=line)


def _places(paths: Sequence[str], lines: _Lines) -> Iterator[tuple[tuple[str, str, str], Place]]:
    for path in paths:
        for source, raw in load_manifests([path]):
            metadata = raw["metadata"]
            key = (raw["kind"], metadata.get("namespace") or "default", metadata.get("name") or "")
            yield key, Place(path, lines.of(source))


class _Lines:
    """The lines on which the objects of files begin; each file is parsed once."""

    def __init__(self) -> None:
        self._roots: dict[str, list[yaml.Node]] = {}

    def of(self, source: Source) -> int:
        if source.file not in self._roots:
            self._roots[source.file] = _roots_of(source.file)
        roots = self._roots[source.file]
        if not 1 <= source.document <= len(roots):
            return 1
        node = roots[source.document - 1]
        for item in source.items:
            node = _item(node, item) or node
        return int(node.start_mark.line) + 1


def _roots_of(path: str) -> list[yaml.Node]:
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")
        return [node for _, node in composed(text, StrictLoader)]
    except (OSError, UnicodeDecodeError, yaml.YAMLError, HostileYamlError):
        return []


def _item(node: yaml.Node, number: int) -> yaml.Node | None:
    """Of a List, counted from 1."""
    for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
        if key.value == "items" and isinstance(value, yaml.SequenceNode) and number <= len(value.value):
            found: yaml.Node = value.value[number - 1]
            return found
    return None
