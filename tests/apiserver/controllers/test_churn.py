"""Whatever people and machines do to a cluster: once all has settled, exactly the wanted pods run."""

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from examples import SCALE
from live_cluster import LiveCluster, set_image, workload
from stowplan.api.api_errors import AlreadyExists

KINDS = ("ReplicaSet", "Deployment", "StatefulSet", "ReplicationController", "DaemonSet")
NODES = ("node-1", "node-2", "node-3")


class Churn(RuleBasedStateMachine):
    @initialize()
    def begin(self):
        self.cluster = LiveCluster()
        for name in NODES:
            self.add_node(name)

    def add_node(self, name):
        self.cluster.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {}})

    def owners(self):
        return [(kind, one["metadata"]["name"]) for kind in KINDS for one in self.cluster.all(kind) if is_top(one)]

    @rule(kind=st.sampled_from(KINDS), replicas=st.integers(0, 4), number=st.integers(0, 1))
    def create(self, kind, replicas, number):
        name = f"{kind.lower()}-{number}"
        count = {} if kind == "DaemonSet" else {"replicas": replicas}
        try:
            self.cluster.create(workload(kind, name, **count))
        except AlreadyExists:
            return

    @rule(data=st.data(), replicas=st.integers(0, 4))
    def scale(self, data, replicas):
        owners = [owner for owner in self.owners() if owner[0] != "DaemonSet"]
        if owners:
            self.cluster.scale(*data.draw(st.sampled_from(owners)), replicas)

    @rule(data=st.data(), version=st.integers(1, 3))
    def update(self, data, version):
        owners = self.owners()
        if owners:
            self.cluster.change(*data.draw(st.sampled_from(owners)), set_image(f"app:{version}"))

    @rule(data=st.data())
    def delete(self, data):
        owners = self.owners()
        if owners:
            kind, name = data.draw(st.sampled_from(owners))
            uid = self.cluster.get(kind, name)["metadata"]["uid"]
            self.cluster.delete(kind, name)
            self.collect(uid)

    def collect(self, uid):
        """What the garbage collector does."""
        for stored in self.cluster.store.dependents(uid):
            kind = stored.to_dict()["kind"]
            self.cluster.delete(kind, stored.name)
            self.collect(stored.uid)

    @rule(data=st.data(), graceful=st.booleans())
    def kill(self, data, graceful):
        names = [pod["metadata"]["name"] for pod in self.cluster.pods()]
        if names:
            name = data.draw(st.sampled_from(names))
            self.cluster.delete("Pod", name, grace_period_seconds=None if graceful else 0)

    @rule(data=st.data())
    def fail(self, data):
        names = [pod["metadata"]["name"] for pod in self.cluster.pods() if pod["status"]["phase"] == "Running"]
        if names:
            self.cluster.set_pod(data.draw(st.sampled_from(names)), phase="Failed", ready=False)

    @rule()
    def controllers_work(self):
        self.cluster.settle()

    @rule(limit=st.integers(1, 5))
    def controllers_work_a_little(self, limit):
        self.cluster.loop.step(limit)

    @rule()
    def controllers_start_anew(self):
        self.cluster.loop.close()
        self.cluster.restart()

    @rule()
    def kubelet_works(self):
        self.cluster.run_pods()
        self.cluster.finish_deletions()

    @rule(seconds=st.integers(1, 100))
    def time_passes(self, seconds):
        self.cluster.advance(seconds)

    @invariant()
    def names_are_never_shared(self):
        for pod in self.cluster.pods() if hasattr(self, "cluster") else ():
            assert len(pod["metadata"].get("ownerReferences") or ()) <= 1

    def teardown(self):
        if not hasattr(self, "cluster"):
            return
        # Failed daemon pods are replaced after a while only.
        for _ in range(3):
            self.cluster.live()
            self.cluster.advance(1000)
        self.cluster.live()
        assert self.running() == self.wanted()

    def running(self):
        """Running pods of each owner at the top, by owner and image."""
        tops = {}
        for pod in self.cluster.pods():
            if pod["status"]["phase"] == "Running":
                key = (top_of(self.cluster, pod), pod["spec"]["containers"][0]["image"])
                tops[key] = tops.get(key, 0) + 1
        return Counter(tops)

    def wanted(self):
        wanted = Counter()
        for kind, name in self.owners():
            obj = self.cluster.get(kind, name)
            count = len(NODES) if kind == "DaemonSet" else obj["spec"]["replicas"]
            if kind in ("ReplicaSet", "ReplicationController"):
                # Their pods stay as they were made.
                for (owner, image), running in self.running().items():
                    if owner == (kind, name):
                        wanted[owner, image] = running
                assert sum(number for (owner, _), number in wanted.items() if owner == (kind, name)) == count
            elif count:
                wanted[(kind, name), obj["spec"]["template"]["spec"]["containers"][0]["image"]] = count
        return wanted


def is_top(obj):
    return not obj["metadata"].get("ownerReferences") and "deletionTimestamp" not in obj["metadata"]


def top_of(cluster, obj):
    references = obj["metadata"].get("ownerReferences")
    if not references:
        return (obj["kind"], obj["metadata"]["name"])
    owner = cluster.get(references[0]["kind"], references[0]["name"])
    assert owner is not None, f"{obj['metadata']['name']} belongs to nobody"
    assert owner["metadata"]["uid"] == references[0]["uid"]
    return top_of(cluster, owner)


TestChurn = Churn.TestCase
TestChurn.settings = settings(max_examples=25 * SCALE, stateful_step_count=30, deadline=None)
