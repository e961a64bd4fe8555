"""Scripts for the controllers of workloads, and what they leave behind, whoever runs them.

A script is a generator over a cluster: between its moments it changes objects and lets pods run or end. What stands at
each moment is compared with what kube-controller-manager made of the same script. Names that are made up, times and
versions are replaced; events are compared without their counts.
"""

import json
import re
from collections import Counter, defaultdict

from support.live.controller_cluster import set_image, workload

#: What is seen of a cluster, and the fields of each kind that are compared beside its status.
SEEN = {
    "Deployment": ("metadata.annotations", "metadata.generation", "spec.replicas"),
    "ReplicaSet": ("metadata.annotations", "metadata.labels", "metadata.ownerReferences", "spec.replicas"),
    "StatefulSet": ("metadata.generation", "spec.replicas"),
    "DaemonSet": ("metadata.annotations", "metadata.generation"),
    "ControllerRevision": ("metadata.labels", "metadata.ownerReferences", "revision"),
    "Job": ("metadata.generation", "spec.suspend"),
    "Pod": ("metadata.labels", "metadata.annotations", "metadata.ownerReferences", "metadata.finalizers"),
}
_HASHES = ("pod-template-hash", "controller-revision-hash", "controller.kubernetes.io/hash")
#: Times, and what differs between two runs of the same script.
_LEFT_OUT = re.compile(r"(.*Time|.*Timestamp|uid|.*controller-uid)$")
#: From so many messages about one thing on, clients write one event for all others.
_COMBINED = 10
#: Deprecated; the embedded API has none.
_TEMPLATE_GENERATION = ("deprecated.daemonset.template.generation", "pod-template-generation")


def seen(cluster):
    """What stands in the cluster: kind -> its objects, as sorted lines of JSON with their number; and the events."""
    objects = {kind: cluster.all(kind) for kind in SEEN}
    names = _Names(objects)
    found = {kind: _counted(names, [_view(kind, obj) for obj in objects[kind]]) for kind in SEEN if objects[kind]}
    found["Event"] = dict.fromkeys(sorted(map(names.replaced, _events(cluster.all("Event")))), 1)
    return found


def _view(kind, obj):
    view = {"name": obj["metadata"]["name"], "deleting": "deletionTimestamp" in obj["metadata"]}
    for path in SEEN[kind]:
        value = obj
        for key in path.split("."):
            value = (value or {}).get(key)
        view[path] = value
    status = dict(obj.get("status") or {})
    if kind == "Pod":
        status = {"phase": status.get("phase")}
    # Their order is that of the last change of each.
    status["conditions"] = sorted(status.get("conditions") or (), key=lambda one: one["type"])
    return _plain({**view, "status": status})


def _plain(value):
    """Without times, and what says nothing."""
    if isinstance(value, dict):
        kept = {
            key: _plain(item)
            for key, item in value.items()
            if not _LEFT_OUT.match(key) and key not in _TEMPLATE_GENERATION
        }
        return {key: item for key, item in kept.items() if item not in (None, {}, [], 0, False)}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _events(events):
    """Object, type, reason and messages; without these if there are so many that clients combine them."""
    messages = defaultdict(set)
    for event in events:
        about = event.get("regarding") or event["involvedObject"]
        if about["kind"] in SEEN:
            what = f"{about['kind']}/{about['name']} {event['type']} {event['reason']}"
            messages[what].add(event["note"] if "note" in event else event["message"])
    for what, those in messages.items():
        if len(those) < _COMBINED:
            yield from (f"{what} {message}" for message in those)
        else:
            yield f"{what} ({_COMBINED} or more)"


def _counted(names, views):
    lines = Counter(names.replaced(json.dumps(view, sort_keys=True)) for view in views)
    return dict(sorted(lines.items()))


class _Names:
    """Hashes by the order of their revisions, and random ends of names, as the same text in every run."""

    def __init__(self, objects):
        def age(obj):
            number = (obj["metadata"].get("annotations") or {}).get("deployment.kubernetes.io/revision-history", "")
            number = number.split(",")[0] or (obj["metadata"].get("annotations") or {}).get(
                "deployment.kubernetes.io/revision", obj.get("revision", 0)
            )
            return int(number), obj["metadata"]["creationTimestamp"]

        hashes = {}
        for obj in sorted((*objects["ReplicaSet"], *objects["ControllerRevision"]), key=age):
            for label in _HASHES:
                value = (obj["metadata"].get("labels") or {}).get(label)
                if value:
                    hashes.setdefault(value, f"<{len(hashes) + 1}>")
        self._hashes = hashes
        self._gone = re.compile(r"\bweb-[a-z0-9]{6,10}\b")
        self._made_up = re.compile(r"((?:<\w+>|\bweb|\bjob(?:-\d)?)-)[a-z0-9]{5}\b(?!-)")

    def replaced(self, text):
        for value, name in self._hashes.items():
            text = re.sub(rf"(?<![a-z0-9]){value}(?![a-z0-9])", name, text)
        return self._made_up.sub(r"\1?????", self._gone.sub("web-<gone>", text))


