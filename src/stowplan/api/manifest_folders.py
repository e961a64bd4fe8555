"""Which files of a directory are manifests.

Repositories mix manifests with the input of the tools that make manifests. Two of those are known here, because reading
their files as objects would be wrong rather than just fail: patches of a kustomization look like objects with most of
their fields missing, and a Helm chart has templates.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from stowplan.api.yaml_text import HostileYamlError, first_value

if TYPE_CHECKING:
    from collections.abc import Iterator

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


@dataclass(slots=True)
class ManifestFiles:
    files: list[Path] = field(default_factory=list)
    #: Notes for the user.
    skipped: list[str] = field(default_factory=list)


def manifest_files(directory: Path, *, recursive: bool) -> ManifestFiles:
    """The files to read, in order."""
    found = ManifestFiles()
    patches: set[Path] = set()
    for folder, folders, names in os.walk(directory):
        here = Path(folder)
        if _CHART in names:
            found.skipped.append(f"{here}: skipped, `helm template {here}` renders this chart")
            folders.clear()
            continue
        kustomizations = [here / name for name in _KUSTOMIZATION if name in names]
        for path in kustomizations:
            found.skipped.append(f"{path}: skipped, `kubectl kustomize {here}` builds what it says")
            patches.update(_files_besides_resources(path))
        paths = (here / name for name in names if name.endswith(SUFFIXES))
        found.files += (path for path in paths if path not in kustomizations and path.is_file())
        if not recursive:
            break
    left_out = sorted(path for path in found.files if path.resolve() in patches) if patches else []
    found.skipped += (f"{path}: skipped, a kustomization changes objects with it" for path in left_out)
    found.files = sorted(set(found.files).difference(left_out))
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
