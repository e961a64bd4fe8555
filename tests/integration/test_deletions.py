"""What watchers see when a pod is deleted: the same from every API server, and from the store of simulated time.

A deletion is two changes, also without grace: the pod is marked with a grace period of 0, and then removed.
"""

import json
import urllib.request

import pytest

from stowplan.drivers.virtual_time.object_store import ObjectStore
from stowplan.kube.api.decode import convert
from stowplan.kube.api.types import Pod
from stowplan.scheduler.framework.requests import Create, Delete, Patch
from support.http.raw_sockets import Target
from support.processes.api_client import Client

NOW = 1_800_000_000.0
LEAVES, GONE = ("MODIFIED", 0), ("DELETED", 0)
IN_30_SECONDS = ("MODIFIED", 30)


def delete(grace=None):
    return ("DELETE", grace)


FREE = ("", {"metadata": {"finalizers": None}})
FINISH = ("status", {"status": {"phase": "Succeeded"}})


def a_pod(*, node="", finalizers=()):
    spec = {"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": 30}
    if node:
        spec["nodeName"] = node
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "finalizers": list(finalizers)}, "spec": spec}


WAITS, RUNS = a_pod(), a_pod(node="n")
WAITS_KEPT, RUNS_KEPT = (a_pod(node=node, finalizers=("example.com/kept",)) for node in ("", "n"))

#: A pod, the requests, and the expected events: type and grace period.
CASES = {
    "waits": (WAITS, [delete()], [LEAVES, GONE]),
    "waits, with grace": (WAITS, [delete(5)], [LEAVES, GONE]),
    "waits, without grace": (WAITS, [delete(0)], [LEAVES, GONE]),
    "runs": (RUNS, [delete(), delete(), delete(0)], [IN_30_SECONDS, LEAVES, GONE]),
    "runs, without grace": (RUNS, [delete(0)], [LEAVES, GONE]),
    "runs, with less grace": (RUNS, [delete(), delete(5), delete(9)], [IN_30_SECONDS, ("MODIFIED", 5)]),
    "has finished": (RUNS, [FINISH, delete()], [("MODIFIED", None), LEAVES, GONE]),
    "finishes": (RUNS, [delete(), FINISH, delete()], [IN_30_SECONDS, IN_30_SECONDS]),
    "waits with finalizer": (WAITS_KEPT, [delete(), delete(0), FREE], [LEAVES, GONE]),
    "runs with finalizer": (RUNS_KEPT, [delete(), delete(0), FREE], [IN_30_SECONDS, LEAVES, GONE]),
    "runs until later": (RUNS_KEPT, [delete(), FREE], [IN_30_SECONDS, IN_30_SECONDS]),
}
cases = pytest.mark.parametrize(("pod", "steps", "told"), CASES.values(), ids=CASES)


@cases
def test_an_api_server(api_server, namespace, pod, steps, told):
    target, client = Target(api_server), Client(api_server.kubeconfig)
    path = f"/api/v1/namespaces/{namespace}/pods"
    version = client(path, pod)["metadata"]["resourceVersion"]
    for what, body in steps:
        if what == "DELETE":
            options = json.dumps({} if body is None else {"gracePeriodSeconds": body}).encode()
            assert target.ask("DELETE", f"{path}/x", options)[0] == 200
        else:
            media = {"Content_Type": "application/merge-patch+json"}
            assert target.ask("PATCH", f"{path}/x/{what}".rstrip("/"), json.dumps(body).encode(), **media)[0] == 200
    # A watch from a version sends the events since then at once.
    url = f"{client.url}{path}?watch=1&timeoutSeconds=1&resourceVersion={version}"
    with urllib.request.urlopen(urllib.request.Request(url, headers=client.headers), context=client.tls) as lines:
        events = [json.loads(line) for line in lines]
    seen = [(one["type"], one["object"]["metadata"].get("deletionGracePeriodSeconds")) for one in events]
    assert seen == told


@cases
def test_simulated_time(pod, steps, told):
    store = ObjectStore()
    store.write(Create(obj=convert(pod, Pod)), NOW)
    changes = []
    for what, body in steps:
        if what == "DELETE":
            there = store.get(Pod, "default", "x")
            grace = 30 if body is None and not there.metadata.deletion_timestamp else body
            changes += store.delete(Delete(kind=Pod, namespace="default", name="x"), NOW, grace)
        else:
            where = {"namespace": "default", "name": "x", "subresource": what}
            changes += store.write(Patch(kind=Pod, **where, body=body, type_="merge"), NOW)
    seen = [
        ("DELETED" if change.new is None else "MODIFIED", (change.new or change.old).metadata)
        for change in changes
        if change.new is not change.old
    ]
    assert [(kind, metadata.deletion_grace_period_seconds) for kind, metadata in seen] == told
