"""API servers with the custom resources of scheduler-plugins, and kube-scheduler and the controller on them.

There is no kubelet: tests write the statuses of pods, and remove those that were evicted.
"""

import json
import sys
import threading
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import yaml

from support.api import manifests
from support.paths import ROOT
from support.processes.api_client import Client
from support.processes.scheduler_process import kube_scheduler
from support.processes.servers import SERVER_KINDS, assets, embedded_server, free_port, real_server, running, until

DEFINITIONS = sorted((ROOT / "deploy" / "manifests" / "scheduler-plugins" / "crds").glob("*.yaml"))
CUSTOM = "/apis/scheduling.x-k8s.io/v1alpha1"
CONTROLLER = [sys.executable, "-m", "stowplan_scheduler_plugins.controller"]
LABEL = "scheduling.x-k8s.io/pod-group"


@pytest.fixture(scope="session", params=SERVER_KINDS)
def plugins_server(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(f"plugins-{request.param}")
    started = (
        embedded_server(folder, "--controllers=") if request.param == "embedded" else real_server(folder, assets())
    )
    with started as server:
        client = Client(server.kubeconfig)
        for file in DEFINITIONS:
            definition = yaml.safe_load(file.read_text())
            client("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
        yield server


@pytest.fixture
def world(plugins_server, tmp_path, request):
    with World(plugins_server, tmp_path, request.node.name) as world:
        yield world


class World:
    """A namespace, nodes of its own, and programs; all end with the test."""

    def __init__(self, server, folder, name):
        self.server, self.folder = server, folder
        self.client = Client(server.kubeconfig)
        self.namespace = server.new_namespace(name)
        self._stack = ExitStack()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._stack.close()
        for node in self.client.names("/api/v1/nodes"):
            self.client.delete(f"/api/v1/nodes/{node}")
        for path in (self.pods(), *map(self.pods, self._more)):
            for pod in self.client.names(path):
                self.remove(pod, path)

    _more = ()

    def namespaces(self, *hints):
        """More of them."""
        made = [self.server.new_namespace(f"{self.namespace}-{hint}") for hint in hints]
        self._more = (*self._more, *made)
        return made

    # -- objects ---------------------------------------------------------------------------------------------------

    def pods(self, namespace=""):
        return f"/api/v1/namespaces/{namespace or self.namespace}/pods"

    def custom(self, plural, namespace=""):
        return f"{CUSTOM}/namespaces/{namespace or self.namespace}/{plural}"

    def node(self, name, cpu="4"):
        room = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
        ready = {"type": "Ready", "status": "True"}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
        self.client("/api/v1/nodes", node)
        status = {"status": {"capacity": room, "allocatable": room, "conditions": [ready]}}
        self._patch(f"/api/v1/nodes/{name}/status", status)
        # A real server taints new nodes, and no controller takes that back.
        self._patch(f"/api/v1/nodes/{name}", {"spec": {"taints": None}})

    def pod(self, name, *, cpu="1", group="", namespace="", **spec):
        pod = manifests.pod(name, labels={LABEL: group} if group else None, **spec)
        pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
        pod["spec"]["terminationGracePeriodSeconds"] = 0
        self.client(self.pods(namespace), pod)

    def group(self, name, namespace="", **spec):
        self._create("PodGroup", self.custom("podgroups", namespace), name, spec)

    def quota(self, name, namespace, **spec):
        self._create("ElasticQuota", self.custom("elasticquotas", namespace), name, spec)

    def _create(self, kind, path, name, spec):
        metadata = {"name": name}
        self.client(
            path, {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}
        )

    def phase(self, phase, *names, namespace=""):
        """As a kubelet reports it."""
        for name in names:
            self._patch(f"{self.pods(namespace)}/{name}/status", {"status": {"phase": phase}})

    def label(self, name, *, namespace="", **labels):
        self._patch(f"{self.pods(namespace)}/{name}", {"metadata": {"labels": labels}})

    def remove(self, pod, path=""):
        self.client(f"{path or self.pods()}/{pod}", {"gracePeriodSeconds": 0, "kind": "DeleteOptions"}, method="DELETE")

    def _patch(self, path, patch):
        self.client(path, patch, method="PATCH", content_type="application/merge-patch+json")

    # -- what is waited for -------------------------------------------------------------------------------------------

    def until_bound(self, *names, namespace=""):
        """Their nodes."""
        found = self.client.until(
            self.pods(namespace), lambda pods: all(_node_of(pods.get(name)) for name in names), seconds=60
        )
        return [_node_of(found[name]) for name in names]

    def until_message(self, name, text, namespace=""):
        return self.client.until(self.pods(namespace), lambda pods: text in _message_of(pods.get(name)), seconds=60)

    def until_status(self, plural, name, namespace="", **wanted):
        def ready(objects):
            return wanted.items() <= (objects.get(name, {}).get("status") or {}).items()

        return self.client.until(self.custom(plural, namespace), ready, seconds=60)

    def bound(self, namespace=""):
        """Names of pods that have nodes."""
        return sorted(pod["metadata"]["name"] for pod in self.client(self.pods(namespace))["items"] if _node_of(pod))

    # -- programs -----------------------------------------------------------------------------------------------------

    def scheduler(self, *plugins, name="scheduler", leader_elect=False, flags=(), args=None, **enabled):
        config = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(self.server.kubeconfig)},
            "leaderElection": {
                "leaderElect": leader_elect,
                "resourceName": self.namespace,
                "leaseDuration": "3s",
                "renewDeadline": "2s",
                "retryPeriod": "500ms",
            },
            "profiles": [
                {
                    "plugins": {"multiPoint": {"enabled": [{"name": plugin} for plugin in plugins]}, **enabled},
                    "pluginConfig": [{"name": plugin, "args": of_plugin} for plugin, of_plugin in (args or {}).items()],
                }
            ],
        }
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps(config))
        return self._stack.enter_context(
            kube_scheduler(self.folder, self.server.kubeconfig, f"--config={path}", *flags, name=name)
        )

    def controller(self, *flags, name="controller"):
        """Its process and log."""
        log, port = self.folder / f"{name}.log", free_port()
        command = [*CONTROLLER, f"--kubeconfig={self.server.kubeconfig}", "--metricsAddr=0", "--qps=500", "--burst=500"]
        process = self._stack.enter_context(running([*command, f"--probeAddr=127.0.0.1:{port}", *flags], log))
        until(lambda: "Caches are synced" in log.read_text(), process, log)
        return process, log


