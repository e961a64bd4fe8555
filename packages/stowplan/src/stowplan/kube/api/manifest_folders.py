"""Which files of a directory are manifests.

Repositories mix manifests with the input of the tools that make manifests. Two of those are known here, because reading
their files as objects would be wrong rather than just fail: patches of a kustomization look like objects with most of
their fields missing, and a Helm chart has templates.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from msgspec import field

from stowplan.kube.api.yaml_text import HostileYamlError, first_value
from stowplan.kube.structs import PlainStruct

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
