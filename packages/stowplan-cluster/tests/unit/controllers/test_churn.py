"""Random operations on workloads: after all has settled, exactly the wanted pods run."""

from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.api.api_errors import AlreadyExists
from support.examples import examples
from support.live.controller_cluster import LiveCluster, set_image, workload

KINDS = ("ReplicaSet", "Deployment", "StatefulSet", "ReplicationController", "DaemonSet")
NODES = ("node-1", "node-2", "node-3")


@dataclass(frozen=True)
class Action:
    name: str
    #: Selects the object; also a number of replicas, a version or a duration.
    which: int
    number: int


class Churn:
    def __init__(self):
        self.cluster = LiveCluster()
        for name in NODES:
            self.cluster.add_node(name)
        for kind in KINDS:
            self.cluster.create(manifest(kind, 3))

    def do(self, action):
        getattr(self, action.name)(action.which, action.number)

    def owners(self, *, scalable=False):
        return [
            (kind, one["metadata"]["name"])
            for kind in KINDS
            for one in self.cluster.all(kind)
            if is_top(one) and not (scalable and kind == "DaemonSet")
        ]

    # Operations of users

    def create(self, which, number):
        try:
            self.cluster.create(manifest(KINDS[which % len(KINDS)], number))
        except AlreadyExists:
            return

    def scale(self, which, number):
        if owners := self.owners(scalable=True):
            self.cluster.scale(*owners[which % len(owners)], number)

    def update(self, which, number):
        if owners := self.owners():
            self.cluster.change(*owners[which % len(owners)], set_image(f"app:{number}"))

    def delete(self, which, number):
        if owners := self.owners():
            kind, name = owners[which % len(owners)]
            uid = self.cluster.get(kind, name)["metadata"]["uid"]
            self.cluster.delete(kind, name)
            self.collect(uid)

    def collect(self, uid):
        """Delete dependents, as the garbage collector does."""
        for stored in self.cluster.store.dependents(uid):
            self.cluster.delete(stored.to_dict()["kind"], stored.name)
            self.collect(stored.uid)

    def kill(self, which, number):
        if names := [pod["metadata"]["name"] for pod in self.cluster.pods()]:
            self.cluster.delete("Pod", names[which % len(names)], grace_period_seconds=None if number % 2 else 0)

    def release(self, which, number):
        """Remove the labels of a pod, as one does to debug it. Not for StatefulSets, which need the name again."""
        if names := [pod["metadata"]["name"] for pod in self.cluster.pods() if "hostname" not in pod["spec"]]:
            name = names[which % len(names)]
            self.cluster.change("Pod", name, lambda pod: pod["metadata"].update(labels={"app": "debug"}))

    # Operations of nodes

    def fail(self, which, number):
        if names := [pod["metadata"]["name"] for pod in self.cluster.pods() if is_running(pod)]:
            self.cluster.set_pod(names[which % len(names)], phase="Failed", ready=False)

    def work(self, which, number):
        self.cluster.settle()

    def work_a_little(self, which, number):
        self.cluster.loop.step(which + 1)

    def restart(self, which, number):
        self.cluster.loop.close()
        self.cluster.restart()

    def run(self, which, number):
        self.cluster.run_pods()
        self.cluster.finish_deletions()

    def wait(self, which, number):
        self.cluster.advance(number * 10)

    # Results

    def rest(self):
        # Failed pods of daemon sets are replaced after a delay.
        for _ in range(3):
            self.cluster.live()
            self.cluster.advance(1000)
        self.cluster.live()

    def running(self):
        """The number of running pods per workload, by image."""
        pods = [pod for pod in self.cluster.pods() if is_running(pod) and pod["metadata"]["labels"]["app"] != "debug"]
        return Counter((top_of(self.cluster, pod), image_of(pod["spec"])) for pod in pods)

    def wanted(self):
        wanted = Counter()
        for kind, name in self.owners():
            spec = self.cluster.get(kind, name)["spec"]
            count = len(NODES) if kind == "DaemonSet" else spec["replicas"]
            if kind in ("ReplicaSet", "ReplicationController"):
                # With OnDelete, pods keep their template.
                mine = {key: running for key, running in self.running().items() if key[0] == (kind, name)}
                assert sum(mine.values()) == count
                wanted.update(mine)
            elif count:
                wanted[(kind, name), image_of(spec["template"]["spec"])] = count
        return wanted


PEOPLE = ("create", "scale", "scale", "update", "update", "delete", "kill", "kill", "release")
MACHINES = ("fail", "fail", "work", "work", "work_a_little", "restart", "run", "run", "wait")
ACTIONS = st.builds(Action, st.sampled_from(PEOPLE + MACHINES), st.integers(0, 11), st.integers(0, 4))
#: Lists of all lengths; by itself hypothesis prefers short ones.
STORIES = st.sampled_from((3, 10, 30, 60)).flatmap(lambda length: st.lists(ACTIONS, min_size=length, max_size=length))


@pytest.mark.slow
@examples(60)
@given(STORIES)
def test_exactly_the_wanted_pods_run_in_the_end(actions):
    churn = Churn()
    for action in actions:
        churn.do(action)
    churn.rest()
    assert churn.running() == churn.wanted()
    version = churn.cluster.store.version
    churn.cluster.advance(100_000)
    assert churn.cluster.store.version == version


def manifest(kind, replicas):
    count = {} if kind == "DaemonSet" else {"replicas": replicas}
    return workload(kind, kind.lower(), **count)


def image_of(spec):
    return spec["containers"][0]["image"]


def is_running(pod):
    return pod["status"]["phase"] == "Running"


def is_top(obj):
    return not obj["metadata"].get("ownerReferences") and "deletionTimestamp" not in obj["metadata"]


def top_of(cluster, obj):
    references = obj["metadata"].get("ownerReferences")
    if not references:
        return (obj["kind"], obj["metadata"]["name"])
    (reference,) = references
    owner = cluster.get(reference["kind"], reference["name"])
    assert owner is not None, f"{obj['metadata']['name']} has no owner"
    assert owner["metadata"]["uid"] == reference["uid"]
    return top_of(cluster, owner)
