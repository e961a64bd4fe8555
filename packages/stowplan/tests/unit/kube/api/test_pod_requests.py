"""Resource requests of pods: worked examples, and the rules for resizes and pod-level requests."""

import pytest

from stowplan.kube.api.decode import convert
from stowplan.kube.api.pod_requests import NON_ZERO_DEFAULTS, non_zero_requests, pod_requests, to_vector
from stowplan.kube.api.types import Pod
from stowplan.kube.kubernetes_versions import V1_36, V1_37

VERSIONS = (V1_36, V1_37)
Mi = 1024 * 1024
Gi = 1024 * Mi


def a_container(cpu=None, memory=None, *, name="", sidecar=False, **more):
    named = {"cpu": cpu, "memory": memory, **{key.replace("__", "/"): amount for key, amount in more.items()}}
    requests = {key: amount for key, amount in named.items() if amount is not None}
    container = {"name": name, "resources": {"requests": requests}}
    return {**container, "restartPolicy": "Always"} if sidecar else container


def a_pod(*containers, init=(), overhead=None, pod_level=None, status=None):
    spec = {"containers": list(containers), "initContainers": list(init)}
    if overhead:
        spec["overhead"] = overhead
    if pod_level:
        spec["resources"] = pod_level
    return convert({"spec": spec, "status": status or {}}, Pod)


def vector(pod, **options):
    return to_vector(pod_requests(pod, **options))


P1 = a_pod(
    a_container("500m", "256Mi"),
    a_container("250m"),
    init=(a_container("1", "128Mi"), a_container("100m", "64Mi", sidecar=True), a_container("800m", "512Mi")),
    overhead={"cpu": "50m", "memory": "16Mi"},
)
P2 = a_pod(a_container("500m", "1Gi"), a_container(), pod_level={"requests": {"cpu": "2"}})
P3 = a_pod(a_container(), a_container(), pod_level={"requests": {"cpu": "2"}})
P5 = a_pod(a_container(), a_container())
P6 = a_pod(a_container("20m", "32Mi"), init=(a_container(),))


@pytest.mark.parametrize(
    ("pod", "request_", "non_zero"),
    [
        pytest.param(P1, {"cpu": 1050, "memory": 592 * Mi}, (1050, 592 * Mi), id="P1 init, sidecar, overhead"),
        pytest.param(P2, {"cpu": 2000, "memory": Gi}, (2000, Gi + 0), id="P2 pod level"),
        pytest.param(P3, {"cpu": 2000}, (2000, 400 * Mi), id="P3 pod level, silent containers"),
        pytest.param(P5, {}, (200, 400 * Mi), id="P5 silent containers"),
        pytest.param(P6, {"cpu": 20, "memory": 32 * Mi}, (100, 200 * Mi), id="P6 silent init container"),
        pytest.param(a_pod(overhead={"cpu": "10m"}), {"cpu": 10}, (10, 0), id="no containers but overhead"),
        pytest.param(a_pod(a_container("0", "0")), {"cpu": 0, "memory": 0}, (0, 0), id="explicit zero stays"),
        pytest.param(a_pod(a_container("100u"), a_container("100u")), {"cpu": 1}, (1, 400 * Mi), id="rounded once"),
    ],
)
def test_worked_examples(pod, request_, non_zero):
    assert vector(pod) == request_
    assert [non_zero_requests(pod, resize_rules=version) for version in VERSIONS] == [non_zero] * 2


def test_p3_as_the_fit_scorer_sees_it():
    assert vector(P3, skip_pod_level=True, defaults=NON_ZERO_DEFAULTS) == {"cpu": 200, "memory": 400 * Mi}


INFEASIBLE = {"type": "PodResizePending", "status": "False", "reason": "Infeasible"}
DEFERRED = {"type": "PodResizePending", "reason": "Deferred"}


def resized(spec, actuated, allocated, *conditions, **shape):
    status = {
        "conditions": list(conditions),
        "containerStatuses": [{"name": "a", "resources": {"requests": actuated}, "allocatedResources": allocated}],
    }
    return a_pod(a_container(name="a", **spec, **shape), status=status)


