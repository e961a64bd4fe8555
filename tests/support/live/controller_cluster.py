"""A cluster for controllers: the real server under a virtual clock, and a minimal kubelet."""

from __future__ import annotations

from copy import deepcopy
from random import Random

from stowplan.kube.api.meta import timestamp
from stowplan_cluster.apiserver.api_server import ApiServer
from stowplan_cluster.apiserver.deletion import DeleteOptions
from stowplan_cluster.controllers.controller_manager import workload_controllers
from stowplan_cluster.controllers.loop import Loop

START = 1_700_000_000.0
STORAGES = {
    "Pod": "pods",
    "Node": "nodes",
    "Event": "events",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "ReplicationController": "replicationcontrollers",
    "ReplicaSet": "replicasets.apps",
    "Deployment": "deployments.apps",
    "StatefulSet": "statefulsets.apps",
    "DaemonSet": "daemonsets.apps",
    "ControllerRevision": "controllerrevisions.apps",
    "Job": "jobs.batch",
    "HorizontalPodAutoscaler": "horizontalpodautoscalers.autoscaling",
    "CronJob": "cronjobs.batch",
}


def storage_of(kind):
    """Objects may be named by kind or by storage."""
    return STORAGES.get(kind, kind)


class LiveCluster:
    """Objects are in namespace default, unless another one is named."""

    def __init__(self, controllers=workload_controllers, seed=1):
        self.now = START
        self.server = ApiServer(clock=lambda: self.now, random=Random(seed))
        self.registry = self.server.registry
        self.store = self.server.store
        self._controllers = controllers
        #: Kind -> version of the store, and the objects at that version.
        self._read = {}
        self.restart()

    def restart(self):
        """Replace the controllers, as a restart of the process does."""
        self.loop = Loop(self.registry, self._controllers(self.registry), lambda: self.now)

    # Objects

    def create(self, manifest):
        manifest = deepcopy(manifest)
        resource = self.server.catalogue.of_kind(manifest["apiVersion"], manifest["kind"])
        namespace = manifest["metadata"].get("namespace", "default") if resource.namespaced else ""
        return self.registry.create(resource, namespace, manifest).to_dict()

    def get(self, kind, name, namespace="default"):
        stored = self._find(kind, name, namespace)
        return stored.to_dict() if stored is not None else None

    def all(self, kind):
        return [stored.to_dict() for stored in self.store.list(storage_of(kind))]

    def read(self, kind):
        """As `all`, decoded once per version of the store: not to be changed."""
        version, objects = self._read.get(kind, (None, []))
        if version != self.store.version:
            objects = self.all(kind)
            self._read[kind] = self.store.version, objects
        return objects

    def pods(self, *, terminating=False):
        return [pod for pod in self.all("Pod") if terminating or "deletionTimestamp" not in pod["metadata"]]

    def change(self, kind, name, change, *, namespace="default", subresource=""):
        """Let a function change the object in place, then write it."""
        obj = self.get(kind, name, namespace)
        change(obj)
        resource = self.registry.of_storage(storage_of(kind))
        namespace = obj["metadata"].get("namespace", "")
        return self.registry.update(resource, namespace, name, obj, subresource=subresource).to_dict()

    def delete(self, kind, name, *, namespace="default", **options):
        resource = self.registry.of_storage(storage_of(kind))
        namespace = namespace if resource.namespaced else ""
        return self.registry.delete(resource, namespace, name, options=DeleteOptions(**options))

    def scale(self, kind, name, replicas):
        self.change(kind, name, lambda obj: obj["spec"].update(replicas=replicas))

    def events(self, name):
        """(type, reason, message) of the events about objects of this name."""
        return [
            (event["type"], event["reason"], event["note"])
            for event in self.all("Event")
            if event["regarding"]["name"] == name
        ]

    def _find(self, kind, name, namespace="default"):
        resource = self.registry.of_storage(storage_of(kind))
        return self.store.get(storage_of(kind), namespace if resource.namespaced else "", name)

    def add_node(self, name, *, labels=None, taints=()):
        """A node that is ready, without the taint that admission adds to new nodes."""
        metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}}
        self.create({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {}})
        self.change("Node", name, lambda node: node["spec"].update(taints=list(taints)))

    # Time

    def settle(self):
        self.loop.settle()

    def advance(self, seconds):
        """Advance the clock, running everything that becomes due."""
        end = self.now + seconds
        self.settle()
        while (due := self.loop.next_due()) is not None and due <= end:
            self.now = max(self.now, due)
            self.settle()
        self.now = end
        self.settle()

    # The kubelet

    def set_pod(self, name, *, phase="Running", ready=True, restarts=0):
        """Write a status as a kubelet would."""
        condition = {"type": "Ready", "status": "True" if ready else "False"}

        def change(pod):
            before = next((one for one in pod["status"].get("conditions") or () if one["type"] == "Ready"), None)
            same = before is not None and before["status"] == condition["status"]
            since = before["lastTransitionTime"] if same else timestamp(self.now)
            container = pod["spec"]["containers"][0]
            status = {
                "name": container["name"],
                "image": "app",
                "imageID": "",
                "ready": ready,
                "restartCount": restarts,
            }
            statuses = pod["status"].get("containerStatuses")
            running = {"running": {"startedAt": timestamp(self.now)}}
            if phase == "Running":
                earlier = statuses[0].get("state", {}) if statuses else {}
                status["state"] = earlier if "running" in earlier else running
            others = [one for one in pod["status"].get("conditions") or () if one["type"] != "Ready"]
            pod["status"] |= {
                "phase": phase,
                # Of pods that are bound at once.
                "startTime": pod["metadata"]["creationTimestamp"],
                "conditions": [*others, {**condition, "lastTransitionTime": since}],
                "containerStatuses": [status],
            }

        self.change("Pod", name, change, subresource="status")

    def bind(self, name, node):
        binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
        self.registry.bind("default", name, binding)

    def finish_deletions(self):
        """Whether there were any."""
        names = [pod["metadata"]["name"] for pod in self.all("Pod") if _is_dying(pod)]
        for name in names:
            self.delete("Pod", name, grace_period_seconds=0)
        return bool(names)

    def run_pods(self):
        """Start pending pods, each on its target node; returns whether there were any."""
        pending = [pod["metadata"]["name"] for pod in self.pods() if pod["status"]["phase"] == "Pending"]
        for name in pending:
            self.run_pod(name)
        return bool(pending)

    def run_pod(self, name):
        """Start the pod on its target node; returns whether it is still there, and pending."""
        pod = self.get("Pod", name)
        if pod is None or pod["status"]["phase"] != "Pending" or "deletionTimestamp" in pod["metadata"]:
            return False
        if not pod["spec"].get("nodeName"):
            self.bind(name, target_of(pod) or "node-1")
        self.set_pod(name)
        return True

    def live(self):
        """Run controllers and kubelet in turn until neither has anything to do."""
        for _ in range(200):
            self.settle()
            started, ended = self.run_pods(), self.finish_deletions()
            if not started and not ended:
                return
        raise AssertionError("the cluster does not settle")