# -- scripts ----------------------------------------------------------------------------------------------------------


def live(cluster):
    """Let all pods run and all deletions end."""
    for _ in range(50):
        cluster.settle()
        started, ended = start(cluster), cluster.finish_deletions()
        if not started and not ended:
            return
    raise AssertionError("the cluster does not settle")


def start(cluster):
    """Start pending pods one by one: real controllers may act after each. Returns whether there were any."""
    pending = [pod["metadata"]["name"] for pod in cluster.pods() if pod["status"]["phase"] == "Pending"]
    for name in pending:
        if cluster.run_pod(name):
            cluster.settle()
    return bool(pending)


def _rolling(surge, unavailable):
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}


def deployment_scaled(cluster):
    cluster.create(workload("Deployment", replicas=3))
    yield "created"
    live(cluster)
    yield "runs"
    cluster.scale("Deployment", "web", 5)
    live(cluster)
    yield "scaled up"
    cluster.scale("Deployment", "web", 2)
    yield "scaled down"
    live(cluster)
    yield "the others are gone"


def deployment_rolled_out(cluster):
    cluster.create(workload("Deployment", replicas=4, strategy=_rolling(1, 1)))
    live(cluster)
    cluster.change("Deployment", "web", set_image("app:2"))
    yield "the first step"
    start(cluster)
    yield "its pods run"
    cluster.finish_deletions()
    yield "and the first ones are gone"
    live(cluster)
    yield "done"


def deployment_rolled_back(cluster):
    cluster.create(workload("Deployment", replicas=2))
    live(cluster)
    for image in ("app:2", "app:3"):
        cluster.change("Deployment", "web", set_image(image))
        live(cluster)
    cluster.change("Deployment", "web", set_image("app:1"))
    live(cluster)
    yield "the first template is the newest revision"
    cluster.change("Deployment", "web", set_image("app:3"))
    live(cluster)
    yield "and the third again"


def deployment_recreated(cluster):
    cluster.create(workload("Deployment", replicas=3, strategy={"type": "Recreate"}))
    live(cluster)
    cluster.change("Deployment", "web", set_image("app:2"))
    yield "old pods end"
    cluster.finish_deletions()
    yield "new pods are created"
    live(cluster)
    yield "done"


def deployment_paused(cluster):
    cluster.create(workload("Deployment", replicas=3, strategy=_rolling(1, 0)))
    live(cluster)
    cluster.change("Deployment", "web", lambda obj: obj["spec"].update(paused=True))
    cluster.change("Deployment", "web", set_image("app:2"))
    yield "nothing is rolled out"
    cluster.scale("Deployment", "web", 4)
    live(cluster)
    yield "but scaled"
    cluster.change("Deployment", "web", lambda obj: obj["spec"].pop("paused"))
    live(cluster)
    yield "resumed"


def deployment_scaled_while_rolled_out(cluster):
    cluster.create(workload("Deployment", replicas=10, strategy=_rolling(3, 2)))
    live(cluster)
    cluster.change("Deployment", "web", set_image("no:such"))
    yield "stuck"
    cluster.scale("Deployment", "web", 15)
    yield "scaled up in proportion"
    cluster.scale("Deployment", "web", 4)
    yield "scaled down in proportion"
    live(cluster)
    yield "done"


def deployment_history(cluster):
    cluster.create(workload("Deployment", replicas=1, revisionHistoryLimit=1))
    for image in ("app:1", "app:2", "app:3", "app:4"):
        cluster.change("Deployment", "web", set_image(image))
        live(cluster)
    yield "one old set is left"


def deployment_past_its_deadline(cluster):
    cluster.create(workload("Deployment", replicas=1, progressDeadlineSeconds=30))
    cluster.settle()
    yield "progressing"
    cluster.advance(35)
    yield "too late"
    live(cluster)
    yield "in the end"


def replica_set_adopts_and_releases(cluster):
    orphan = workload("ReplicaSet")["spec"]["template"]
    cluster.create(
        {"apiVersion": "v1", "kind": "Pod", **orphan, "metadata": {**orphan["metadata"], "name": "orphan"}},
    )
    cluster.create(workload("ReplicaSet", replicas=2))
    live(cluster)
    yield "the orphan is one of two"
    cluster.change("Pod", "orphan", lambda obj: obj["metadata"].update(labels={"app": "other"}))
    live(cluster)
    yield "it is let go and replaced"


def stateful_set_in_order(cluster):
    cluster.create(workload("StatefulSet", replicas=3))
    yield "one pod"
    start(cluster)
    yield "the next"
    live(cluster)
    yield "all"
    cluster.scale("StatefulSet", "web", 1)
    yield "the last ends"
    cluster.finish_deletions()
    yield "then the one before"
    live(cluster)
    yield "done"


