"""Tables of volumes, claims, storage classes and CSI objects.

Upstream: pkg/printers/internalversion/printers.go.
"""

from __future__ import annotations

from collections.abc import Iterable

from stowplan.kube.api.storage import is_default_class
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.tables.cells import (
    AGE,
    NAME,
    NONE,
    UNSET,
    WIDE,
    Cell,
    Column,
    Printer,
    boolean,
    is_terminating,
    name_of,
    number,
    or_else,
    part,
    text,
)

_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"


def _access_modes(modes: Iterable[str] | None) -> str:
    given = set(modes or ())
    return ",".join(short for mode, short in _MODES.items() if mode in given)


def _phase(obj: JsonObject) -> str:
    return "Terminating" if is_terminating(obj) else part(obj, "status").get("phase") or ""


def _class_of(obj: JsonObject) -> str:
    annotated = part(obj, "metadata", "annotations").get(_BETA_CLASS)
    return or_else(part(obj, "spec").get("storageClassName") if annotated is None else annotated, "")


def _or_unset(value: str | None) -> str:
    return UNSET if value is None else value


def _persistent_volume(obj: JsonObject, _now: float) -> list[Cell]:
    spec = part(obj, "spec")
    claim = spec.get("claimRef")
    return [
        or_else(part(spec, "capacity").get("storage"), "0"),
        _access_modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy") or "",
        _phase(obj),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim is not None else "",
        _class_of(obj),
        _or_unset(spec.get("volumeAttributesClassName")),
        part(obj, "status").get("reason") or "",
        _or_unset(spec.get("volumeMode")),
    ]


def _claim(obj: JsonObject, _now: float) -> list[Cell]:
    spec, status = part(obj, "spec"), part(obj, "status")
    volume = spec.get("volumeName") or ""
    return [
        _phase(obj),
        volume,
        or_else(part(status, "capacity").get("storage"), "0") if volume else "",
        _access_modes(status.get("accessModes")) if volume else "",
        _class_of(obj),
        _or_unset(spec.get("volumeAttributesClassName")),
        _or_unset(spec.get("volumeMode")),
    ]


def _storage_class(obj: JsonObject, _now: float) -> list[Cell]:
    annotations = part(obj, "metadata", "annotations")
    return [
        f"{name_of(obj)} (default)" if is_default_class(annotations) else name_of(obj),
        obj.get("provisioner") or "",
        or_else(obj.get("reclaimPolicy"), "Delete"),
        or_else(obj.get("volumeBindingMode"), "Immediate"),
        bool(obj.get("allowVolumeExpansion")),
    ]


def _csi_node(obj: JsonObject, _now: float) -> list[Cell]:
    return [len(part(obj, "spec").get("drivers") or [])]


def _csi_driver(obj: JsonObject, _now: float) -> list[Cell]:
    spec = part(obj, "spec")
    tokens = spec.get("tokenRequests")
    return [
        spec.get("attachRequired") is not False,
        bool(spec.get("podInfoOnMount")),
        bool(spec.get("storageCapacity")),
        UNSET if tokens is None else ",".join(token.get("audience", "") for token in tokens),
        bool(spec.get("requiresRepublish")),
        ",".join(spec.get("volumeLifecycleModes") or []) or NONE,
    ]


def _volume_attachment(obj: JsonObject, _now: float) -> list[Cell]:
    spec = part(obj, "spec")
    return [
        spec.get("attacher") or "",
        part(spec, "source").get("persistentVolumeName") or "",
        spec.get("nodeName") or "",
        bool(part(obj, "status").get("attached")),
    ]


#: With a mark behind the name of a default class.
_CLASS_NAME = Column(NAME.name, NAME.type, NAME.description, NAME.format)
_ATTRIBUTES_CLASS = text("VolumeAttributesClass", "The class that sets the volume's attributes.")
_VOLUME_MODE = text("VolumeMode", "Whether it is a file system or a raw block device.", priority=WIDE)

PERSISTENT_VOLUMES = Printer(
    (
        NAME,
        text("Capacity", "How large the volume is."),
        text("Access Modes", "How the volume can be mounted."),
        text("Reclaim Policy", "What happens to the volume when its claim is deleted."),
        text("Status", "Whether the volume is bound."),
        text("Claim", "The claim it is bound to, or kept for."),
        text("StorageClass", "The volume's class."),
        _ATTRIBUTES_CLASS,
        text("Reason", "Why the volume failed."),
        AGE,
        _VOLUME_MODE,
    ),
    _persistent_volume,
)
PERSISTENT_VOLUME_CLAIMS = Printer(
    (
        NAME,
        text("Status", "Whether the claim is bound."),
        text("Volume", "The volume it is bound to."),
        text("Capacity", "How large that volume is."),
        text("Access Modes", "How that volume can be mounted."),
        text("StorageClass", "The class the claim asks for."),
        _ATTRIBUTES_CLASS,
        AGE,
        _VOLUME_MODE,
    ),
    _claim,
)
STORAGE_CLASSES = Printer(
    (
        _CLASS_NAME,
        text("Provisioner", "Who makes volumes of this class."),
        text("ReclaimPolicy", "What happens to a volume when its claim is deleted."),
        text("VolumeBindingMode", "Whether claims are bound at once or with their first pod."),
        text("AllowVolumeExpansion", "Whether claims may grow."),
        AGE,
    ),
    _storage_class,
)
CSI_NODES = Printer((NAME, number("Drivers", "How many CSI drivers the node has."), AGE), _csi_node)
CSI_DRIVERS = Printer(
    (
        NAME,
        boolean("AttachRequired", "Whether volumes must be attached before they are mounted."),
        boolean("PodInfoOnMount", "Whether the driver is told about the pod."),
        boolean("StorageCapacity", "Whether the driver publishes how much room it has."),
        text("TokenRequests", "Audiences of the tokens that the driver is given."),
        boolean("RequiresRepublish", "Whether volumes are published again and again."),
        text("Modes", "The volume life cycles that the driver knows."),
        AGE,
    ),
    _csi_driver,
)
VOLUME_ATTACHMENTS = Printer(
    (
        NAME,
        Column("Attacher", "string", "Who attaches the volume.", format="name"),
        text("PV", "The volume."),
        text("Node", "The node it belongs on."),
        boolean("Attached", "Whether it is there."),
        AGE,
    ),
    _volume_attachment,
)
