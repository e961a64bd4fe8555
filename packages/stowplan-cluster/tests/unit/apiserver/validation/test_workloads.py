"""Validation of Deployments and similar kinds, and of Jobs."""

import pytest

TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "app:1"}]}}
SELECTOR = {"matchLabels": {"app": "web"}}
NO_MATCH = 'spec.template.metadata.labels: Invalid value: {"app":"db"}: `selector` does not match template `labels`'


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
CONTROLLER = {
    "apiVersion": "v1",
    "kind": "ReplicationController",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"template": TEMPLATE},
}
ONCE = TEMPLATE | {"spec": TEMPLATE["spec"] | {"restartPolicy": "Never"}}
JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "once", "namespace": "default", "uid": "u1"},
    "spec": {"template": ONCE},
}
ALL = (DEPLOYMENT, REPLICA_SET, STATEFUL_SET, DAEMON_SET, CONTROLLER, JOB)
STATEFUL_FIXED = (
    "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
    "'updateStrategy', 'revisionHistoryLimit', "
    "'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)


@pytest.mark.parametrize("obj", ALL, ids=lambda obj: obj["kind"])
def test_valid_objects(server, obj):
    assert server.refusals(obj) == []
    assert server.update_refusals(obj, "metadata.annotations", {"a": "b"}) == []


@pytest.mark.parametrize(
    ("obj", "kind"),
    [(DEPLOYMENT, "deployment"), (REPLICA_SET, "deployment"), (STATEFUL_SET, "statefulset"), (DAEMON_SET, "daemonset")],
    ids=lambda value: value if isinstance(value, str) else value["kind"],
)
def test_selectors_must_not_be_empty(server, obj, kind):
    assert server.refusals(obj, "spec.selector", {}) == [
        f"spec.selector: Invalid value: {{}}: empty selector is invalid for {kind}"
    ]


@pytest.mark.parametrize("obj", [DEPLOYMENT, REPLICA_SET, STATEFUL_SET], ids=lambda obj: obj["kind"])
def test_selectors_are_required(server, obj, absent):
    assert server.refusals(obj, "spec.selector", absent) == [
        "spec.selector: Required value",
        'spec.template.metadata.labels: Invalid value: {"app":"web"}: `selector` does not match template `labels`',
    ]


@pytest.mark.parametrize("obj", [DEPLOYMENT, REPLICA_SET, STATEFUL_SET, DAEMON_SET], ids=lambda obj: obj["kind"])
def test_selectors_must_match_the_template(server, obj):
    assert server.refusals(obj, "spec.template.metadata.labels", {"app": "db"}) == [NO_MATCH]


@pytest.mark.parametrize("obj", [DEPLOYMENT, REPLICA_SET, DAEMON_SET], ids=lambda obj: obj["kind"])
def test_selectors_are_immutable(server, obj):
    other = {"app": "db"}
    errors = server.update_refusals(obj, "spec.selector.matchLabels", other, "spec.template.metadata.labels", other)
    assert errors == ['spec.selector: Invalid value: {"matchLabels":{"app":"db"}}: field is immutable']


@pytest.mark.parametrize("obj", ALL[:5], ids=lambda obj: obj["kind"])
def test_restart_policy_must_be_always(server, obj):
    assert server.refusals(obj, "spec.template.spec.restartPolicy", "Never") == [
        'spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"'
    ]


@pytest.mark.parametrize("obj", ALL[:3], ids=lambda obj: obj["kind"])
def test_replicas_must_not_be_negative(server, obj):
    assert server.refusals(obj, "spec.replicas", -1) == [
        "spec.replicas: Invalid value: -1: must be greater than or equal to 0"
    ]


@pytest.mark.parametrize(
    ("obj", "path", "value", "expected"),
    [
        pytest.param(
            DEPLOYMENT,
            "spec.strategy",
            {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}},
            "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0",
            id="neither surge nor unavailable",
        ),
        pytest.param(
            DEPLOYMENT,
            "spec.strategy",
            {"type": "Recreate", "rollingUpdate": {}},
            "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'",
            id="both strategies",
        ),
        pytest.param(
            DEPLOYMENT,
            "spec.progressDeadlineSeconds",
            0,
            "spec.progressDeadlineSeconds: Invalid value: 0: must be greater than minReadySeconds",
            id="deadline",
        ),
        pytest.param(
            DAEMON_SET,
            "spec.updateStrategy",
            {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}},
            "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: "
            "may not be set when maxUnavailable is non-zero",
            id="surge and lack",
        ),
        pytest.param(
            STATEFUL_SET,
            "spec.podManagementPolicy",
            "Random",
            "spec.podManagementPolicy: Invalid value: \"Random\": must be 'OrderedReady' or 'Parallel'",
            id="pod management",
        ),
        pytest.param(
            CONTROLLER,
            "spec.selector",
            {"app": "db"},
            'spec.template.metadata.labels: Invalid value: {"app":"web"}: `selector` does not match template `labels`',
            id="controller of others",
        ),
        pytest.param(
            DEPLOYMENT,
            "spec.template.spec.containers",
            [],
            "spec.template.spec.containers: Required value",
            id="template without containers",
        ),
        pytest.param(
            JOB,
            "spec.template.spec.restartPolicy",
            "Always",
            'spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"',
            id="job that never ends",
        ),
        pytest.param(
            JOB,
            "spec.completions",
            -1,
            "spec.completions: Invalid value: -1: must be greater than or equal to 0",
            id="completions",
        ),
    ],
)
def test_single_errors(server, obj, path, value, expected):
    assert server.refusals(obj, path, value) == [expected]


def test_pod_names_of_indexed_jobs(server):
    name = "j" * 62
    errors = server.refusals(JOB, "metadata.name", name, "spec.completionMode", "Indexed", "spec.completions", 10)
    assert (
        f'metadata.name: Invalid value: "{name}": will not able to create pod with invalid DNS label: {name}-9'
        in errors
    )


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


def test_selected_labels_of_jobs_are_immutable(server, absent):
    found = server.update_refusals(JOB, "spec.suspend", True, "spec.template.metadata.labels", absent)
    assert "spec.template.metadata.labels[job-name]: Required value: must be 'once'" in found
