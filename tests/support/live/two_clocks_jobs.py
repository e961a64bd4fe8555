"""Jobs and CronJobs whose pods end, fail and restart: a simulation and the embedded cluster, in step.

    agree_on_jobs({"kind": "Job", "spec": spec}, [(100, {"parallelism": 2})], Runs(lifetime=30, failing=2))
    agree_on_jobs({"kind": "CronJob", "spec": spec}, [], Runs(lifetime=30), folder=tmp_path)  # of the initial cluster

Workload `j` is patched at these times. Compared are the numbers and outcomes of Jobs, and the pods that have not
ended, whenever something has happened. Not compared are the names of pods, which the API server makes up.
"""

from __future__ import annotations

from collections import Counter
from math import floor, inf
from typing import Any, NamedTuple

from stowplan.kube.api.merge_patches import merge_patched
from stowplan.kube.api.meta import parse_timestamp, timestamp
from stowplan.kube.api.pod import FINISHED
from stowplan.kube.api.types import Pod
from stowplan_cluster.controllers.cleanup.garbage_collector import GarbageCollector
from stowplan_cluster.controllers.controller_manager import workload_controllers
from stowplan_cluster.controllers.kubelet.kubelet import Kubelet
from stowplan_cluster.reconcile.jobs import COMPLETION_INDEX
from stowplan_cluster.reconcile.kubelet import Containers
from stowplan_lab.simulation.workloads.cron_jobs import CronJobController
from support.live.controller_cluster import START
from support.live.stepped import SteppedCluster, SteppedSimulation
from support.scenarios.manifests import container, group, scenario

#: Seconds until a pod runs; nothing else takes as long.
STARTUP = 101
#: What happens within this time is one moment: a CronJob acts a tenth of a second late, and timestamps are whole
#: seconds.
MOMENT = 0.5
#: Seconds after the last change.
QUIET = 2500


class Runs(NamedTuple):
    """How the pods of each Job run."""

    lifetime: int
    #: Runs that fail, of each Job or index.
    failing: int = 0
    #: How long these last.
    after: int = 0

    def fields(self):
        failures = {"failures": {"times": self.failing, "after": self.after}} if self.failing else {}
        return {"lifetime": self.lifetime, **failures}


class SeenPod(NamedTuple):
    job: str
    completion_index: str
    #: Whole seconds from the start.
    created: int
    phase: str
    ready: bool
    restarts: int
    terminating: bool


class SeenJob(NamedTuple):
    outcome: str
    succeeded: int
    failed: int


class Embedded(SteppedCluster):
    def __init__(self, manifest, runs, termination):
        containers = Containers(start_after=STARTUP, run_for=runs.lifetime, stop_after=termination)
        super().__init__(
            lambda registry: [
                *workload_controllers(registry),
                Kubelet(registry, containers),
                GarbageCollector(registry),
            ]
        )
        self._runs = runs
        #: Job and index -> runs that fail and have a pod; name of a pod -> how many of its runs fail.
        self._failed: Counter[tuple[str, str]] = Counter()
        self._failing: dict[str, int] = {}
        self.add_node("node-1")
        self.create(named(manifest))
        self.settle()

    def patch(self, kind, spec):
        if not self.all(kind):
            # Its time to live is over.
            return
        self.change(kind, "j", lambda obj: obj.update(merge_patched(obj, {"spec": spec})))
        self.settle()

    def settle(self):
        """Until there is nothing to do at this time: the kubelet runs what is bound, once it is known how it ends."""
        busy = True
        while busy:
            super().settle()
            busy = False
            for pod in sorted(self.read("Pod"), key=lambda pod: int(pod["metadata"]["resourceVersion"])):
                name, terminating = pod["metadata"]["name"], "deletionTimestamp" in pod["metadata"]
                if not pod["spec"].get("nodeName") and not terminating:
                    self._failing[name] = self._draw(pod)
                    self._annotate(name)
                    self.bind(name, "node-1")
                    busy = True
                elif self._failing.get(name) and restarts_of(pod) >= self._failing[name]:
                    self._failing[name] = 0
                    self._annotate(name)
                    busy = True

    def _draw(self, pod):
        """As `workloads.runs`."""
        of, left = (owner_of(pod), index_of(pod)), self._runs.failing
        most = 1 if pod["spec"]["restartPolicy"] == "Never" else left
        number = min(most, left - self._failed[of])
        self._failed[of] += number
        return number

    def _annotate(self, name):
        about = {"stowplan.io/run-for": f"{self._runs.lifetime}s", "stowplan.io/exit-code": "0"}
        if self._failing[name]:
            about = {"stowplan.io/run-for": f"{self._runs.after}s", "stowplan.io/exit-code": "1"}
        self.change("Pod", name, lambda pod: pod["metadata"].setdefault("annotations", {}).update(about))

    def seen_pods(self):
        def one(pod):
            ready = any(one["type"] == "Ready" and one["status"] == "True" for one in pod["status"]["conditions"])
            created = parse_timestamp(pod["metadata"]["creationTimestamp"]) - START
            terminating = "deletionTimestamp" in pod["metadata"]
            phase = pod["status"]["phase"]
            return SeenPod(owner_of(pod), index_of(pod), floor(created), phase, ready, restarts_of(pod), terminating)

        return Counter(one(pod) for pod in self.read("Pod") if pod["status"]["phase"] not in FINISHED)

    def seen_jobs(self):
        def one(status):
            final = (one for one in status.get("conditions") or () if one["type"] in ("Complete", "Failed"))
            outcome = next((one["reason"] for one in final if one["status"] == "True"), "")
            return SeenJob(outcome, status.get("succeeded", 0), status.get("failed", 0))

        return {job["metadata"]["name"]: one(job.get("status") or {}) for job in self.all("Job")}