def _is_dying(pod):
    return "deletionTimestamp" in pod["metadata"] and pod["metadata"].get("deletionGracePeriodSeconds") != 0


def target_of(pod):
    """The node of a DaemonSet's pod."""
    terms = (
        pod["spec"]
        .get("affinity", {})
        .get("nodeAffinity", {})
        .get("requiredDuringSchedulingIgnoredDuringExecution", {})
        .get("nodeSelectorTerms", [])
    )
    fields = [field for term in terms for field in term.get("matchFields", ())]
    return fields[0]["values"][0] if fields else ""


def template(image="app:1", labels=None, **spec):
    return {
        "metadata": {"labels": labels or {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": image}], **spec},
    }


def workload(kind, name="web", *, image="app:1", labels=None, pod_spec=None, **spec):
    """A manifest; other arguments become fields of spec."""
    labels = labels or {"app": name}
    selector = labels if kind == "ReplicationController" else {"matchLabels": labels}
    if kind != "Job":
        spec["selector"] = selector
    pod_spec = pod_spec or ({"restartPolicy": "Never"} if kind == "Job" else {})
    if kind == "StatefulSet":
        spec.setdefault("serviceName", name)
    return {
        "apiVersion": {"Job": "batch/v1", "ReplicationController": "v1"}.get(kind, "apps/v1"),
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"template": template(image, labels, **pod_spec), **spec},
    }


def set_image(image):
    def change(obj):
        obj["spec"]["template"]["spec"]["containers"][0]["image"] = image

    return change
