"""A cluster as an observer sees it while its schedulers start and stop, and checks of what happened.

    with Cluster(server.kubeconfig) as cluster:
        cluster.create_pods("a", "b")
        cluster.until_bound("a", "b")
        cluster.check()                      # each pod was bound once, and by the leader

A thread watches all writes to pods and leases, in the server's order.
"""

import base64
import http.client
import json
import ssl
import threading
import time
from contextlib import suppress

import yaml

PATIENCE = 60.0
PODS = "/api/v1/namespaces/default/pods"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


def a_pod(name, *, cpu="1m", **spec):
    container = {"name": "c", "image": "nginx", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [container], **spec},
    }


class Cluster:
    def __init__(self, kubeconfig):
        config = yaml.safe_load(kubeconfig.read_text())
        cluster = config["clusters"][0]["cluster"]
        ca = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._context = ssl.create_default_context(cadata=ca)
        self._address = cluster["server"].removeprefix("https://")
        self._headers = {"Authorization": f"Bearer {config['users'][0]['user']['token']}"}
        self._connection = self._connect()
        #: (time seen, key, node) of each binding, in the server's order.
        self.bound = []
        #: (holder, renewTime, name) of each version of each Lease, in the server's order.
        self.records = []
        #: Violations that were found.
        self.wrong = []
        self._created = {}
        self._watches = []
        self._ending = False

    def __enter__(self):
        for path, see in ((PODS, self._see_pod), (LEASES, self._see_lease)):
            version = self.get(path)["metadata"]["resourceVersion"]
            connection = self._connect(None)
            connection.request("GET", f"{path}?watch=true&resourceVersion={version}", headers=self._headers)
            thread = threading.Thread(target=self._watch, args=(connection.getresponse(), see), daemon=True)
            thread.start()
            self._watches.append((connection, thread))
        return self

    def __exit__(self, *_):
        self._ending = True
        for connection, thread in self._watches:
            with suppress(OSError):
                connection.sock.shutdown(2)
            thread.join(10)
            connection.close()
        self._connection.close()

    # -- requests

    def _connect(self, timeout=30):
        return http.client.HTTPSConnection(self._address, context=self._context, timeout=timeout)

    def request(self, method, path, body=None):
        data = None if body is None else json.dumps(body)
        headers = self._headers | ({} if data is None else {"Content-Type": "application/json"})
        self._connection.request(method, path, data, headers)
        answer = self._connection.getresponse()
        found = json.loads(answer.read())
        assert answer.status < 300, found
        return found

    def get(self, path):
        return self.request("GET", path)

    def create_pods(self, *names, **options):
        for name in names:
            self._created[name] = time.monotonic()
            self.request("POST", PODS, a_pod(name, **options))

    def delete_pods(self, *names):
        for name in names:
            self.request("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0})

    def delete_all_pods(self):
        """So that the next test starts with an empty cluster."""
        self.delete_pods(*(pod["metadata"]["name"] for pod in self.pods()))

    def pods(self):
        return self.get(PODS)["items"]

    def nodes_of_pods(self):
        return {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in self.pods()}

    # -- the watches

    def _watch(self, answer, see):
        nodes = {}
        with suppress(OSError, ValueError, AttributeError, http.client.HTTPException):
            while line := answer.readline():
                event = json.loads(line)
                see(event["type"], event["object"], nodes)
        if not self._ending:
            self.wrong.append("a watch of the test's ended")

    def _see_pod(self, type_, pod, nodes):
        uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName", "")
        before = nodes.get(uid, "")
        if before and node != before:
            self.wrong.append(f"{pod['metadata']['name']} was on {before}, is on {node or 'none'}")
        if node and not before:
            nodes[uid] = node
            self.bound.append((time.monotonic(), pod["metadata"]["name"], node))

    def _see_lease(self, type_, lease, _):
        spec = lease["spec"]
        self.records.append((spec.get("holderIdentity") or "", spec.get("renewTime"), lease["metadata"]["name"]))

    # -- waiting, and checks

    def until(self, holds, seconds=PATIENCE):
        deadline = time.monotonic() + seconds
        while not (found := holds()):
            assert time.monotonic() < deadline, "the condition did not become true in time"
            time.sleep(0.02)
        return found

    def until_bound(self, *names):
        wanted = set(names or self._created)
        self.until(lambda: wanted <= {name for _, name, _ in tuple(self.bound)})

    def waits(self):
        """Seconds that each pod waited for its node."""
        return {name: at - self._created[name] for at, name, _ in self.bound if name in self._created}

    def check(self):
        """Each pod was bound once, and nothing was wrong."""
        assert not self.wrong
        names = [name for _, name, _ in self.bound]
        assert len(names) == len(set(names)) == len(self._created)

    def check_leaders(self, lines, *, lease, patience):
        """Every binding was sent by the process that held the Lease: no other process had claimed it since, and the
        claim was not too old.

        `patience` is the lease duration: no other process takes the lease before that, so until then binding is safe.
        Returns (time, line) of each change of the holder.
        """
        granted = {record[:2] for record in self.records if record[2] == lease}
        claims = [sent for sent in lines.sent if sent.claims in granted and sent.claims[0]]
        released = {record[1] for record in self.records if record[2] == lease and not record[0]}
        for sent in lines.binds():
            before = [claim for claim in claims if claim.at <= sent.at]
            assert before, f"{sent.line} binds {sent.binds} without any leader"
            assert before[-1].line == sent.line, f"{sent.line} binds {sent.binds} while {before[-1].line} leads"
            assert sent.at - before[-1].at <= patience, f"{sent.line} binds {sent.binds} with an expired claim"
        given_back = [sent for sent in lines.sent if sent.claims and not sent.claims[0] and sent.claims[1] in released]
        for end in given_back:
            late = [sent for sent in lines.binds(end.line) if sent.at > end.at]
            assert not [sent for sent in late if not _claims_between(claims, end, sent)], (
                f"{end.line} binds after it lost the lease"
            )
        return [
            (claim.at, claim.line)
            for last, claim in zip([None, *claims], claims, strict=False)
            if last is None or last.claims[0] != claim.claims[0]
        ]


def _claims_between(claims, first, last):
    return [claim for claim in claims if first.at < claim.at < last.at and claim.line == last.line]
