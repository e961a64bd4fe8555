"""The documents in a file: YAML, or JSON in the forms in which kubectl prints and reads it."""

from __future__ import annotations

import codecs
import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import yaml
from msgspec import field

from stowplan.kube.api.yaml_text import HostileYamlError, StrictLoader, composed, first_value
from stowplan.kube.structs import PlainStruct

TOO_DEEP = "nested too deeply"
_END_OF_SPACE = re.compile(r"\s*")
_GZIP = b"\x1f\x8b"
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
#: Contents of files that are not manifests (Helm templates, …), and what to do about them.
_HINTS = (
    (re.compile(r"\{\{"), "it looks like a template: render it first, as `helm template` does"),
    (re.compile(r"^<<<<<<< ", re.MULTILINE), "it has conflict markers of git"),
)


class UnreadableError(ValueError):
    """Neither YAML nor JSON; the text has the location."""


def documents_of(data: bytes) -> Iterator[Any]:
    """Yield each document, None for an empty one; raises UnreadableError."""
    text = _text_of(data)
    if text.lstrip()[:1] in ("{", "["):
        documents = _json_documents(text)
        if documents is not None:
            return iter(documents)
    return _yaml_documents(text)


def _text_of(data: bytes) -> str:
    if data.startswith(_GZIP):
        raise UnreadableError("compressed: unpack it first, or pass it on: gunzip -c FILE | stowplan ... -f -")
    # PowerShell redirects into UTF-16.
    encoding, name = ("utf-16", "UTF-16") if data.startswith(_UTF_16) else ("utf-8-sig", "UTF-8")
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise UnreadableError(f"not {name} text (byte {error.start})") from None


#: Limit for hand-written flow YAML; larger invalid JSON is a truncated file, which would be slow to parse again.
_MAX_FLOW_YAML = 1 << 20


def _json_documents(text: str) -> list[Any] | None:
    """One or several consecutive JSON values; None if it is not JSON, such as flow YAML."""
    try:
        return [msgspec.json.decode(text)]
    except (msgspec.DecodeError, UnicodeEncodeError):
        pass
    except RecursionError:
        raise UnreadableError(TOO_DEEP) from None
    documents, position = [], 0
    while position < len(text):
        try:
            document, position = _JSON.raw_decode(text, position)
            # The YAML parser accepts numbers and lone surrogates that JSON cannot represent.
            msgspec.json.encode(document)
        except json.JSONDecodeError as error:
            if len(text) <= _MAX_FLOW_YAML:
                return None
            raise UnreadableError(f"line {error.lineno}, column {error.colno}: {error.msg}") from None
        except RecursionError:
            raise UnreadableError(TOO_DEEP) from None
        except (ValueError, OverflowError) as error:
            raise UnreadableError(f"unreadable JSON: {error}") from None
        documents.append(document)
        # Without copying the rest: there may be as many documents as lines.
        position = _END_OF_SPACE.match(text, position).end()  # type: ignore[union-attr]
    return documents


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
        raise UnreadableError(f"{place}{error.problem or error.context}{_hint(text)}") from None
    except yaml.reader.ReaderError as error:
        character = chr(error.character) if isinstance(error.character, int) else error.character
        line = text[: text.find(character) + 1].count("\n") + 1
        raise UnreadableError(f"line {line}: character {character!r} is not allowed") from None
    except yaml.YAMLError as error:
        raise UnreadableError(str(error).replace("\n", " ")) from None
    except HostileYamlError as error:
        raise UnreadableError(str(error)) from None


def _hint(text: str) -> str:
    return next((f"; {hint}" for pattern, hint in _HINTS if pattern.search(text)), "")


# Which files of a directory are manifests.
#
# Repositories mix manifests with the input of the tools that make manifests. Two of those are known here, because
# reading their files as objects would be wrong rather than just fail: patches of a kustomization look like objects
# with most of their fields missing, and a Helm chart has templates.

SUFFIXES = (".yaml", ".yml", ".json")
_CHART = "Chart.yaml"
_KUSTOMIZATION = ("kustomization.yaml", "kustomization.yml", "Kustomization")
#: Fields of a kustomization with files that are not objects: texts, or maps with a `path`.
_NOT_RESOURCES = (
    "configurations",
    "patches",
    "patchesJson6902",
    "patchesStrategicMerge",
    "replacements",
)


#: Maximum number of places that a note names.
_NAMED = 3


class ManifestFiles(PlainStruct):
    files: list[Path] = field(default_factory=list)
    charts: list[Path] = field(default_factory=list)
    kustomizations: list[Path] = field(default_factory=list)
    patches: list[Path] = field(default_factory=list)

    def skipped(self) -> list[str]:
        """Notes for the user."""
        notes = []
        if self.kustomizations:
            what = "kustomizations, `kubectl kustomize DIRECTORY` builds what one says"
            notes.append(f"skipped {what}: {first_of(self.kustomizations)}")
        if self.patches:
            notes.append(f"skipped what kustomizations change objects with: {first_of(self.patches)}")
        if self.charts:
            notes.append(f"skipped Helm charts, `helm template DIRECTORY` renders one: {first_of(self.charts)}")
        return notes


def first_of(places: Sequence[object]) -> str:
    """The first ones, and the number of the others."""
    names, left = [str(place) for place in places], len(places) - _NAMED
    return ", ".join(names) if left <= 1 else f"{', '.join(names[:_NAMED])} and {left:,} more"


def manifest_files(directory: Path, *, recursive: bool) -> ManifestFiles:
    """The files to read, in order."""
    found = ManifestFiles()
    patches: set[Path] = set()
    for folder, folders, names in os.walk(directory):
        here = Path(folder)
        folders.sort()
        if _CHART in names:
            found.charts.append(here)
            folders.clear()
            continue
        kustomizations = [here / name for name in _KUSTOMIZATION if name in names]
        found.kustomizations += kustomizations
        patches.update(*map(_files_besides_resources, kustomizations))
        paths = (here / name for name in names if name.endswith(SUFFIXES))
        found.files += (path for path in paths if path not in kustomizations and path.is_file())
        if not recursive:
            break
    found.patches = sorted(path for path in found.files if path.resolve() in patches) if patches else []
    found.files = sorted(set(found.files).difference(found.patches))
    return found


def _files_besides_resources(kustomization: Path) -> Iterator[Path]:
    for entry in _entries(kustomization):
        name = entry.get("path") if isinstance(entry, dict) else entry
        # A patch may also be given as text.
        if isinstance(name, str) and name.endswith(SUFFIXES) and "\n" not in name:
            yield (kustomization.parent / name).resolve()


def _entries(kustomization: Path) -> Iterator[Any]:
    try:
        content = first_value(kustomization.read_text())
    except (OSError, ValueError, yaml.YAMLError, HostileYamlError):
        # It is not read for its own sake.
        return
    for name in _NOT_RESOURCES if isinstance(content, dict) else ():
        entries = content.get(name)
        if isinstance(entries, list):
            yield from entries