def _node_of(pod):
    return (pod or {}).get("spec", {}).get("nodeName", "")


def _message_of(pod):
    conditions = (pod or {}).get("status", {}).get("conditions") or ()
    return next((one.get("message", "") for one in conditions if one["type"] == "PodScheduled"), "")


@pytest.fixture
def watcher():
    """A load watcher on this machine: set what it answers."""
    with LoadWatcherServer() as server:
        yield server


class LoadWatcherServer:
    def __init__(self):
        #: (status, body); None: no answer before the test ends.
        self.answer = (200, {"data": {"NodeMetricsMap": {}}})
        self.asked = 0
        self.over = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.asked += 1
                if outer.answer is None:
                    outer.over.wait()
                    return
                status, body = outer.answer
                self.send_response(status)
                self.end_headers()
                self.wfile.write(body if isinstance(body, bytes) else json.dumps(body).encode())

            def log_message(self, *args):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *error):
        self.over.set()
        self._server.shutdown()
        self._server.server_close()

    def tells(self, **percent):
        of_nodes = {
            node.replace("_", "-"): {"metrics": [{"type": "CPU", "operator": "AVG", "value": value}]}
            for node, value in percent.items()
        }
        self.answer = (200, {"window": {"end": 4_102_444_800}, "data": {"NodeMetricsMap": of_nodes}})
