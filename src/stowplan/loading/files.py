"""Load a cluster's objects from files as an API server would store them.

Defaults are applied, manifests written by hand are validated, workloads get the pods that they ask for, and
pods and nodes the claims and slices that are made for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stowplan.api.load import load_files
from stowplan.api.types import Node, PriorityClass
from stowplan.loading.admission import admit
from stowplan.loading.manifest_checks import checked
from stowplan.loading.unmade_claims import with_ephemeral_claims
from stowplan.loading.unmade_devices import TEMPLATE, with_devices
from stowplan.loading.unmade_pods import WORKLOADS, unmade

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import BinaryIO

    from stowplan.api.meta import ApiStruct


@dataclass(frozen=True)
class Filed:
    """What was read."""

    objects: Sequence[ApiStruct]
    #: What was skipped or made up, for the user to know.
    notes: tuple[str, ...]
    #: Workloads whose pods are among the objects because of their templates: kind, namespace, name.
    workloads: tuple[tuple[str, str, str], ...] = ()


def objects_of_files(
    paths: Sequence[str],
    stdin: BinaryIO | None = None,
    *,
    recursive: bool = False,
    beside: Sequence[ApiStruct] = (),
) -> Filed:
    """From files, directories and, for `-`, `stdin`; raise LoadError.

    `beside`: objects that are there already; DaemonSets have pods on their nodes, and pods priorities by their classes.
    """
    loaded = load_files(paths, stdin, others=WORKLOADS | {TEMPLATE}, recursive=recursive)
    manifests = (*loaded.raw, *loaded.others)
    checks = checked(list(zip(manifests, (*loaded.sources, *loaded.other_sources), strict=True)))
    made = unmade(manifests, loaded.objects, [obj for obj in (*beside, *loaded.objects) if isinstance(obj, Node)])
    objects, device_notes = with_devices(manifests, (*loaded.objects, *made.objects))
    objects, claim_notes = with_ephemeral_claims(objects)
    classes = [obj for obj in beside if isinstance(obj, PriorityClass)]
    admitted = admit((*classes, *objects))
    notes = (*loaded.notes, *checks, *made.notes, *device_notes, *claim_notes, *admitted.notes)
    return Filed(admitted.objects[len(classes) :], notes, made.workloads)
