"""Random changes of a cluster, as people, controllers, kubelets and other schedulers make them, each at its own pace.

They are written to the store directly; the scheduler sees them through its informers. `Changes.step` makes one random
change, `Changes.kubelets` makes what nodes do by themselves. `done` counts the changes that were made.
"""

from collections import Counter
from datetime import UTC, datetime

from stowplan.kube.api.api_errors import ApiError
from stowplan.plugins import SKIP, Code, PermitPlugin, PreBindPlugin, ShapeSigned, Status
from stowplan.testing import a_node, a_pod, selector
from stowplan_cluster.apiserver.deletion import DeleteOptions
from support.scheduling.worlds import HOST, ZONE, namespace, service

NAMESPACES = ("default", "blue")
NODES = tuple(f"n{i}" for i in range(10))
APPS = ("web", "db", "cache")
PRIORITIES = {"low": 0, "middle": 10, "high": 100, "patient": 100}
FOREIGN = "somebody-else"
#: An annotation with the seconds that a pod waits on Permit, or takes in PreBind.
WAITS, PREPARES = "soak/waits", "soak/prepares"

CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {"schedulerName": "default-scheduler"},
        {"schedulerName": "delaying", "plugins": {"multiPoint": {"enabled": [{"name": "Delaying"}]}}},
    ],
}


def delaying_plugin(sleep):
    """A plugin that delays pods on Permit and in PreBind by the seconds in their annotations."""

    class Delaying(PermitPlugin, PreBindPlugin, ShapeSigned):
        name = "Delaying"

        def permit(self, state, pod, node_name):
            seconds = pod.pod.metadata.annotations.get(WAITS)
            return (None, 0.0) if seconds is None else (Status(Code.Wait), float(seconds))

        def pre_bind_pre_flight(self, state, pod, node_name):
            return super().pre_bind_pre_flight(state, pod, node_name) if _seconds(pod) else SKIP

        async def pre_bind(self, state, pod, node_name):
            await sleep(_seconds(pod))

    return Delaying


def _seconds(pod):
    return float(pod.pod.metadata.annotations.get(PREPARES, 0))


def initial_objects():
    classes = [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            "preemptionPolicy": "Never" if name == "patient" else "PreemptLowerPriority",
        }
        for name, value in PRIORITIES.items()
    ]
    return [namespace("blue", team="blue"), *classes]


