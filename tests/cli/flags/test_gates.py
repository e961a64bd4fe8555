"""--feature-gates: what is accepted, what comes of it, and the versions beside it."""

import pytest

from stowplan.cli.flags.flag_set import FlagError, FlagSet
from stowplan.cli.flags.gate_table import KNOWN_GATES, REQUIRED_GATES
from stowplan.cli.flags.gates import gates_of, retiring
from stowplan.cli.flags.table import KUBE_SCHEDULER_FLAGS
from stowplan.cli.flags.versions import Versions, version_errors, versions_of
from stowplan.config import DEFAULT_FEATURES


def gates(text):
    return gates_of(FlagSet(KUBE_SCHEDULER_FLAGS).parse([f"--feature-gates={text}"])["feature-gates"])


def test_the_table_has_the_schedulers_own_gates_with_their_defaults():
    assert len(KNOWN_GATES) == 241
    for name, default in DEFAULT_FEATURES.gates.items():
        assert KNOWN_GATES[name].default == default, name


def test_required_gates_are_gates_and_the_defaults_have_them():
    for name, required in REQUIRED_GATES.items():
        assert {name, *required} <= KNOWN_GATES.keys()
    gates_of(())


@pytest.mark.parametrize(
    ("text", "name", "enabled"),
    [
        ("SchedulerAsyncPreemption=false", "SchedulerAsyncPreemption", False),
        ("kube:SchedulerAsyncPreemption=f", "SchedulerAsyncPreemption", False),
        ("VolumeLimitScaling=true,VolumeLimitScaling=false", "VolumeLimitScaling", False),
        ("DynamicResourceAllocation=true", "DynamicResourceAllocation", True),
        ("AllBeta=true,AllAlpha=true", "VolumeLimitScaling", True),
        ("AllBeta=true,AllAlpha=true", "SchedulerAsyncAPICalls", True),
        ("AllBeta=true", "VolumeLimitScaling", False),
        ("AllBeta=true,SchedulerAsyncAPICalls=false", "SchedulerAsyncAPICalls", False),
        ("SchedulerAsyncAPICalls=false,AllBeta=true", "SchedulerAsyncAPICalls", False),
        ("GenericWorkload=true,GangScheduling=true", "GangScheduling", True),
        ("", "GangScheduling", False),
    ],
)
def test_settings(text, name, enabled):
    assert gates(text)[0].enabled(name) == enabled


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Nope=true", "unrecognized feature gate: Nope"),
        (
            "DynamicResourceAllocation=false",
            "cannot set feature gate DynamicResourceAllocation to false, feature is locked to true",
        ),
        ("X", "missing bool value for X"),
        (
            "GangScheduling=maybe",
            'invalid value of GangScheduling=maybe, err: strconv.ParseBool: parsing "maybe": invalid syntax',
        ),
        (
            "GangScheduling=true,kube:GenericWorkload=true",
            "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use",
        ),
        ("foo:GangScheduling=true", "component not registered: foo"),
        (
            "GangScheduling=true",
            "GangScheduling is enabled, but depends on features that are disabled: [GenericWorkload]",
        ),
        (
            "SidecarContainers=false,VolumeAttributesClass=false",
            "[cannot set feature gate SidecarContainers to false, feature is locked to true, "
            "cannot set feature gate VolumeAttributesClass to false, feature is locked to true]",
        ),
    ],
)
def test_refusals(text, message):
    with pytest.raises(FlagError) as caught:
        gates(text)
    assert str(caught.value) == message


def test_turning_off_what_others_need_names_each_of_them():
    with pytest.raises(FlagError) as caught:
        gates("NodeDeclaredFeatures=false")
    for name in ("InPlacePodLevelResourcesVerticalScaling", "ExtendWebSocketsToKubelet"):
        assert f"{name} is enabled, but depends on features that are disabled: [NodeDeclaredFeatures]" in str(
            caught.value
        )


def test_gates_that_will_go_are_told():
    _, given = gates("SidecarContainers=true,KMSv1=true,SchedulerAsyncPreemption=true")
    assert list(retiring(given)) == [("GA", "SidecarContainers", True), ("deprecated", "KMSv1", True)]


# --- versions


@pytest.mark.parametrize(
    ("emulated", "least", "expected"),
    [
        ((), (), Versions((1, 36), (1, 35))),
        (("1.35",), (), Versions((1, 35), (1, 34))),
        (("kube=1.33",), (), Versions((1, 33), (1, 33))),
        (("v1.36",), ("1.33",), Versions((1, 36), (1, 33))),
        ((), ("kube=1.36",), Versions((1, 36), (1, 36))),
    ],
)
def test_versions(emulated, least, expected):
    versions = versions_of(emulated, least)
    assert versions == expected
    assert list(version_errors(versions)) == []


@pytest.mark.parametrize(
    ("emulated", "message"),
    [
        (("1.35.1",), "patch version not allowed, got: kube=1.35.1"),
        (("1.35", "kube=1.34"), "duplicate version flag, kube=1.35 and kube=1.34"),
        (("foo=1.35",), "component not registered: foo"),
        (("new",), 'could not parse "new" as version'),
    ],
)
def test_versions_that_cannot_be_read(emulated, message):
    with pytest.raises(FlagError) as caught:
        versions_of(emulated, ())
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("emulated", "least", "messages"),
    [
        (("1.37",), ("1.36",), ["emulation version 1.37 is not between [1.33, 1.36.0]"]),
        ((), ("1.37",), ["minCompatibilityVersion version 1.37 is not between [1.33, 1.36]"]),
    ],
)
def test_versions_out_of_range(emulated, least, messages):
    assert list(version_errors(versions_of(emulated, least))) == messages
