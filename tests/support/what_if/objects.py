"""Small nodes and pods with the fields that what-if looks at: zones, owners, nodes of pods."""

from stowplan.testing import a_node, a_pod

ZONE = "topology.kubernetes.io/zone"


def node(name, cpu="4", zone="", pods="10", **spec):
    made = a_node(name).obj()
    made["metadata"]["labels"] = {"kubernetes.io/hostname": name} | ({ZONE: zone} if zone else {})
    made["status"]["allocatable"] = {"cpu": cpu, "memory": "8Gi", "pods": pods}
    made["spec"] = made.get("spec", {}) | spec
    return made


def pod(name="web", cpu="1", **spec):
    made = a_pod(name).requests(cpu=cpu).obj()
    made["metadata"]["labels"] = {"app": name.partition("-")[0]}
    made["spec"] |= spec
    return made


def owned(made, kind="ReplicaSet", name="web-abc"):
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": f"uid of {name}", "controller": True}
    made["metadata"]["ownerReferences"] = [owner]
    return made


def budget(name="web", allowed=None, **spec):
    made = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": name}}, **spec},
    }
    if allowed is not None:
        made["status"] = {"disruptionsAllowed": allowed, "observedGeneration": 1}
    return made
