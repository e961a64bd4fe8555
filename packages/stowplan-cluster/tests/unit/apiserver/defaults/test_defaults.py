"""Defaults per kind."""

import copy

import pytest

from stowplan.kube.api.container_totals import container_totals, qos_class
from stowplan_cluster.apiserver.defaults import apply_defaults
from stowplan_cluster.apiserver.defaults.pods import pull_policy, whole_millis
from stowplan_cluster.apiserver.resources import BUILT_IN, Catalogue

CATALOGUE = Catalogue(BUILT_IN)


def defaulted(api_version, kind, **fields):
    obj = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, **copy.deepcopy(fields)}
    apply_defaults(CATALOGUE.of_kind(api_version, kind), obj)
    once = copy.deepcopy(obj)
    apply_defaults(CATALOGUE.of_kind(api_version, kind), obj)
    assert obj == once
    return obj


def pod_spec(*containers, **fields):
    return defaulted("v1", "Pod", spec={"containers": list(containers), **fields})["spec"]


def container(**fields):
    return {"name": "c", "image": "app:1"} | fields


class TestPods:
    def test_a_bare_pod(self):
        assert pod_spec(container()) == {
            "containers": [
                {
                    "name": "c",
                    "image": "app:1",
                    "imagePullPolicy": "IfNotPresent",
                    "terminationMessagePath": "/dev/termination-log",
                    "terminationMessagePolicy": "File",
                    "resources": {},
                }
            ],
            "restartPolicy": "Always",
            "dnsPolicy": "ClusterFirst",
            "schedulerName": "default-scheduler",
            "terminationGracePeriodSeconds": 30,
            "securityContext": {},
            "enableServiceLinks": True,
        }

    @pytest.mark.parametrize(
        ("image", "policy"),
        [
            ("app", "Always"),
            ("app:latest", "Always"),
            ("app:1", "IfNotPresent"),
            ("registry:5000/app", "Always"),
            ("registry:5000/app:1", "IfNotPresent"),
            ("app@sha256:0", "IfNotPresent"),
            ("app:latest@sha256:0", "Always"),
            ("", "IfNotPresent"),
        ],
    )
    def test_image_pull_policy_depends_on_the_tag(self, image, policy):
        assert pull_policy(image) == policy

    def test_requests_from_limits(self):
        resources = {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}
        spec = pod_spec(container(resources=resources))
        assert spec["containers"][0]["resources"]["requests"] == {"cpu": "1", "memory": "1Gi"}

    def test_templates_get_no_requests_from_limits(self):
        template = {"spec": {"containers": [container(resources={"limits": {"cpu": "1"}})]}}
        spec = defaulted("apps/v1", "ReplicaSet", spec={"template": template})["spec"]["template"]["spec"]
        assert spec["containers"][0]["resources"] == {"limits": {"cpu": "1"}}
        assert "enableServiceLinks" not in spec

    def test_ports_with_host_network(self):
        ports = [{"containerPort": 80}]
        assert pod_spec(container(ports=ports))["containers"][0]["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
        spec = pod_spec(container(ports=ports), hostNetwork=True)
        assert spec["containers"][0]["ports"] == [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]

    def test_probes(self):
        probe = pod_spec(container(livenessProbe={"httpGet": {"port": 80}}))["containers"][0]["livenessProbe"]
        assert probe == {
            "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
            "timeoutSeconds": 1,
            "periodSeconds": 10,
            "successThreshold": 1,
            "failureThreshold": 3,
        }

    def test_references(self):
        env = [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
        assert pod_spec(container(env=env))["containers"][0]["env"][0]["valueFrom"]["fieldRef"]["apiVersion"] == "v1"

    @pytest.mark.parametrize(
        ("volume", "expected"),
        [
            ({}, {"emptyDir": {}}),
            ({"secret": {"secretName": "s"}}, {"secret": {"secretName": "s", "defaultMode": 420}}),
            ({"hostPath": {"path": "/x"}}, {"hostPath": {"path": "/x", "type": ""}}),
            (
                {"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
                {
                    "projected": {
                        "sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}],
                        "defaultMode": 420,
                    }
                },
            ),
            (
                {"ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
                {"ephemeral": {"volumeClaimTemplate": {"spec": {"volumeMode": "Filesystem", "resources": {}}}}},
            ),
        ],
        ids=lambda volume: next(iter(volume), "none"),
    )
    def test_volumes(self, volume, expected):
        assert pod_spec(container(), volumes=[{"name": "v"} | volume])["volumes"] == [{"name": "v"} | expected]

    def test_both_service_account_fields(self):
        assert pod_spec(container(), serviceAccount="a")["serviceAccountName"] == "a"
        assert pod_spec(container(), serviceAccountName="a")["serviceAccount"] == "a"

    def test_pod_level_requests_follow_containers_and_limits(self):
        asked = container(resources={"requests": {"cpu": "500m"}})
        spec = pod_spec(asked, resources={"limits": {"cpu": "2", "memory": "2Gi"}})
        assert spec["resources"] == {
            "limits": {"cpu": "2", "memory": "2Gi"},
            "requests": {"cpu": "500m", "memory": "2Gi"},
        }


@pytest.mark.parametrize(
    ("given", "kept"),
    [("1", "1"), ("500m", "500m"), ("1Gi", "1Gi"), ("1n", "1m"), ("1500001u", "1501m"), ("-1u", "-1m"), ("1e3", "1e3")],
)
def test_quantities_are_rounded_up_to_milli_units(given, kept):
    assert whole_millis(given) == kept
    assert whole_millis(kept) == kept


class TestWorkloads:
    def test_deployment(self):
        spec = defaulted("apps/v1", "Deployment", spec={"template": {"spec": {"containers": []}}})["spec"]
        assert spec["replicas"] == 1
        assert spec["revisionHistoryLimit"] == 10
        assert spec["progressDeadlineSeconds"] == 600
        assert spec["strategy"] == {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
        }
        assert spec["template"]["spec"]["restartPolicy"] == "Always"

    def test_zero_replicas_are_kept(self):
        assert defaulted("apps/v1", "Deployment", spec={"replicas": 0})["spec"]["replicas"] == 0

    def test_daemon_set(self):
        spec = defaulted("apps/v1", "DaemonSet", spec={})["spec"]
        assert spec["updateStrategy"] == {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0},
        }

    def test_stateful_set(self):
        spec = defaulted("apps/v1", "StatefulSet", spec={})["spec"]
        assert spec["podManagementPolicy"] == "OrderedReady"
        assert spec["updateStrategy"] == {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
        assert spec["persistentVolumeClaimRetentionPolicy"] == {"whenDeleted": "Retain", "whenScaled": "Retain"}

    def test_replication_controllers_default_to_their_templates_labels(self):
        template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": []}}
        controller = defaulted("v1", "ReplicationController", spec={"template": template})
        assert controller["spec"]["selector"] == controller["metadata"]["labels"] == {"a": "b"}

    def test_job(self):
        spec = defaulted("batch/v1", "Job", spec={"template": {}})["spec"]
        expected = {
            "completions": 1,
            "parallelism": 1,
            "backoffLimit": 6,
            "completionMode": "NonIndexed",
            "suspend": False,
            "podReplacementPolicy": "TerminatingOrFailed",
            "manualSelector": False,
        }
        assert {name: spec[name] for name in expected} == expected

    def test_a_work_queue_job_has_no_completions(self):
        assert "completions" not in defaulted("batch/v1", "Job", spec={"parallelism": 3})["spec"]


def test_service():
    spec = defaulted("v1", "Service", spec={"ports": [{"port": 80}]})["spec"]
    assert spec == {
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
        "sessionAffinity": "None",
        "type": "ClusterIP",
        "internalTrafficPolicy": "Cluster",
    }


def test_service_with_session_affinity():
    spec = defaulted("v1", "Service", spec={"sessionAffinity": "ClientIP"})["spec"]
    assert spec["sessionAffinityConfig"] == {"clientIP": {"timeoutSeconds": 10800}}


@pytest.mark.parametrize(
    ("api_version", "kind", "fields", "expected"),
    [
        (
            "v1",
            "Namespace",
            {},
            {"metadata": {"name": "x", "labels": {"kubernetes.io/metadata.name": "x"}}, "status": {"phase": "Active"}},
        ),
        ("v1", "Secret", {"stringData": {"a": "b"}}, {"type": "Opaque", "data": {"a": "Yg=="}}),
        (
            "v1",
            "Node",
            {"status": {"capacity": {"cpu": "4"}}},
            {"status": {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "4"}}},
        ),
        (
            "v1",
            "PersistentVolume",
            {"spec": {}},
            {"spec": {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"}},
        ),
        (
            "storage.k8s.io/v1",
            "StorageClass",
            {},
            {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
        ),
        ("scheduling.k8s.io/v1", "PriorityClass", {}, {"preemptionPolicy": "PreemptLowerPriority"}),
        ("scheduling.k8s.io/v1alpha2", "PodGroup", {}, {"spec": {"disruptionMode": "Pod"}}),
        (
            "rbac.authorization.k8s.io/v1",
            "RoleBinding",
            {"roleRef": {}, "subjects": [{"kind": "User"}, {"kind": "ServiceAccount"}]},
            {
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io"},
                "subjects": [
                    {"kind": "User", "apiGroup": "rbac.authorization.k8s.io"},
                    {"kind": "ServiceAccount"},
                ],
            },
        ),
        (
            "resource.k8s.io/v1",
            "ResourceClaim",
            {"spec": {"devices": {"requests": [{"exactly": {}}]}}},
            {"spec": {"devices": {"requests": [{"exactly": {"allocationMode": "ExactCount", "count": 1}}]}}},
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_other_kinds(api_version, kind, fields, expected):
    obj = defaulted(api_version, kind, **fields)
    assert {name: obj[name] for name in expected} == expected


def test_custom_resource_definition():
    names = {"plural": "queues", "kind": "Queue"}
    versions = [{"name": "v1", "storage": True}]
    obj = defaulted("apiextensions.k8s.io/v1", "CustomResourceDefinition", spec={"names": names, "versions": versions})
    assert obj["spec"]["names"] == names | {"singular": "queue", "listKind": "QueueList"}
    assert obj["spec"]["conversion"] == {"strategy": "None"}
    assert obj["status"]["storedVersions"] == ["v1"]


NANO = 10**9


def of(cpu=None, memory=None, *, limits=None, **fields):
    requests = {name: value for name, value in (("cpu", cpu), ("memory", memory)) if value}
    return container(resources={"requests": requests, "limits": limits or {}}, **fields)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"containers": [of()]}, "BestEffort"),
        ({"containers": [of("1")]}, "Burstable"),
        ({"containers": [of("1", "1Gi", limits={"cpu": "1", "memory": "1Gi"})]}, "Guaranteed"),
        ({"containers": [of("1", "1Gi", limits={"cpu": "1", "memory": "1Gi"}), of()]}, "Burstable"),
        ({"containers": [of("1", limits={"cpu": "1"})]}, "Burstable"),
        (
            {"containers": [of()], "resources": {k: {"cpu": "1", "memory": "1Gi"} for k in ("requests", "limits")}},
            "Guaranteed",
        ),
    ],
)
def test_qos_classes(spec, expected):
    assert qos_class(spec) == expected


def test_sidecars_add_up_and_other_init_containers_raise_the_floor():
    spec = {
        "containers": [of("1")],
        "initContainers": [of("3"), of("500m", restartPolicy="Always"), of("1")],
    }
    assert container_totals(spec, "requests") == {"cpu": 3 * NANO}
    spec["initContainers"].append(of("2900m"))
    assert container_totals(spec, "requests") == {"cpu": 3400 * NANO // 1000}