class Simulated(SteppedSimulation):
    def __init__(self, manifest, changes, runs, termination, folder):
        workload = {"name": "j", "manifest": manifest, **runs.fields()}
        made = scenario(
            *([] if folder else [workload]),
            groups=[group("node", count=1, cpu=100, labels={})],
            events=[{"at": at, "patch": {"workload": "j", "spec": spec}} for at, spec in changes],
            duration=changes[-1][0] + QUIET if changes else QUIET,
            start=timestamp(START),
            models={"startup": STARTUP, "termination": termination, "controllerDelay": 0},
        )
        if folder:
            made["cluster"]["cronJobLifetime"] = runs.lifetime
        super().__init__(made, [named(manifest)] if folder else [], folder)
        self.go_on(0.0)
        (self._controller,) = self._simulation.existing.cron_jobs if folder else self._simulation.controllers["j"]

    def seen_pods(self):
        def one(pod):
            metadata, entry = pod.metadata, self._context.ledger.of(pod.metadata.uid)
            reported = self._context.reported(metadata.name, metadata.uid)
            return SeenPod(
                metadata.owner_references[0].name,
                metadata.labels.get(COMPLETION_INDEX, ""),
                floor(entry.arrived - START + 1e-5),
                reported.phase,
                reported.ready,
                entry.restarts,
                metadata.deletion_timestamp is not None,
            )

        return Counter(one(pod) for pod in self._context.store.list(Pod))

    def seen_jobs(self):
        controller = self._controller
        if isinstance(controller, CronJobController):
            jobs = controller.jobs
        else:
            jobs = {} if controller.deleted else {"j": controller}

        def one(job):
            progress = job.progress
            outcome = progress.verdict.reason if job.finished_at is not None else ""
            return SeenJob(outcome, progress.succeeded, progress.failed)

        return {name: one(job) for name, job in jobs.items()}


def named(manifest):
    return {"apiVersion": "batch/v1", "metadata": {"name": "j", "namespace": "default"}, **manifest}


def owner_of(pod):
    return pod["metadata"]["ownerReferences"][0]["name"]


def index_of(pod):
    return pod["metadata"].get("labels", {}).get(COMPLETION_INDEX, "")


def restarts_of(pod):
    return sum(one["restartCount"] for one in pod["status"].get("containerStatuses") or ())


def job_template(*, policy="Never", **spec):
    template = {
        "metadata": {"labels": {"app": "j"}},
        "spec": {"containers": [container("100m")], "restartPolicy": policy},
    }
    return {"spec": {"template": template, **spec}}


def agree_on_jobs(manifest, changes, runs, *, termination=0, folder=None):
    """`folder`: for files, if the CronJob is to be one of the simulation's initial cluster."""
    simulated = Simulated(manifest, changes, runs, termination, folder)
    embedded = Embedded(manifest, runs, termination)
    end = (changes[-1][0] if changes else 0) + QUIET - 100
    left, at, before = list(changes), 0.0, None
    while at < end:
        change = left[0][0] if left else inf
        at = min(simulated.next, embedded.next, change, end)
        if at <= change <= at + MOMENT:
            # The simulation does this itself.
            at = change
            embedded.go_on(at)
            embedded.patch(manifest["kind"], left.pop(0)[1])
        simulated.go_on(at + MOMENT)
        embedded.go_on(at + MOMENT)
        found: dict[str, Any] = {"jobs": embedded.seen_jobs(), "pods": embedded.seen_pods()}
        wanted = {"jobs": simulated.seen_jobs(), "pods": simulated.seen_pods()}
        if (found, wanted) != before:
            assert found == wanted, f"{at} seconds from the start"
            before = found, wanted