def stateful_set_rolled_out(cluster):
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    cluster.create(workload("StatefulSet", replicas=3, updateStrategy=strategy))
    live(cluster)
    cluster.change("StatefulSet", "web", set_image("app:2"))
    yield "the last ends"
    cluster.finish_deletions()
    yield "and is recreated"
    live(cluster)
    yield "down to the partition"
    cluster.change("StatefulSet", "web", lambda obj: obj["spec"]["updateStrategy"]["rollingUpdate"].update(partition=0))
    live(cluster)
    yield "all"


def stateful_set_in_parallel(cluster):
    strategy = {"type": "OnDelete"}
    cluster.create(workload("StatefulSet", replicas=3, podManagementPolicy="Parallel", updateStrategy=strategy))
    yield "all at once"
    live(cluster)
    cluster.change("StatefulSet", "web", set_image("app:2"))
    yield "none is replaced"
    cluster.delete("Pod", "web-1")
    live(cluster)
    yield "but the one that was deleted"
    cluster.scale("StatefulSet", "web", 0)
    live(cluster)
    yield "none"


def daemon_set_on_nodes(cluster):
    cluster.create(workload("DaemonSet"))
    live(cluster)
    yield "on one node"
    cluster.add_node("node-2")
    cluster.add_node("node-3", taints=[{"key": "only", "effect": "NoSchedule"}])
    live(cluster)
    yield "on those without a taint"
    cluster.change("Node", "node-2", lambda obj: obj["spec"].update(taints=[{"key": "off", "effect": "NoExecute"}]))
    live(cluster)
    yield "off the tainted one"


def daemon_set_rolled_out(cluster):
    for number in (2, 3, 4):
        cluster.add_node(f"node-{number}")
    cluster.create(workload("DaemonSet", updateStrategy={"rollingUpdate": {"maxUnavailable": 2}}))
    live(cluster)
    cluster.change("DaemonSet", "web", set_image("app:2"))
    yield "two end"
    cluster.finish_deletions()
    yield "and are recreated"
    live(cluster)
    yield "all"


def job_completed(cluster):
    cluster.create(workload("Job", "job", completions=3, parallelism=2))
    cluster.settle()
    start(cluster)
    yield "two run"
    _end_first(cluster, "Succeeded")
    yield "one is done"
    while _end_first(cluster, "Succeeded"):
        cluster.settle()
    yield "all"


def job_failed(cluster):
    cluster.create(workload("Job", "job", completions=2, parallelism=2, backoffLimit=0))
    cluster.settle()
    start(cluster)
    _end_first(cluster, "Failed")
    yield "the other one ends"
    cluster.finish_deletions()
    yield "failed"


def job_tries_again(cluster):
    cluster.create(workload("Job", "job", completions=1, backoffLimit=3))
    cluster.settle()
    start(cluster)
    _end_first(cluster, "Failed")
    yield "not at once"
    cluster.advance(12)
    yield "again"
    start(cluster)
    _end_first(cluster, "Succeeded")
    yield "done"


def job_suspended(cluster):
    cluster.create(workload("Job", "job", completions=2, parallelism=2, suspend=True))
    yield "no pods"
    cluster.change("Job", "job", lambda obj: obj["spec"].update(suspend=False))
    cluster.settle()
    start(cluster)
    yield "resumed"
    cluster.change("Job", "job", lambda obj: obj["spec"].update(suspend=True))
    yield "its pods end"
    cluster.finish_deletions()
    yield "suspended"


def job_with_indexes(cluster):
    cluster.create(workload("Job", "job", completions=4, parallelism=2, completionMode="Indexed"))
    cluster.settle()
    start(cluster)
    yield "the first two"
    while _end_first(cluster, "Succeeded"):
        cluster.settle()
        start(cluster)
        yield "one more"


def _end_first(cluster, phase):
    """End the first pod that runs; returns whether there was one."""

    def index(pod):
        return (pod["metadata"].get("annotations") or {}).get("batch.kubernetes.io/job-completion-index", "")

    pods = sorted((pod for pod in cluster.pods() if pod["status"]["phase"] == "Running"), key=index)
    if pods:
        cluster.set_pod(pods[0]["metadata"]["name"], phase=phase, ready=False)
    return bool(pods)


SCRIPTS = {
    script.__name__.replace("_", " "): script
    for script in (
        deployment_scaled,
        deployment_rolled_out,
        deployment_rolled_back,
        deployment_recreated,
        deployment_paused,
        deployment_scaled_while_rolled_out,
        deployment_history,
        deployment_past_its_deadline,
        replica_set_adopts_and_releases,
        stateful_set_in_order,
        stateful_set_rolled_out,
        stateful_set_in_parallel,
        daemon_set_on_nodes,
        daemon_set_rolled_out,
        job_completed,
        job_failed,
        job_tries_again,
        job_suspended,
        job_with_indexes,
    )
}


def moments(script, cluster):
    """What is seen at each of the script's moments, by its number and name."""
    cluster.add_node("node-1")
    found = {}
    for number, moment in enumerate(script(cluster), start=1):
        cluster.settle()
        found[f"{number}: {moment}"] = seen(cluster)
    return found
