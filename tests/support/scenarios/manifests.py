"""Scenarios and their parts, as in their YAML."""

from __future__ import annotations

STORAGE_CLASS = """
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast}
provisioner: example.com/disks
volumeBindingMode: WaitForFirstConsumer
"""


def pod(cpu="1", **spec):
    return {"kind": "Pod", "spec": {"containers": [container(cpu)], **spec}}


def container(cpu):
    return {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}


def a_workload(kind, cpu="1", *, labels=None, **spec):
    template = {"metadata": {"labels": labels or {}}, "spec": {"containers": [container(cpu)]}}
    return {"kind": kind, "spec": {**spec, "template": template}}


def group(name="a", count=2, cpu=4, **more):
    return {"name": name, "count": count, "capacity": {"cpu": cpu, "memory": "64Gi"}, **more}


def scenario(*workloads, groups=None, **more):
    return {"cluster": {"groups": groups or [group()]}, "workloads": list(workloads), **more}


def stateful(**spec):
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "storageClassName": "fast",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    return a_workload("StatefulSet", volumeClaimTemplates=[claim], **spec)
