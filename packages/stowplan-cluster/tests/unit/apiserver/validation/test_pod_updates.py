"""Updates of pods through the main resource, the status and the subresources of the spec."""

import pytest

from stowplan.testing import a_pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
FIXED = (
    "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing "
    "tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n"
)
TERMS = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"
KEPT = {"key": "a", "operator": "Exists", "effect": "NoExecute"}


def in_zone(*zones, more=()):
    expressions = [{"key": "zone", "operator": "In", "values": list(zones)}, *more]
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}}


@pytest.fixture
def pod():
    return a_pod("web").requests(cpu="500m", memory="1Gi").limits(cpu="1", memory="1Gi").obj()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        pytest.param("spec.containers.0.image", "app:2", id="image"),
        pytest.param("spec.activeDeadlineSeconds", 60, id="deadline"),
        pytest.param("spec.tolerations", [KEPT], id="toleration added"),
        pytest.param("metadata.labels", {"a": "b"}, id="labels"),
        pytest.param("metadata.annotations", {"a": "b"}, id="annotations"),
    ],
)
def test_mutable_fields(server, pod, path, value):
    assert server.update_refusals(pod, path, value) == []


@pytest.mark.parametrize(
    ("path", "value", "difference"),
    [
        pytest.param("spec.nodeName", "n1", '  nodeName: -null +"n1"', id="node"),
        pytest.param("spec.priority", 7, "  priority: -null +7", id="priority"),
        pytest.param("spec.schedulerName", "other", '  schedulerName: -"default-scheduler" +"other"', id="scheduler"),
        pytest.param(
            "spec.containers.0.resources.requests.cpu",
            "600m",
            '  containers[0].resources.requests.cpu: -"500m" +"600m"',
            id="resources",
        ),
        pytest.param("spec.nodeSelector", {"a": "b"}, '  nodeSelector: -null +{"a":"b"}', id="node selector"),
        pytest.param("spec.terminationGracePeriodSeconds", 1, "  terminationGracePeriodSeconds: -30 +1", id="grace"),
    ],
)
def test_immutable_fields(server, pod, path, value, difference):
    assert server.update_refusals(pod, path, value) == [FIXED + difference]


def test_equal_quantities_are_no_change(server, pod):
    assert server.update_refusals(pod, "spec.containers.0.resources.limits.cpu", "1000m") == []


def test_the_number_of_containers_is_immutable(server, pod):
    more = [*pod["spec"]["containers"], {"name": "b", "image": "b"}]
    assert server.update_refusals(pod, "spec.containers", more) == [
        "spec.containers: Forbidden: pod updates may not add or remove containers"
    ]


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        (60, 30, None),
        (60, 90, "Invalid value: 90: must be less than or equal to previous value"),
        (60, None, "Invalid value: null: must not update from a positive integer to nil value"),
    ],
)
def test_deadlines_may_only_decrease(server, pod, old, new, complaint):
    path = "spec.activeDeadlineSeconds"
    errors = server.update_refusals(pod, path, new, old=(path, old))
    assert errors == ([f"{path}: {complaint}"] if complaint else [])


@pytest.mark.parametrize(
    ("new", "good"),
    [
        pytest.param([KEPT | {"tolerationSeconds": 3}], True, id="seconds"),
        pytest.param([KEPT, {"key": "b", "operator": "Exists"}], True, id="added"),
        pytest.param([], False, id="removed"),
        pytest.param([KEPT | {"key": "b"}], False, id="changed"),
    ],
)
def test_tolerations_may_only_be_added(server, pod, new, good):
    errors = server.update_refusals(pod, "spec.tolerations", new, old=("spec.tolerations", [KEPT]))
    detail = "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"
    assert errors == ([] if good else [detail])


def test_gates_may_only_be_removed(server, pod):
    old = ("spec.schedulingGates", [{"name": "a"}, {"name": "b"}])
    assert server.update_refusals(pod, "spec.schedulingGates", [{"name": "b"}], old=old) == []
    assert server.update_refusals(pod, "spec.schedulingGates", [], old=old) == []
    assert server.update_refusals(pod, "spec.schedulingGates", [{"name": "c"}], old=old) == [
        "spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'c'"
    ]


GATED = ("spec.schedulingGates", [{"name": "a"}])


