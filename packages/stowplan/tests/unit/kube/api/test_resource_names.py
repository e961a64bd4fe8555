"""Classes of resource names."""

import pytest

from stowplan.kube.api.resource_names import is_dra_extended, is_extended, is_native, is_scalar


@pytest.mark.parametrize(
    ("name", "native", "extended", "scalar"),
    [
        ("cpu", True, False, False),
        ("pods", True, False, False),
        ("ephemeral-storage", True, False, False),
        ("hugepages-2Mi", True, False, True),
        ("attachable-volumes-aws-ebs", True, False, True),
        ("example.com/gpu", False, True, True),
        ("kubernetes.io/thing", True, False, True),
        ("sub.kubernetes.io/thing", True, False, True),
        ("requests.example.com/gpu", False, False, False),
        ("Example.com/gpu", False, False, False),
        ("example.com/" + "x" * 64, False, False, False),
        ("/gpu", False, False, False),
        ("a/b/c", False, False, False),
    ],
)
def test_name_classes(name, native, extended, scalar):
    assert (is_native(name), is_extended(name), is_scalar(name)) == (native, extended, scalar)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("example.com/gpu", True), ("deviceclass.resource.kubernetes.io/gpu", True), ("cpu", False)],
)
def test_names_that_a_device_class_may_provide(name, expected):
    assert is_dra_extended(name) is expected
