"""An embedded API server for tests, with a stopped clock and deterministic generated names."""

from copy import deepcopy
from random import Random

from stowplan.kube.timing.times import START
from stowplan_cluster.apiserver.api_server import ApiServer


class StillClock:
    def __init__(self, now=START):
        self.now = now

    def __call__(self):
        return self.now

    def advance(self, seconds):
        self.now += seconds


class Api:
    """The registry; resources are named as in kubectl."""

    def __init__(self, clock=None, **options):
        self.clock = StillClock() if clock is None else clock
        self.server = ApiServer(clock=self.clock, random=Random(7), **options)
        self.registry = self.server.registry
        self.store = self.server.store

    def resource(self, name):
        """`pods`, `deployments.apps`."""
        found = self.server.catalogue.of_storage(name)
        assert found is not None, name
        return found

    def create(self, name, obj, **options):
        resource = self.resource(name)
        obj = deepcopy({"apiVersion": resource.api_version, "kind": resource.kind, **obj})
        namespace = obj["metadata"].get("namespace", "default") if resource.namespaced else ""
        return self.registry.create(resource, namespace, obj, **options)

    def get(self, name, namespace, key):
        return self.registry.get(self.resource(name), namespace, key).to_dict()

    def update(self, name, obj, **options):
        obj = deepcopy(obj)
        metadata = obj["metadata"]
        resource = self.resource(name)
        return self.registry.update(resource, metadata.get("namespace", ""), metadata["name"], obj, **options)

    def patch(self, name, namespace, key, patch, **options):
        return self.registry.patch(self.resource(name), namespace, key, patch, **{"kind": "merge", **options})[0]

    def delete(self, name, namespace, key, **options):
        return self.registry.delete(self.resource(name), namespace, key, **options)

    def names(self, name, namespace=""):
        return [one.name for one in self.store.list(name, namespace)]


def pod(name="p", namespace="default", *, labels=None, **spec):
    metadata = {"name": name, "namespace": namespace}
    if labels:
        metadata["labels"] = labels
    return {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


def binding(name="p", node="n1", **metadata):
    return {"metadata": {"name": name, **metadata}, "target": {"kind": "Node", "name": node}}