@pytest.mark.parametrize(
    ("conditions", "cpu"),
    [((), 4000), ((INFEASIBLE,), 3000), ((DEFERRED, INFEASIBLE), 4000)],
    ids=["resize in flight", "infeasible", "only the first condition counts"],
)
def test_p4_resize(conditions, cpu):
    pod = resized({"cpu": "4"}, {"cpu": "2"}, {"cpu": "3"}, *conditions)
    assert vector(pod) == {"cpu": 4000}, "the status is ignored"
    for version in VERSIONS:
        assert vector(pod, resize_rules=version) == {"cpu": cpu}


@pytest.mark.parametrize("version", VERSIONS, ids=str)
@pytest.mark.parametrize(
    ("conditions", "expected"),
    [((), {"cpu": 700, "memory": 3 * Gi}), ((INFEASIBLE,), {"cpu": 500, "memory": 3 * Gi})],
    ids=["feasible", "infeasible"],
)
def test_p7_maximum_for_each_resource(conditions, expected, version):
    spec, actuated, allocated = (
        {"cpu": cpu, "memory": memory} for cpu, memory in (("700m", "1Gi"), ("400m", "3Gi"), ("500m", "2Gi"))
    )
    assert vector(resized(spec, actuated, allocated, *conditions), resize_rules=version) == expected


def amounts(cpu):
    return {"requests": {"cpu": str(cpu)}}


def of_status(**statuses):
    """The status of containers: name -> (what it has, what is reserved for it)."""
    return [
        {"name": name}
        | ({} if actuated is None else {"resources": amounts(actuated)})
        | ({} if allocated is None else {"allocatedResources": {"cpu": str(allocated)}})
        for name, (actuated, allocated) in statuses.items()
    ]


def pair(first, second):
    return a_container(str(first), name="a"), a_container(str(second), name="b")


CPU_4 = a_container("4", name="a")
SIDECAR, STAGE = a_container("4", name="i", sidecar=True), a_container("1", name="i")
POD_LEVEL = {"allocatedResources": {"cpu": "3"}, "resources": amounts("3500m")}


#: The last two columns are the CPUs of 1.36 and 1.37. Rows with an upstream name are from TestPodResourceRequests and
#: TestPodRequestsAndLimitsVerticalScalingWrappers of k8s.io/component-helpers in July 2026.
@pytest.mark.parametrize(
    ("pod", "older", "newer"),
    [
        pytest.param(
            a_pod(*pair(1, 2), status={"containerStatuses": of_status(a=(None, 2), b=(None, 1))}), 3, 3,
            id="upstream: aggregate request resolves max of sums instead of sum of maxes",
        ),
        pytest.param(
            a_pod(*pair(1, 2), status={"containerStatuses": of_status(a=(2, 2), b=(1, 1))}), 4, 3,
            id="two containers trade resources",
        ),
        pytest.param(
            a_pod(*pair(1, 2), status={"conditions": [INFEASIBLE], "containerStatuses": of_status(a=(3, 2), b=(1, 4))}),
            7, 6, id="infeasible: what they have against what is reserved",
        ),
        pytest.param(
            a_pod(a_container("4", name="a"), status={"containerStatuses": of_status(a=(None, 9))}), 4, 9,
            id="a reservation without a report of what it has",
        ),
        pytest.param(
            a_pod(CPU_4, status={"conditions": [INFEASIBLE], "containerStatuses": of_status(a=(2, None))}),
            2, 2, id="infeasible, nothing reserved",
        ),
        pytest.param(
            a_pod(CPU_4, status={"conditions": [INFEASIBLE], "containerStatuses": of_status(x=(2, 2))}),
            4, 0, id="infeasible, no status",
        ),
        pytest.param(
            a_pod(init=[SIDECAR], status={"conditions": [INFEASIBLE], "initContainerStatuses": of_status(i=(2, None))}),
            2, 2, id="upstream: resized, restartable init container, infeasible",
        ),
        pytest.param(
            a_pod(init=[SIDECAR], status={"initContainerStatuses": of_status(i=(2, None))}),
            4, 4, id="upstream: resized, restartable init container, no resize status",
        ),
        pytest.param(
            a_pod(init=[STAGE], status={"initContainerStatuses": of_status(i=(5, None))}),
            1, 5, id="an ordinary init container",
        ),
        pytest.param(
            a_pod(a_container("4", name="a"), status={"containerStatuses": of_status(a=(2, 3))} | POD_LEVEL),
            4, 4, id="pod-level status, without pod-level requests",
        ),
        pytest.param(
            a_pod(a_container("2", name="a"), status={"containerStatuses": of_status(a=(9, 9))} | POD_LEVEL),
            9, 3.5, id="the pod-level status replaces that of containers",
        ),
        pytest.param(
            a_pod(a_container("1", name="a"), pod_level=amounts(2), status=POD_LEVEL),
            3.5, 3.5, id="upstream: pod level requests with vertical scaling enabled and status populated",
        ),
        pytest.param(
            a_pod(a_container("1", name="a"), pod_level=amounts(10), status={"conditions": [INFEASIBLE]} | POD_LEVEL),
            3.5, 3.5, id="upstream: the same, infeasible resize",
        ),
        pytest.param(
            a_pod(a_container("1", name="a"), pod_level={"requests": {"memory": "1"}}, status=POD_LEVEL),
            1, 3.5, id="a resource that only the pod-level status has",
        ),
    ],
)  # fmt: skip
def test_what_a_resize_needs(pod, older, newer):
    found = [vector(pod, resize_rules=version, pod_level_resize=True).get("cpu", 0) for version in VERSIONS]
    assert found == [older * 1000, newer * 1000]


