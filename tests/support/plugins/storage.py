"""Storage objects, device claims, and pods that use them."""

from stowplan.testing import a_pod

CLAIMING = a_pod().claims_volume("c")
EPHEMERAL = a_pod().volume("e", ephemeral={"volumeClaimTemplate": {}})
INLINE = a_pod().volume("d", awsElasticBlockStore={"volumeID": "vol-1"})
INLINE_CSI = a_pod().volume("d", csi={"driver": "secrets"})


def of(kind, name, version="v1", **fields):
    metadata = {"name": name, **fields.pop("metadata", {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}


def storage(kind, name, **fields):
    return of(kind, name, "storage.k8s.io/v1", **fields)


def csi_node(name="n", annotations=None, **limits):
    drivers = [{"name": d, "nodeID": name} | ({"allocatable": {"count": c}} if c else {}) for d, c in limits.items()]
    return storage("CSINode", name, metadata={"annotations": annotations or {}}, spec={"drivers": drivers})


def pvc(name, namespace="default", **spec):
    return of("PersistentVolumeClaim", name, metadata={"namespace": namespace}, spec=spec)


def resource_claim(name="c", status=None, **metadata):
    metadata = {"namespace": "default", "uid": f"{name}-uid", **metadata}
    return of("ResourceClaim", name, "resource.k8s.io/v1", metadata=metadata, spec={}, status=status or {})


def volume(**labels):
    return of(
        "PersistentVolume",
        "v",
        metadata={"labels": {f"topology.kubernetes.io/{k}": v for k, v in labels.items()}},
        spec={},
    )


WAITING_CLASS = storage("StorageClass", "s", provisioner="p", volumeBindingMode="WaitForFirstConsumer")
IMMEDIATE_CLASS = storage("StorageClass", "s", provisioner="p", volumeBindingMode="Immediate")
VOLUME = of("PersistentVolume", "v", spec={})
