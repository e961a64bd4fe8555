"""The page of pods' resources: sums, included pods, and format."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families as parse

from stowplan.kube.api.decode import convert
from stowplan.kube.api.pod_requests import pod_limits, pod_requests
from stowplan.kube.api.quantity import parse_quantity
from stowplan.kube.api.types import Pod
from stowplan.scheduler.inspection.resource_metrics import PIECE, resource_page, unit_of

Mi = 1024 * 1024
Gi = 1024 * Mi


def container(requests=None, limits=None, *, sidecar=False):
    resources = {"requests": requests or {}, "limits": limits or {}}
    return {"resources": resources, "restartPolicy": "Always"} if sidecar else {"resources": resources}


def a_pod(*containers, init=(), name="p", phase="", **spec):
    obj = {
        "metadata": {"namespace": "default", "name": name},
        "spec": {"schedulerName": "s", "containers": list(containers), "initContainers": list(init), **spec},
        "status": {"phase": phase},
    }
    return convert(obj, Pod)


def page(*pods):
    return b"".join(resource_page(pods)).decode()


def shown(*pods):
    """The numbers by metric ("request", "limit") and resource."""
    return {
        (family.name.removeprefix("kube_pod_resource_"), sample.labels["resource"]): sample.value
        for family in parse(page(*pods))
        for sample in family.samples
    }


HEAVY = {"cpu": "100m", "memory": "64Mi", "ephemeral-storage": "3Mi"}
STAGES = (
    container(limits={"cpu": "200m", "memory": "5Gi", "ephemeral-storage": "1Gi"}),
    container(limits={"cpu": "20m", "ephemeral-storage": "10Mi"}, sidecar=True),
    container(limits={"cpu": "7", "memory": "1Gi"}),
)


# The sums of limits, and of requests without limits, were observed in the reference as well.
@pytest.mark.parametrize(
    ("pod", "numbers"),
    [
        pytest.param(
            a_pod(
                container({"cpu": "250m", "memory": "1Gi", "hugepages-2Mi": "2Mi", "example.com/gpu": "0"}, {"cpu": 1})
            ),
            {
                ("request", "cpu"): 0.25,
                ("request", "memory"): Gi,
                ("request", "hugepages-2Mi"): 2 * Mi,
                ("limit", "cpu"): 1,
            },
            id="zeros are left out",
        ),
        pytest.param(
            a_pod(
                container({"cpu": "333m", "memory": 1000001, "example.com/gpu": "2"}, {"example.com/gpu": "2"}),
                init=(
                    container({"cpu": "100", "ephemeral-storage": "1.5Gi"}, {"cpu": "100"}),
                    container({"cpu": "10m"}, {"cpu": "20m"}, sidecar=True),
                ),
            ),
            {
                ("request", "cpu"): 100,
                ("request", "ephemeral-storage"): 1.5 * Gi,
                ("request", "example.com/gpu"): 2,
                ("request", "memory"): 1000001,
                ("limit", "cpu"): 100,
                ("limit", "example.com/gpu"): 2,
            },
            id="an init container is a floor",
        ),
        pytest.param(
            a_pod(container({"cpu": "333m", "memory": "1Gi"}, {"memory": "1Gi"}), overhead=HEAVY),
            {
                ("request", "cpu"): 0.433,
                ("request", "ephemeral-storage"): 3 * Mi,
                ("request", "memory"): Gi + 64 * Mi,
                ("limit", "memory"): Gi + 64 * Mi,
            },
            id="overhead adds to requests, and to limits that there are",
        ),
        pytest.param(
            a_pod(container(limits={"memory": "1Gi"}), init=STAGES, overhead=HEAVY),
            {
                ("request", "cpu"): 0.1,
                ("request", "ephemeral-storage"): 3 * Mi,
                ("request", "memory"): 64 * Mi,
                ("limit", "cpu"): 7.12,
                ("limit", "ephemeral-storage"): Gi + 3 * Mi,
                ("limit", "memory"): 5 * Gi + 64 * Mi,
            },
            id="stages run beside the sidecars before them",
        ),
        pytest.param(
            a_pod(
                container(limits={"memory": "1Gi"}),
                init=STAGES,
                overhead=HEAVY,
                resources={"limits": {"cpu": "10", "ephemeral-storage": "1"}},
            ),
            {
                ("request", "cpu"): 0.1,
                ("request", "ephemeral-storage"): 3 * Mi,
                ("request", "memory"): 64 * Mi,
                ("limit", "cpu"): 10.1,
                ("limit", "ephemeral-storage"): Gi + 3 * Mi,
                ("limit", "memory"): 5 * Gi + 64 * Mi,
            },
            id="the pod's own limits come instead, where pods may have them",
        ),
        pytest.param(
            a_pod(container({"cpu": "1m", "memory": "1m"})),
            {("request", "cpu"): 0.001, ("request", "memory"): 0.001},
            id="fractions",
        ),
        pytest.param(a_pod(container()), {}, id="nothing asked"),
    ],
)
def test_sums(pod, numbers):
    assert shown(pod) == pytest.approx(numbers, rel=1e-12)


AMOUNTS = st.dictionaries(
    st.sampled_from(["cpu", "memory", "example.com/gpu"]), st.sampled_from(["0", "1", "250m", "3"])
)
CONTAINERS = st.lists(st.tuples(AMOUNTS, st.booleans()), max_size=5)


@given(CONTAINERS, CONTAINERS, AMOUNTS)
def test_limits_are_the_sums_of_requests_with_other_numbers(containers, init, own):
    """A pod whose requests are another's limits requests what the other is limited to, except overhead."""

    def pod_with(kind):
        def of(stated):
            return [
                {"resources": {kind: amounts}, **({"restartPolicy": "Always"} if sidecar else {})}
                for amounts, sidecar in stated
            ]

        return a_pod(*of([(amounts, False) for amounts, _ in containers]), init=of(init), resources={kind: own})

    assert pod_limits(pod_with("limits")) == pod_requests(pod_with("requests"))


