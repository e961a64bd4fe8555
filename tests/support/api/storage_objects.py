"""Volumes, claims and classes for the tests of the volume controllers."""

from __future__ import annotations


def storage_class(name="fast", *, provisioner="csi.example.com", mode="Immediate", default=False, **rest):
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"} if default else {}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name, "annotations": annotations},
        "provisioner": provisioner,
        "volumeBindingMode": mode,
        **rest,
    }


def volume(name="pv", size="10Gi", *, modes=("ReadWriteOnce",), class_="", labels=None, policy="Retain", **spec):
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {
            "accessModes": list(modes),
            "capacity": {"storage": size},
            "hostPath": {"path": f"/{name}"},
            "persistentVolumeReclaimPolicy": policy,
            "storageClassName": class_,
            **spec,
        },
    }


def claim(name="data", size="5Gi", *, modes=("ReadWriteOnce",), class_="", annotations=None, **spec):
    """`class_`: None for a claim without storageClassName."""
    if class_ is not None:
        spec["storageClassName"] = class_
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations or {}},
        "spec": {"accessModes": list(modes), "resources": {"requests": {"storage": size}}, **spec},
    }


def reserved_for(name, namespace="default"):
    return {"claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": name}}


def protected(manifest):
    """The manifest as the admission plugin StorageObjectInUseProtection leaves it."""
    finalizer = {"PersistentVolume": "kubernetes.io/pv-protection"}.get(
        manifest["kind"], "kubernetes.io/pvc-protection"
    )
    manifest["metadata"]["finalizers"] = [finalizer]
    return manifest
