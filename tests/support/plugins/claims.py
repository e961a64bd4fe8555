"""Claims, volumes and classes as VolumeBinding sees them."""

from support.plugins.storage import of, storage

WAITS, AT_ONCE = "WaitForFirstConsumer", "Immediate"
COMPLETED = "pv.kubernetes.io/bind-completed"
SELECTED = "volume.kubernetes.io/selected-node"
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def claim(name="c", *, class_name="s", size="1Gi", modes=("ReadWriteOnce",), volume="", annotations=None, **fields):
    """An unbound claim, or one bound to `volume`."""
    annotations = dict(annotations or {}) | ({COMPLETED: "yes"} if volume else {})
    metadata = {
        "namespace": "default",
        "uid": f"{name}-uid",
        "annotations": annotations,
        **fields.pop("metadata", {}),
    }
    spec = {"accessModes": list(modes), "storageClassName": class_name, **fields.pop("spec", {})}
    if size is not None:
        spec["resources"] = {"requests": {"storage": size}}
    if volume:
        spec["volumeName"] = volume
    return of("PersistentVolumeClaim", name, metadata=metadata, spec=spec, **fields)


def volume(name="v", *, class_name="s", size="1Gi", modes=("ReadWriteOnce",), on=None, phase="Available", **fields):
    """A free volume; `on`: label -> values of the nodes from which it can be used."""
    spec = {"accessModes": list(modes), "storageClassName": class_name, "capacity": {"storage": size}}
    if on is not None:
        expressions = [{"key": key, "operator": "In", "values": list(values)} for key, values in on.items()]
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}
    spec |= fields.pop("spec", {})
    status = {"phase": phase}
    return of("PersistentVolume", name, metadata=fields.pop("metadata", {}), spec=spec, status=status, **fields)


def held(name="c", uid=None):
    """The claimRef of a volume that is reserved for a claim."""
    reference = {"namespace": "default", "name": name}
    return {"claimRef": reference | ({"uid": f"{name}-uid"} if uid is None else {"uid": uid} if uid else {})}


def a_class(name="s", *, provisioner="p", mode=WAITS, zones=None, **fields):
    found = storage("StorageClass", name, provisioner=provisioner, **fields)
    if mode is not None:
        found["volumeBindingMode"] = mode
    if zones is not None:
        found["allowedTopologies"] = [{"matchLabelExpressions": [{"key": ZONE, "values": list(zones)}]}]
    return found


def a_driver(name="p", *, tracks=True):
    return storage("CSIDriver", name, spec={"storageCapacity": tracks})


def capacity(name, *, class_name="s", labels=None, **limits):
    """`labels`: selects the nodes that it applies to; {}: all."""
    found = storage("CSIStorageCapacity", name, metadata={"namespace": "kube-system"}, storageClassName=class_name)
    if labels is not None:
        found["nodeTopology"] = {"matchLabels": labels} if labels else {}
    return found | limits