@given(AMOUNTS, AMOUNTS)
def test_overhead_counts_where_there_is_a_limit(limits, overhead):
    plain = pod_limits(a_pod(container(limits=limits)))
    heavy = pod_limits(a_pod(container(limits=limits), overhead=overhead))
    assert heavy == {
        name: amount + (parse_quantity(overhead.get(name, 0)) if amount else 0) for name, amount in plain.items()
    }


@pytest.mark.parametrize(
    ("node", "phase", "counts"),
    [
        ("", "Pending", True),
        ("", "Failed", True),
        ("n", "Pending", True),
        ("n", "Running", True),
        ("n", "Succeeded", False),
        ("n", "Failed", False),
    ],
)
def test_finished_pods_do_not_count(node, phase, counts):
    assert bool(shown(a_pod(container({"cpu": "1"}), nodeName=node, phase=phase))) == counts


def test_a_line_as_the_reference_writes_it():
    pod = a_pod(container({"memory": "2Gi"}), nodeName="n1", priority=-5)
    assert page(pod).splitlines()[1:] == [
        "# TYPE kube_pod_resource_request gauge",
        'kube_pod_resource_request{namespace="default",node="n1",pod="p",priority="-5",resource="memory",scheduler="s",'
        'unit="bytes"} 2.147483648e+09',
    ]


@pytest.mark.parametrize(("priority", "label"), [(None, ""), (0, "0"), (2000001000, "2000001000")])
def test_priority(priority, label):
    assert f'priority="{label}"' in page(a_pod(container({"cpu": "1"}), priority=priority))


def test_metrics_without_pods_are_omitted():
    assert page() == ""
    assert "kube_pod_resource_limit" not in page(a_pod(container({"cpu": "1"})))


@pytest.mark.parametrize(
    ("resource", "unit"),
    [
        ("cpu", "cores"),
        ("memory", "bytes"),
        ("storage", "bytes"),
        ("ephemeral-storage", "bytes"),
        ("hugepages-1Gi", "bytes"),
        ("attachable-volumes-aws-ebs", "integer"),
        ("example.com/gpu", ""),
        ("pods", ""),
    ],
)
def test_units(resource, unit):
    assert unit_of(resource) == unit


def test_unusual_names_cannot_break_the_page():
    odd = 'a"b\\c\nd'
    pod = a_pod(container({odd: "1"}), name=odd, schedulerName=odd, nodeName=odd)
    (family,) = parse(page(pod))
    (sample,) = family.samples
    assert {sample.labels[label] for label in ("pod", "node", "scheduler", "resource")} == {odd}


def test_a_large_page_is_generated_in_pieces():
    pods = [a_pod(container({"cpu": f"{n + 1}m"}, {"cpu": "1"}), name=f"p{n}") for n in range(2 * PIECE + 1)]
    pieces = list(resource_page(pods))
    assert len(pieces) == 6
    limits, requests = parse(b"".join(pieces).decode())
    assert [sample.labels["pod"] for sample in limits.samples] == [pod.metadata.name for pod in pods]
    assert sum(Fraction(str(sample.value)) for sample in requests.samples) * 1000 == sum(range(2 * PIECE + 2))
