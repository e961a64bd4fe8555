"""Validation of Deployments and similar kinds, and of Jobs."""

import pytest

from support.api.manifest_changes import GONE

TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "app:1"}]}}
SELECTOR = {"matchLabels": {"app": "web"}}


def workload(kind, **spec):
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": SELECTOR, "template": TEMPLATE} | spec,
    }


DEPLOYMENT, REPLICA_SET, STATEFUL_SET, DAEMON_SET = (
    workload(kind) for kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")
)
ONCE = TEMPLATE | {"spec": TEMPLATE["spec"] | {"restartPolicy": "Never"}}
JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "once", "namespace": "default", "uid": "u1"},
    "spec": {"template": ONCE},
}
STATEFUL_FIXED = (
    "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
    "'updateStrategy', 'revisionHistoryLimit', "
    "'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)


@pytest.mark.parametrize("obj", [DEPLOYMENT, REPLICA_SET, DAEMON_SET], ids=lambda obj: obj["kind"])
def test_selectors_are_immutable(server, obj):
    other = {"app": "db"}
    errors = server.update_refusals(obj, "spec.selector.matchLabels", other, "spec.template.metadata.labels", other)
    assert errors == ['spec.selector: Invalid value: {"matchLabels":{"app":"db"}}: field is immutable']


def test_volume_mounts_of_claim_templates(server):
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    mounts = [{"name": "data", "mountPath": "/data"}]
    path = "spec.template.spec.containers.0.volumeMounts"
    assert server.refusals(STATEFUL_SET, path, mounts, "spec.volumeClaimTemplates", [claim]) == []
    assert server.refusals(STATEFUL_SET, path, mounts) == [
        'spec.template.spec.containers[0].volumeMounts[0].name: Not found: "data"'
    ]


def test_most_of_a_stateful_set_is_immutable(server):
    assert server.update_refusals(STATEFUL_SET, "spec.replicas", 3) == []
    assert server.update_refusals(STATEFUL_SET, "spec.serviceName", "web") == [STATEFUL_FIXED]


@pytest.mark.parametrize(
    ("changes", "old", "expected"),
    [
        pytest.param(("spec.parallelism", 3), (), [], id="parallelism"),
        pytest.param(
            ("spec.completions", 3), (), ["spec.completions: Invalid value: 3: field is immutable"], id="completions"
        ),
        pytest.param(("spec.suspend", True), (), [], id="suspend"),
        pytest.param(
            ("spec.template.spec.nodeSelector", {"a": "b"}), ("spec.suspend", True), [], id="place while suspended"
        ),
        pytest.param(("spec.template.spec.nodeSelector", {"a": "b"}), (), None, id="place while running"),
        pytest.param(
            ("spec.completions", 3, "spec.parallelism", 3),
            ("spec.completionMode", "Indexed", "spec.completions", 2, "spec.parallelism", 2),
            [],
            id="elastic",
        ),
    ],
)
def test_changes_of_jobs(server, changes, old, expected):
    errors = server.update_refusals(JOB, *changes, old=old)
    if expected is None:
        assert len(errors) == 1
        assert errors[0].startswith("spec.template: Invalid value: ")
        assert errors[0].endswith(": field is immutable")
    else:
        assert errors == expected


def test_status_counts_must_be_consistent(server):
    status = {"replicas": 1, "readyReplicas": 2, "availableReplicas": 3}
    errors = server.update_refusals(REPLICA_SET, "status", status, subresource="status")
    assert errors == [
        "status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas",
        "status.availableReplicas: Invalid value: 3: cannot be greater than status.replicas",
        "status.availableReplicas: Invalid value: 3: cannot be greater than readyReplicas",
    ]


def test_selected_labels_of_jobs_are_immutable(server):
    found = server.update_refusals(JOB, "spec.suspend", True, "spec.template.metadata.labels", GONE)
    assert "spec.template.metadata.labels[job-name]: Required value: must be 'once'" in found