@pytest.mark.parametrize(
    ("field", "old", "new", "complaint"),
    [
        pytest.param("nodeSelector", {"a": "b"}, {"a": "b", "c": "d"}, None, id="selector narrowed"),
        pytest.param(
            "nodeSelector",
            {"a": "b"},
            {"c": "d"},
            'spec.nodeSelector: Invalid value: {"c":"d"}: '
            "only additions to spec.nodeSelector are allowed (no mutations or deletions)",
            id="selector changed",
        ),
        pytest.param("affinity", None, in_zone("x"), None, id="affinity added"),
        pytest.param(
            "affinity",
            in_zone("x"),
            in_zone("x", more=[{"key": "disk", "operator": "Exists"}]),
            None,
            id="term narrowed",
        ),
        pytest.param(
            "affinity",
            in_zone("x"),
            in_zone("y"),
            f'{TERMS}[0]: Invalid value: {{"matchExpressions":[{{"key":"zone","operator":"In","values":["y"]}}]}}: '
            "only additions are allowed (no mutations or deletions)",
            id="term changed",
        ),
        pytest.param(
            "affinity",
            in_zone("x"),
            {"podAffinity": {}},
            f"{TERMS}: Invalid value: null: no additions/deletions to non-empty NodeSelectorTerms list are allowed",
            id="terms removed",
        ),
    ],
)
def test_a_gated_pod_may_be_narrowed(server, pod, field, old, new, complaint):
    path = f"spec.{field}"
    errors = server.update_refusals(pod, path, new, old=(*GATED, path, old) if old else GATED)
    assert errors == ([complaint] if complaint else [])


class TestStatus:
    def refusals(self, server, pod, *changes, old=()):
        return server.update_refusals(pod, *changes, subresource="status", old=old)

    def test_spec_and_owners_are_not_changed(self, server, pod):
        assert self.refusals(server, pod, "spec.nodeName", "n1", "status.phase", "Running") == []

    @pytest.mark.parametrize(
        ("path", "value", "expected"),
        [
            pytest.param("status.nominatedNodeName", "n1", [], id="nomination"),
            pytest.param("status.nominatedNodeName", "N", None, id="bad nomination"),
            pytest.param("status.conditions", [{"type": "PodScheduled", "status": "False"}], [], id="condition"),
            pytest.param("status.conditions", [{"type": "a b", "status": "False"}], None, id="bad condition"),
            pytest.param(
                "status.qosClass",
                "Guaranteed",
                ['status.qosClass: Invalid value: "Guaranteed": field is immutable'],
                id="qos class",
            ),
            pytest.param(
                "status.podIPs",
                [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}],
                [
                    'status.podIPs: Invalid value: [{"ip":"10.0.0.1"},{"ip":"10.0.0.2"}]: '
                    "may specify no more than one IP for each IP family"
                ],
                id="two addresses of a family",
            ),
            pytest.param("status.podIPs", [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}], [], id="dual stack"),
            pytest.param(
                "status.podIPs",
                [{"ip": "010.0.0.1"}],
                ['status.podIPs[0]: Invalid value: "010.0.0.1": must not have leading 0s'],
                id="leading zeros",
            ),
        ],
    )
    def test_fields(self, server, pod, path, value, expected):
        errors = self.refusals(server, pod, path, value)
        assert len(errors) == 1 if expected is None else errors == expected

    def test_a_bound_pod_is_not_nominated(self, server, pod):
        errors = self.refusals(server, pod, "status.nominatedNodeName", "n2", old=("spec.nodeName", "n1"))
        assert errors == [
            "status.nominatedNodeName: Forbidden: may not be set on pods that are already bound to a node"
        ]

    def test_a_terminal_phase_is_final(self, server, pod):
        ended, running = {"terminated": {"exitCode": 0}}, {"running": {}}
        old = ("spec.restartPolicy", "Never", "status.containerStatuses", [{"name": "main", "state": ended}])
        errors = self.refusals(server, pod, "status.containerStatuses", [{"name": "main", "state": running}], old=old)
        assert errors == [
            "status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state"
        ]


class TestResize:
    def refusals(self, server, pod, *changes):
        return server.update_refusals(pod, *changes, subresource="resize")

    def test_resources_may_change(self, server, pod):
        path = "spec.containers.0.resources.requests.cpu"
        assert self.refusals(server, pod, path, "600m") == []

    def test_other_fields_are_unchanged(self, server, pod):
        assert self.refusals(server, pod, "spec.nodeName", "n1") == []

    def test_the_qos_class_is_immutable(self, server, pod):
        errors = self.refusals(server, pod, "spec.containers.0.resources.requests.cpu", "1")
        assert errors == ['spec: Invalid value: "Burstable": Pod QOS Class may not change as a result of resizing']

    def test_resources_cannot_be_removed(self, server, pod):
        errors = self.refusals(server, pod, "spec.containers.0.resources.limits", {"memory": "1Gi"})
        assert errors == ["spec.containers[0].resources.limits: Forbidden: resource limits cannot be removed"]

    def test_containers_keep_their_names(self, server, pod):
        assert self.refusals(server, pod, "spec.containers.0.name", "other") == [
            "spec.containers[0].name: Forbidden: containers may not be renamed or reordered on resize"
        ]


def test_ephemeral_containers_may_only_be_added(server, pod):
    path, one = "spec.ephemeralContainers", {"name": "debug", "image": "shell"}
    stored = server.update_refusals(pod, path, [one], subresource="ephemeralcontainers")
    assert stored == []
    old, new = (a_pod("web").obj() for _ in range(2))
    server.create(old)
    old["spec"]["ephemeralContainers"] = [one]
    errors = server.update(new, old, "ephemeralcontainers")
    assert errors == ['spec.ephemeralContainers: Forbidden: existing ephemeral containers "debug" may not be removed\n']