def test_defaults_are_part_of_each_sum():
    pod = a_pod(*pair(1, 2), a_container(name="c"), status={"containerStatuses": of_status(a=(2, 2), b=(1, 1))})
    assert non_zero_requests(pod, resize_rules=V1_36)[0] == 4100
    assert non_zero_requests(pod, resize_rules=V1_37)[0] == 3100


@pytest.mark.parametrize("version", VERSIONS, ids=str)
def test_claims_count_during_a_resize(version):
    status = {
        "nodeAllocatableResourceClaimStatuses": [{"resourceClaimName": "c", "resources": {"cpu": "2"}}],
        "containerStatuses": of_status(a=(1, 1)),
    }
    pod = a_pod(a_container("1", name="a"), status=status)
    assert vector(pod, resize_rules=version, dra_node_allocatable=True) == {"cpu": 3000}


@pytest.mark.parametrize(
    ("options", "cpu"),
    [
        ({"resize_rules": V1_36, "pod_level_resize": True}, 3000),
        ({"resize_rules": V1_37, "pod_level_resize": True}, 3000),
        ({"resize_rules": V1_36}, 2000),
        ({"pod_level_resize": True}, 2000),
        ({"skip_pod_level": True}, 1000),
    ],
    ids=str,
)
def test_pod_level_resize(options, cpu):
    status = {"resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": "3"}}
    pod = a_pod(a_container("1"), pod_level={"requests": {"cpu": "2"}}, status=status)
    assert vector(pod, **options) == {"cpu": cpu}


def test_pod_level_requests_replace_only_supported_names():
    requests = {"hugepages-2Mi": "4Mi", "example.com/gpu": "7"}
    pod = a_pod(a_container("1", example_com="2"), pod_level={"requests": requests, "limits": {"cpu": "9"}})
    assert vector(pod) == {"cpu": 1000, "hugepages-2Mi": 4 * Mi}


def test_allocatable_claims_count_with_their_gate():
    status = {"nodeAllocatableResourceClaimStatuses": [{"resourceClaimName": "c", "resources": {"cpu": "2"}}]}
    pod = a_pod(a_container("1"), status=status)
    assert vector(pod) == {"cpu": 1000}
    assert vector(pod, dra_node_allocatable=True) == {"cpu": 3000}


def test_the_vector_drops_names_the_scheduler_does_not_count():
    requests = {"pods": 10**9, "foo": 10**9, "example.com/gpu": 10**9, "ephemeral-storage": 1}
    assert to_vector(requests) == {"example.com/gpu": 1, "ephemeral-storage": 1}


