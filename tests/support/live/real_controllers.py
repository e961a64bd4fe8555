"""Records what kube-controller-manager makes of the scripts, from a folder with etcd, kube-apiserver and itself.

KUBEBUILDER_ASSETS=FOLDER PYTHONPATH=tests python -m support.live.real_controllers [SCRIPT ...]
"""

import json
import sys
import tempfile
import time
from contextlib import contextmanager
from copy import deepcopy
from http import HTTPStatus
from pathlib import Path
from urllib.error import HTTPError

from support.live.controller_cluster import STORAGES, LiveCluster
from support.live.controller_scripts import SCRIPTS, SEEN, moments
from support.paths import ROOT
from support.processes.api_client import Client
from support.processes.servers import assets, real_server, running

RECORDED = ROOT / "packages/stowplan-cluster/tests/unit/controllers/workloads/recorded_scripts.json"
CONTROLLERS = ("deployment", "replicaset", "statefulset", "daemonset", "job")
#: Nothing may change for so long before the controllers count as settled.
QUIET_SECONDS = 1.5


class RealCluster(LiveCluster):
    """A LiveCluster whose objects are in one namespace of a real API server."""

    def __init__(self, client, namespace):
        self._client, self._namespace, self.now = client, namespace, time.time()
        client("/api/v1/namespaces", {"metadata": {"name": namespace}})

    def _path(self, kind, name="", *rest):
        plural, _, group = STORAGES[kind].partition(".")
        start = f"/apis/{group}/v1" if group else "/api/v1"
        inside = "" if kind == "Node" else f"/namespaces/{self._namespace}"
        return "/".join([f"{start}{inside}/{plural}", *filter(None, (name, *rest))])

    def create(self, manifest):
        manifest = deepcopy(manifest)
        manifest["metadata"].pop("namespace", None)
        return self._client(self._path(manifest["kind"]), manifest)

    def add_node(self, name, *, labels=None, taints=()):
        metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}}
        self._client(self._path("Node"), {"metadata": metadata, "spec": {"taints": list(taints)}})

    def get(self, kind, name, namespace=""):
        return next((obj for obj in self.all(kind) if obj["metadata"]["name"] == name), None)

    def all(self, kind):
        return self._client(self._path(kind))["items"]

    def change(self, kind, name, change, *, namespace="", subresource=""):
        while True:
            obj = self.get(kind, name)
            change(obj)
            try:
                return self._client(self._path(kind, name, subresource), obj, method="PUT")
            except HTTPError as error:
                # A controller wrote it in the meantime.
                if error.code != HTTPStatus.CONFLICT:
                    raise

    def delete(self, kind, name, *, namespace="", **options):
        grace = options.get("grace_period_seconds")
        return self._client(
            self._path(kind, name), None if grace is None else {"gracePeriodSeconds": grace}, method="DELETE"
        )

    def bind(self, name, node):
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"name": node}}
        self._client(self._path("Pod", name, "binding"), binding)

    def settle(self):
        before, since = None, time.monotonic()
        while time.monotonic() < since + QUIET_SECONDS:
            versions = [obj["metadata"]["resourceVersion"] for kind in (*SEEN, "Event") for obj in self.all(kind)]
            if versions != before:
                before, since = versions, time.monotonic()
            time.sleep(0.2)
        self.now = time.time()

    def advance(self, seconds):
        time.sleep(seconds)
        self.settle()

    def clear(self):
        """What would disturb other namespaces."""
        for kind in ("DaemonSet", "Node"):
            for obj in self.all(kind):
                self.delete(kind, obj["metadata"]["name"])


@contextmanager
def control_plane(folder, binaries):
    flags = "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition"
    with real_server(folder, binaries, flags) as server:
        command = [
            binaries / "kube-controller-manager",
            f"--kubeconfig={server.kubeconfig}",
            "--leader-elect=false",
            "--secure-port=0",
            f"--controllers={','.join(f'{name}-controller' for name in CONTROLLERS)}",
        ]
        with running(command, folder / "kube-controller-manager.log"):
            yield Client(server.kubeconfig)


def main():
    chosen = sys.argv[1:] or list(SCRIPTS)
    recorded = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    with tempfile.TemporaryDirectory() as folder, control_plane(Path(folder), assets()) as client:
        for number, name in enumerate(chosen):
            cluster = RealCluster(client, f"script-{number}")
            recorded[name] = moments(SCRIPTS[name], cluster)
            cluster.clear()
            ordered = {script: recorded[script] for script in SCRIPTS if script in recorded}
            RECORDED.write_text(json.dumps(ordered, indent=1) + "\n")
            print(name, flush=True)


if __name__ == "__main__":
    main()
