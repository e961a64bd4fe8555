"""Image names and host ports in normalized form."""

import pytest

from stowplan.kube.api.decode import convert
from stowplan.kube.api.pod import host_ports, normalized_image_name
from stowplan.kube.api.types import Pod


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("web", "web:latest"),
        ("reg.local:5000/team/web", "reg.local:5000/team/web:latest"),
        ("web:1.2", "web:1.2"),
        ("web@sha256:ab", "web@sha256:ab"),
        ("", ":latest"),
    ],
)
def test_image_names(name, expected):
    assert normalized_image_name(name) == expected


def test_host_ports_in_order_and_normalised():
    def container(*ports, **more):
        return {"ports": list(ports), **more}

    spec = {
        "containers": [container({"hostPort": 80, "hostIP": "10.0.0.1", "protocol": "UDP"}, {"containerPort": 9})],
        "initContainers": [container({"hostPort": 1}), container({"hostPort": 2}, restartPolicy="Always")],
    }
    assert host_ports(convert({"spec": spec}, Pod)) == (("0.0.0.0", "TCP", 2), ("10.0.0.1", "UDP", 80))
