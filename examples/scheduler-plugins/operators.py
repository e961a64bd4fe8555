"""The PodGroup and the pods that KubeRay, mpi-operator and Kubeflow Trainer make of their objects, as a List.

    python operators.py raycluster.yaml mpijob.yaml trainjob.yaml | kubectl apply -f -

As they do for scheduler-plugins: KubeRay with its batch scheduler `scheduler-plugins`, for RayClusters with the label
ray.io/gang-scheduling-enabled; mpi-operator with --gang-scheduling; Trainer with a runtime whose podGroupPolicy is
`coscheduling`, which stands beside its TrainJob in the file. Only what scheduling reads is made: no services, no
volumes, no environment.
"""

import json
import sys
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import yaml

from stowplan.plugins.objects import sum_text

LABEL = "scheduling.x-k8s.io/pod-group"
SCHEDULER = "scheduler-plugins-scheduler"
Json = Any


def objects_of(documents: list[Json], scheduler: str = SCHEDULER) -> list[Json]:
    runtimes = {one["metadata"]["name"]: one for one in documents if one["kind"] == "ClusterTrainingRuntime"}
    made: list[Json] = []
    for document in documents:
        if document["kind"] == "RayCluster":
            made += ray_cluster(document, scheduler)
        elif document["kind"] == "MPIJob":
            made += mpi_job(document, scheduler)
        elif document["kind"] == "TrainJob":
            made += train_job(document, runtimes[document["spec"]["runtimeRef"]["name"]])
    return made


def ray_cluster(cluster: Json, scheduler: str) -> list[Json]:
    spec, name = cluster["spec"], cluster["metadata"]["name"]
    templates = [(f"{name}-head", spec["headGroupSpec"]["template"], 1)]
    for workers in spec.get("workerGroupSpecs") or ():
        replicas = workers.get("replicas", 0) * workers.get("numOfHosts", 1)
        templates.append((f"{name}-{workers['groupName']}-worker", workers["template"], replicas))
    is_gang = "ray.io/gang-scheduling-enabled" in (cluster["metadata"].get("labels") or {})
    return _made(cluster, templates, scheduler, group={} if is_gang else None)


def mpi_job(job: Json, scheduler: str) -> list[Json]:
    replicas, name = job["spec"]["mpiReplicaSpecs"], job["metadata"]["name"]
    policy = (job["spec"].get("runPolicy") or {}).get("schedulingPolicy") or {}
    templates = [
        (f"{name}-{role.lower()}", of_role["template"], of_role.get("replicas", 1))
        for role, of_role in replicas.items()
    ]
    group = {
        "minMember": policy.get("minAvailable", replicas.get("Worker", {}).get("replicas", 0) + 1),
        # 0 stands for the time in the plugin's arguments.
        "scheduleTimeoutSeconds": policy.get("scheduleTimeoutSeconds", 0),
        **({"minResources": policy["minResources"]} if "minResources" in policy else {}),
    }
    return _made(job, templates, scheduler, group=group)


def train_job(job: Json, runtime: Json) -> list[Json]:
    """The scheduler is that of the runtime's templates."""
    spec, trainer = runtime["spec"], job["spec"].get("trainer") or {}
    coscheduling = (spec.get("podGroupPolicy") or {}).get("coscheduling")
    templates = []
    for replicated in spec["template"]["spec"]["replicatedJobs"]:
        inner, count = deepcopy(replicated["template"]["spec"]), replicated.get("replicas", 1)
        is_trainer = (
            replicated["template"]
            .get("metadata", {})
            .get("labels", {})
            .get("trainer.kubeflow.org/trainjob-ancestor-step")
            == "trainer"
        )
        if is_trainer:
            count *= trainer.get("numNodes", spec.get("mlPolicy", {}).get("numNodes", 1))
            inner["template"]["spec"]["containers"][0]["resources"] = trainer.get("resourcesPerNode", {})
        templates.append((f"{job['metadata']['name']}-{replicated['name']}", inner["template"], count))
    group = None if coscheduling is None else {"scheduleTimeoutSeconds": coscheduling.get("scheduleTimeoutSeconds", 60)}
    return _made(job, templates, "", group=group)


def _made(
    owner: Json, templates: list[tuple[str, Json, int]], scheduler: str, *, group: dict[str, Json] | None
) -> list[Json]:
    """`group`: what differs from a group of all pods and their requests; None: no group."""
    name, namespace = owner["metadata"]["name"], owner["metadata"].get("namespace", "default")
    pods = []
    for prefix, template, count in templates:
        for number in range(count):
            metadata = {"name": f"{prefix}-{number}", "namespace": namespace, "labels": {}}
            metadata["labels"] |= (template.get("metadata") or {}).get("labels") or {}
            if group is not None:
                metadata["labels"][LABEL] = name
            spec = {**deepcopy(template["spec"]), **({"schedulerName": scheduler} if scheduler else {})}
            pods.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    if group is None:
        return pods
    needed = {"minMember": len(pods), "minResources": _requests(pods), **group}
    metadata = {"name": name, "namespace": namespace}
    made = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": metadata, "spec": needed}
    return [made, *pods]


def _requests(pods: list[Json]) -> dict[str, str]:
    """A container without requests has its limits for them."""
    listed: dict[str, list[str]] = {}
    for pod in pods:
        for container in pod["spec"]["containers"]:
            resources = container.get("resources") or {}
            for name, amount in {**(resources.get("limits") or {}), **(resources.get("requests") or {})}.items():
                listed.setdefault(name, []).append(str(amount))
    return {name: sum_text(amounts) for name, amounts in listed.items()}


def documents_of(paths: list[str]) -> Iterator[Json]:
    for path in paths:
        with open(path, encoding="utf-8") as file:
            yield from (document for document in yaml.safe_load_all(file) if document)


if __name__ == "__main__":
    items = objects_of(list(documents_of(sys.argv[1:])))
    json.dump({"apiVersion": "v1", "kind": "List", "items": items}, sys.stdout, indent=2)
