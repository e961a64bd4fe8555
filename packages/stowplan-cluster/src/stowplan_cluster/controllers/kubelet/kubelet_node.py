"""The node status and heartbeat Lease that the simulated kubelet writes.

A node created without a Ready condition becomes Ready. Its own values are kept, except for conditions that are Unknown,
which the node lifecycle controller sets when the lease expires.

Upstream: pkg/kubelet/nodestatus/setters.go, k8s.io/component-helpers/apimachinery/lease.
"""

from __future__ import annotations

from stowplan.kube.api.meta import micro_timestamp, timestamp
from stowplan.kube.kubernetes_versions import DEFAULT_VERSION, KubernetesVersion
from stowplan_cluster.apiserver.objects import JsonObject, condition_of

LEASES = "leases.coordination.k8s.io"
LEASE_NAMESPACE = "kube-node-lease"
LEASE_SECONDS = 40

_READY = ("Ready", "True", "KubeletReady", "kubelet is posting ready status")
_CONDITIONS = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    _READY,
)
_NODE_INFO = {
    "architecture": "amd64",
    "bootID": "",
    "containerRuntimeVersion": "stowplan://1",
    "kernelVersion": "0.0.0",
    "kubeProxyVersion": "",
    "machineID": "",
    "operatingSystem": "linux",
    "osImage": "Stowplan (no containers)",
    "systemUUID": "",
}


def address_of(node: JsonObject) -> str:
    """The node's InternalIP; "" if it has none."""
    addresses = (node.get("status") or {}).get("addresses") or ()
    return next((one.get("address", "") for one in addresses if one.get("type") == "InternalIP"), "")


def complete(node: JsonObject, *, address: str, now: float, kubernetes: KubernetesVersion = DEFAULT_VERSION) -> bool:
    """Add what a kubelet reports and the node lacks; return whether anything changed."""
    status = node.setdefault("status", {})
    changed = _complete_conditions(status, now=now)
    if address and not address_of(node):
        internal = {"type": "InternalIP", "address": address}
        others = status.get("addresses") or [{"type": "Hostname", "address": node["metadata"]["name"]}]
        status["addresses"] = [internal, *others]
        changed = True
    if status.get("capacity") and not status.get("allocatable"):
        status["allocatable"] = dict(status["capacity"])
        changed = True
    info = status.get("nodeInfo") or {}
    if not info.get("kubeletVersion"):
        own = {**_NODE_INFO, "kubeletVersion": f"v{kubernetes}.0"}
        status["nodeInfo"] = own | {name: value for name, value in info.items() if value}
        changed = True
    return changed


def _complete_conditions(status: JsonObject, *, now: float) -> bool:
    conditions: list[JsonObject] = status.setdefault("conditions", [])
    changed = False
    for type_, value, reason, message in _CONDITIONS:
        known = condition_of(status, type_)
        if known is not None and known.get("status") != "Unknown":
            continue
        conditions[:] = [one for one in conditions if one.get("type") != type_]
        conditions.append(
            {
                "type": type_,
                "status": value,
                "lastHeartbeatTime": timestamp(now),
                "lastTransitionTime": timestamp(now),
                "reason": reason,
                "message": message,
            }
        )
        changed = True
    return changed


def new_lease(node: JsonObject, *, now: float) -> JsonObject:
    name = node["metadata"]["name"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node["metadata"]["uid"]}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": micro_timestamp(now)},
    }