class Changes:
    def __init__(self, api, random, waiting_pods, *, most_pods=70):
        self.api = api
        self.random = random
        self.waiting_pods = waiting_pods
        self.most_pods = most_pods
        self.done, self.refused = Counter(), Counter()
        #: Key -> when its kubelet finishes a terminating pod.
        self._ends = {}
        #: UID -> the pod as last read; not to be modified.
        self._read = {}
        self._actions = {
            self.create_pod: 30,
            self.delete_pod: 10,
            self.label_pod: 5,
            self.tolerate: 5,
            self.lift_gates: 5,
            self.resize: 6,
            self.annotate: 2,
            self.bind_ours: 1,
            self.bind_foreign: 4,
            self.add_node: 4,
            self.remove_node: 1,
            self.label_node: 3,
            self.taint_node: 3,
            self.cordon: 3,
            self.resize_node: 3,
            self.put_budget: 3,
            self.remove_budget: 1,
            self.put_service: 1,
            self.label_namespace: 1,
            self.decide_on_waiting: 4,
        }

    @property
    def kinds(self):
        return [action.__name__ for action in self._actions]

    def step(self):
        (action,) = self.random.choices(list(self._actions), list(self._actions.values()))
        self._try(action.__name__, action)

    def _try(self, name, action):
        try:
            if action() is not False:
                self.done[name] += 1
        except ApiError as e:
            self.refused[name, type(e).__name__] += 1

    def now(self):
        return datetime.fromtimestamp(self.api.clock(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    # -- objects

    def pods(self, suits=lambda pod: True):
        read, self._read = self._read, {}
        for stored in self.api.store.list("pods", ""):
            known = read.get(stored.uid)
            if known is None or known[0] != stored.version:
                known = stored.version, stored.to_dict()
            self._read[stored.uid] = known
        return [pod for _, pod in self._read.values() if suits(pod)]

    def pick_pod(self, suits=lambda pod: True):
        found = self.pods(suits)
        return self.random.choice(found) if found else None

    def pick_node(self):
        names = self.api.names("nodes")
        return self.random.choice(names) if names else None

    def patch_pod(self, pod, patch, subresource=""):
        metadata = pod["metadata"]
        self.api.patch("pods", metadata["namespace"], metadata["name"], patch, subresource=subresource)

    def patch_node(self, patch, subresource=""):
        name = self.pick_node()
        if name is None:
            return False
        self.api.patch("nodes", "", name, patch, subresource=subresource)
        return True

    # -- pods

    def create_pod(self):
        if len(self.api.names("pods")) >= self.most_pods:
            return False
        # Names are reused soon, also while the previous pod of that name is being tried.
        pod = self.wishes(a_pod(f"p{self.random.randrange(100)}", self.random.choice(NAMESPACES))).obj()
        del pod["metadata"]["uid"]
        self.api.create("pods", pod)
        return True

    def wishes(self, pod):
        choice, chance = self.random.choice, self.random.random
        pod.labels(app=choice(APPS))
        pod.requests(cpu=choice(("100m", "250m", "500m", "1", "2")), memory=choice(("64Mi", "512Mi", "1Gi")))
        pod.spec(terminationGracePeriodSeconds=choice((0, 0, 2, 10)))
        name = choice(("low", "low", "low", "low", "middle", "middle", "high", "high", "patient"))
        pod.priority(PRIORITIES[name], class_name=name)
        if chance() < 0.15:
            pod.scheduler(FOREIGN)
        elif chance() < 0.3:
            pod.scheduler("delaying")
            if chance() < 0.5:
                pod.annotations({WAITS: choice(("1", "5", "20"))})
            if chance() < 0.5:
                pod.annotations({PREPARES: choice(("0.1", "2", "6"))})
        if chance() < 0.1:
            pod.gated("soak/gate")
        for grant in self.random.sample(self._constraints, self.random.choice((0, 0, 1, 1, 2))):
            grant(self, pod)
        return pod

    def _app(self):
        return selector(labels={"app": self.random.choice(APPS)})

    _constraints = (
        lambda self, pod: pod.spreads(ZONE, self._app(), max_skew=self.random.choice((1, 2))),
        lambda self, pod: pod.spreads(HOST, self._app(), when_unsatisfiable="ScheduleAnyway"),
        lambda self, pod: pod.avoids_pods(self.random.choice((HOST, ZONE)), self._app()),
        lambda self, pod: pod.requires_pods(ZONE, self._app(), namespace_selector={"matchLabels": {"team": "blue"}}),
        lambda self, pod: pod.prefers_pods(50, ZONE, self._app()),
        lambda self, pod: pod.node_selector(disk="ssd"),
        lambda self, pod: pod.tolerates("dedicated", "x"),
        lambda self, pod: pod.host_port(self.random.choice((80, 443))),
    )

    def delete_pod(self):
        pod = self.pick_pod()
        if pod is None:
            return False
        options = DeleteOptions(grace_period_seconds=self.random.choice((None, None, 0)))
        self.api.delete("pods", pod["metadata"]["namespace"], pod["metadata"]["name"], options=options)
        return True

    def label_pod(self):
        pod = self.pick_pod()
        if pod is None:
            return False
        return self.patch_pod(pod, {"metadata": {"labels": {"app": self.random.choice(APPS)}}})

    def tolerate(self):
        pod = self.pick_pod(_is_pending)
        if pod is None:
            return False
        more = {"key": self.random.choice(("dedicated", "node.kubernetes.io/unschedulable")), "operator": "Exists"}
        return self.patch_pod(pod, {"spec": {"tolerations": [*pod["spec"].get("tolerations", ()), more]}})

    def lift_gates(self):
        pod = self.pick_pod(lambda pod: pod["spec"].get("schedulingGates"))
        return False if pod is None else self.patch_pod(pod, {"spec": {"schedulingGates": None}})

    def resize(self):
        pod = self.pick_pod()
        if pod is None:
            return False
        container = pod["spec"]["containers"][0]
        requests = {**container["resources"]["requests"], "cpu": self.random.choice(("50m", "100m", "500m", "1500m"))}
        containers = [{**container, "resources": {**container["resources"], "requests": requests}}]
        return self.patch_pod(pod, {"spec": {"containers": containers}}, subresource="resize")

    def annotate(self):
        pod = self.pick_pod()
        stamp = {"soak/seen": str(self.random.random())}
        return False if pod is None else self.patch_pod(pod, {"metadata": {"annotations": stamp}})

    def bind_ours(self):
        """Another scheduler binds one of our pods."""
        return self._bind(lambda pod: _is_pending(pod) and pod["spec"]["schedulerName"] != FOREIGN)

    def bind_foreign(self):
        return self._bind(lambda pod: _is_pending(pod) and pod["spec"]["schedulerName"] == FOREIGN)

    def _bind(self, suits):
        pod, node = self.pick_pod(suits), self.pick_node()
        if pod is None or node is None:
            return False
        name = pod["metadata"]["name"]
        body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
        self.api.registry.bind(pod["metadata"]["namespace"], name, body)
        return True

    def decide_on_waiting(self):
        waiting = list(self.waiting_pods)
        if not waiting:
            return False
        pod = self.random.choice(waiting)
        if self.random.random() < 0.7:
            pod.allow("Delaying")
        else:
            pod.reject("Delaying", "the test says no")
        return True

    # -- nodes

    def add_node(self):
        missing = sorted(set(NODES) - set(self.api.names("nodes")))
        if not missing:
            return False
        node = a_node(self.random.choice(missing)).labels({"disk": self.random.choice(("ssd", "hdd"))})
        node.zone(self.random.choice("abc"))
        size = self._size()
        node.allocatable(**size)
        if self.random.random() < 0.2:
            node.tainted("dedicated", "x", effect="NoSchedule")
        self.api.create("nodes", node.obj())
        return True

    def _size(self):
        choice = self.random.choice
        return {"cpu": choice(("1", "2", "4")), "memory": choice(("4Gi", "8Gi")), "pods": choice(("3", "10", "110"))}

    def remove_node(self):
        name = self.pick_node()
        if name is None:
            return False
        self.api.delete("nodes", "", name)
        return True

    def label_node(self):
        labels = {"disk": self.random.choice(("ssd", "hdd", None))}
        if self.random.random() < 0.3:
            labels = {ZONE: self.random.choice(("a", "b", "c", None))}
        return self.patch_node({"metadata": {"labels": labels}})

    def taint_node(self):
        taints = [{"key": "dedicated", "value": "x", "effect": self.random.choice(("NoSchedule", "PreferNoSchedule"))}]
        return self.patch_node({"spec": {"taints": taints if self.random.random() < 0.4 else None}})

    def cordon(self):
        return self.patch_node({"spec": {"unschedulable": self.random.random() < 0.4}})

    def resize_node(self):
        size = self._size()
        return self.patch_node({"status": {"allocatable": size, "capacity": size}}, subresource="status")

    # -- other objects

    def put_budget(self):
        where, app = self.random.choice(NAMESPACES), self.random.choice(APPS)
        budget = {"metadata": {"name": app, "namespace": where}, "spec": {"selector": {"matchLabels": {"app": app}}}}
        budget["spec"]["minAvailable"] = 1
        if app not in self.api.names("poddisruptionbudgets.policy", where):
            self.api.create("poddisruptionbudgets.policy", budget)
        status = {
            "disruptionsAllowed": self.random.choice((0, 0, 1, 3)),
            "currentHealthy": 3,
            "desiredHealthy": 1,
            "expectedPods": 3,
        }
        self.api.patch("poddisruptionbudgets.policy", where, app, {"status": status}, subresource="status")
        return True

    def remove_budget(self):
        where = self.random.choice(NAMESPACES)
        names = self.api.names("poddisruptionbudgets.policy", where)
        if not names:
            return False
        self.api.delete("poddisruptionbudgets.policy", where, self.random.choice(names))
        return True

    def put_service(self):
        app, where = self.random.choice(APPS), self.random.choice(NAMESPACES)
        if app in self.api.names("services", where):
            self.api.delete("services", where, app)
        else:
            obj = service(app, where, app=app)
            obj["spec"]["ports"] = [{"port": 80}]
            self.api.create("services", obj)
        return True

    def label_namespace(self):
        team = {"team": self.random.choice(("blue", "red", None))}
        self.api.patch("namespaces", "", self.random.choice(NAMESPACES), {"metadata": {"labels": team}})
        return True

    # -- kubelets

    def kubelets(self, *, at_once=False):
        """Start bound pods, finish terminating ones when their time has come, clean up after deleted nodes."""
        nodes = set(self.api.names("nodes"))
        for pod in self.pods(lambda pod: pod["spec"].get("nodeName")):
            if "deletionTimestamp" in pod["metadata"]:
                self._end(pod, at_once)
            elif pod["spec"]["nodeName"] not in nodes:
                if at_once or self.random.random() < 0.1:
                    self._try("collected", lambda pod=pod: self._delete_now(pod))
            elif pod["status"].get("phase") == "Pending":
                if at_once or self.random.random() < 0.5:
                    status = {"phase": "Running", "startTime": self.now()}
                    self._try("started", lambda pod=pod, status=status: self._set_status(pod, status))
            elif not at_once and self.random.random() < 0.005:
                phase = {"phase": self.random.choice(("Succeeded", "Failed"))}
                self._try("finished", lambda pod=pod, phase=phase: self._set_status(pod, phase))

    def _end(self, pod, at_once):
        uid = pod["metadata"]["uid"]
        latest = self._ends.setdefault(uid, self.api.clock() + self.random.random() * 8)
        if at_once or latest <= self.api.clock():
            del self._ends[uid]
            self._try("ended", lambda: self._delete_now(pod))

    def _set_status(self, pod, status):
        self.patch_pod(pod, {"status": status}, subresource="status")

    def _delete_now(self, pod):
        metadata = pod["metadata"]
        self.api.delete("pods", metadata["namespace"], metadata["name"], options=DeleteOptions(grace_period_seconds=0))


def _is_pending(pod):
    return not pod["spec"].get("nodeName")