def test_structs_are_not_changed_by_summing():
    pod = resized({"cpu": "1"}, {"cpu": "2"}, {"cpu": "3"})
    before = str(pod)
    for version in VERSIONS:
        pod_requests(pod, resize_rules=version)
    assert str(pod) == before


#: Milli-CPUs of a container that uses the claim, of mappings, and of overheads for pod and container; the total. From
#: TestCalculateResource of framework/types_test.go at 1.37: the cases with the new fields.
CLAIMED = [
    (500, 100, (0, 0), 600),
    (500, 0, (100, 100), 700),
    (500, 100, (100, 100), 800),
]


@pytest.mark.parametrize(("own", "mapped", "overhead", "total"), CLAIMED)
@pytest.mark.parametrize("rules", [None, V1_37])
def test_claims_that_map_and_have_overhead(own, mapped, overhead, total, rules):
    per_pod, per_container = (f"{amount}m" for amount in overhead)
    status = {
        "resourceClaimName": "c",
        "containers": ["a"],
        "mapping": [{"name": "cpu", "quantity": f"{mapped}m"}],
        "overhead": [{"name": "cpu", "perPod": per_pod, "perContainer": per_container}],
    }
    pod = a_pod(a_container(f"{own}m", name="a"), status={"nodeAllocatableResourceClaimStatuses": [status]})
    assert vector(pod, resize_rules=rules, dra_node_allocatable=True) == {"cpu": total}


SMALL, MORE = {"cpu": "500m", "memory": "500M"}, {"cpu": "700m", "memory": "500M"}
LARGE = {"cpu": "700m", "memory": "800M"}


def in_resize(
    *, spec=SMALL, has=SMALL, level=None, level_has=None, init=None, sidecar=None, reason="", kind="PodResizePending"
):
    named = {"i": init, "s": sidecar}
    inits = [{"name": name, "resources": {"requests": one}} for name, one in named.items() if one]
    for one in inits:
        one |= {"restartPolicy": "Always"} if one["name"] == "s" else {}
    status = {
        "containerStatuses": [{"name": "c", "resources": {"requests": has}}],
        "initContainerStatuses": [{"name": name, "resources": {"requests": one}} for name, one in named.items() if one],
        "conditions": [{"type": kind, "status": "True", "reason": reason}],
    }
    if level_has:
        status["resources"] = {"requests": level_has}
    main = {"name": "c", "resources": {"requests": spec}}
    return a_pod(main, init=inits, pod_level=level and {"requests": level}, status=status)


#: TestCalculatePodResourcesWithResize of framework/types_test.go at 1.37, all 9 cases.
RESIZES = {
    "no resize": (in_resize(), (500, 500)),
    "in progress": (in_resize(kind="PodResizeInProgress"), (500, 500)),
    "pod level": (in_resize(level=MORE, level_has=SMALL, has=MORE), (700, 500)),
    "pod level, in progress": (
        in_resize(level=MORE, level_has=SMALL, has=MORE, kind="PodResizeInProgress"),
        (700, 500),
    ),
    "deferred": (in_resize(spec=LARGE, reason="Deferred"), (700, 800)),
    "pod level, deferred": (in_resize(level=LARGE, level_has=SMALL, reason="Deferred"), (700, 800)),
    "infeasible": (in_resize(spec=LARGE, reason="Infeasible"), (500, 500)),
    "an init container": (in_resize(init=LARGE), (700, 800)),
    "a sidecar": (in_resize(init=LARGE, sidecar=LARGE), (1200, 1300)),
}


@pytest.mark.parametrize(("pod", "expected"), RESIZES.values(), ids=RESIZES)
def test_upstreams_pods_in_a_resize(pod, expected):
    found = vector(pod, resize_rules=V1_37, pod_level_resize=True)
    assert (found["cpu"], found["memory"]) == (expected[0], expected[1] * 10**6)
    assert non_zero_requests(pod, resize_rules=V1_37) == (expected[0], expected[1] * 10**6)
