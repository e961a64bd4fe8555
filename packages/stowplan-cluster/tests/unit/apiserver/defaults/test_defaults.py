"""Quantities, totals and QoS classes of pods; defaults of all kinds are in validation/test_recorded_manifests.py."""

import pytest

from stowplan.kube.api.container_totals import container_totals, qos_class
from stowplan_cluster.apiserver.defaults.pods import whole_millis


def container(**fields):
    return {"name": "c", "image": "app:1"} | fields


@pytest.mark.parametrize(
    ("given", "kept"),
    [("1", "1"), ("500m", "500m"), ("1Gi", "1Gi"), ("1n", "1m"), ("1500001u", "1501m"), ("-1u", "-1m"), ("1e3", "1e3")],
)
def test_quantities_are_rounded_up_to_milli_units(given, kept):
    assert whole_millis(given) == kept
    assert whole_millis(kept) == kept


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
