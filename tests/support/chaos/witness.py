"""kube-scheduler as a process on an API server with faults, and what both must agree on at the end.

A `Witness` watches the server directly, without faults, and goes on watching after the server is restarted.
"""

import http.client
import json
import re
import signal
import ssl
import threading
import time
from contextlib import suppress

from support.chaos.outside_view import LEASES, PODS, Cluster
from support.processes.scheduler_process import ADMIN

NODES = "/api/v1/nodes"
#: The format of the dump.
_POD = re.compile(r"name: (\S+), namespace: \S+, uid: (\S+), phase: (\S*), nominated node: ")
_BROKEN = (OSError, ssl.SSLError, ValueError, AttributeError, http.client.HTTPException)


class Witness(Cluster):
    """A `Cluster` that keeps working while its server restarts."""

    def __enter__(self):
        for path, see in ((PODS, self._see_pod), (LEASES, self._see_lease)):
            version = self.get(path)["metadata"]["resourceVersion"]
            thread = threading.Thread(target=self._keep_watching, args=(path, see, version), daemon=True)
            thread.start()
            self._threads.append(thread)
        return self

    def __exit__(self, *_):
        self._ending = True
        for thread in self._threads:
            thread.join(10)
        self._connection.close()

    def __init__(self, kubeconfig):
        super().__init__(kubeconfig)
        self._threads = []

    def _keep_watching(self, path, see, version):
        nodes = {}
        while not self._ending:
            connection = self._connect(5)
            with suppress(*_BROKEN):
                query = f"watch=true&timeoutSeconds=3&resourceVersion={version}"
                connection.request("GET", f"{path}?{query}", headers=self._headers)
                answer = connection.getresponse()
                while line := answer.readline():
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        version = self._relist(path, see, nodes)
                        break
                    see(event["type"], event["object"], nodes)
                    version = event["object"]["metadata"]["resourceVersion"]
            connection.close()
            time.sleep(0.02)

    def _relist(self, path, see, nodes):
        """List again after the watch has expired."""
        connection = self._connect(5)
        connection.request("GET", path, headers=self._headers)
        found = json.loads(connection.getresponse().read())
        connection.close()
        for obj in found["items"]:
            see("MODIFIED", obj, nodes)
        return found["metadata"]["resourceVersion"]

    def request(self, method, path, body=None):
        try:
            return super().request(method, path, body)
        except (OSError, http.client.HTTPException):
            self._connection.close()
            raise

    def answers(self):
        try:
            return bool(self.get(NODES))
        except (OSError, http.client.HTTPException, AssertionError, ValueError):
            return False

    def touch(self, path):
        """Write an irrelevant annotation."""
        patch = json.dumps({"metadata": {"annotations": {"chaos": "touched"}}})
        headers = self._headers | {"Content-Type": "application/merge-patch+json"}
        self._connection.request("PATCH", path, patch, headers)
        assert json.loads(self._connection.getresponse().read())["kind"] == "Pod"

    # -- what is expected

    def pending(self):
        return {name for name, node in self.nodes_of_pods().items() if not node}

    def pending_by_watch(self):
        return set(self._created) - {name for _, name, _ in tuple(self.bound)}

    def condition(self, name):
        conditions = self.get(f"{PODS}/{name}").get("status", {}).get("conditions", [])
        return next((one for one in conditions if one["type"] == "PodScheduled"), None)

    def reset(self):
        self.delete_all_pods()
        self._created.clear()
        self.bound.clear()

    def check_all_bound_except(self, *waiting):
        """Each once; the pods that wait were never on a node."""
        assert not self.wrong
        names = [name for _, name, _ in self.bound]
        assert len(names) == len(set(names))
        assert set(names) == set(self._created) - set(waiting)
        assert self.pending() == set(waiting)


def make_nodes(server, number):
    """For a real server, where no controller removes the taint of a new node."""
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "1000"}
    names = [f"n{i}" for i in range(number)]
    nodes = [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}} for name in names]
    server.kubectl("create", "-f", "-", stdin=nodes)
    status = json.dumps({"status": {"allocatable": amounts, "capacity": amounts}})
    for name in names:
        server.kubectl("patch", "node", name, "--subresource=status", "--type=merge", "-p", status)
        server.kubectl("patch", "node", name, "--type=merge", "-p", '{"spec":{"taints":null}}')


def log_entries(scheduler):
    """Complete entries of the log."""
    for line in scheduler.log.read_text(errors="replace").splitlines():
        with suppress(ValueError):
            yield json.loads(line)


def dump_matches_cluster(witness, scheduler):
    """Compares the dump that the process logs on SIGUSR2 with the API: nodes, their pods, and the queue."""
    witness.until(lambda: _view(scheduler) == _truth(witness), seconds=30)


def _view(scheduler):
    before = len(list(log_entries(scheduler)))
    scheduler.process.send_signal(signal.SIGUSR2)
    deadline = time.monotonic() + 20
    while True:
        assert time.monotonic() < deadline, "the dump was not logged"
        new = list(log_entries(scheduler))[before:]
        if any(entry["msg"] == "Dump of scheduling queue" for entry in new):
            break
        time.sleep(0.05)
    mismatches = [entry for entry in new if entry["msg"] == "Cache mismatch"]
    nodes = {}
    for entry in new:
        if entry["msg"] == "Dump of cached NodeInfo":
            for text in entry["nodes"].split("Node name: ")[1:]:
                nodes[text.partition("\n")[0]] = {(pod[0], pod[1]) for pod in _POD.findall(text)}
    queued = {pod[0] for e in new if e["msg"] == "Dump of scheduling queue" for pod in _POD.findall(e["pods"])}
    return nodes, queued, mismatches


def _truth(witness):
    nodes = {node["metadata"]["name"]: set() for node in witness.get(NODES)["items"]}
    queued = set()
    for pod in witness.pods():
        metadata, node = pod["metadata"], pod["spec"].get("nodeName")
        if node:
            nodes[node].add((metadata["name"], metadata["uid"]))
        else:
            queued.add(metadata["name"])
    return nodes, queued, []


def explains_pending(witness, scheduler, name, why):
    """Both in its condition and in its story."""
    condition = witness.until(lambda: witness.condition(name), seconds=30)
    assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
    assert why in condition["message"]
    status, _, body = scheduler.ask(f"/stowplan/stories/default/{name}", who=ADMIN)
    assert status == 200
    assert why in body
