"""--feature-gates: accepted values, their effect, and emulated versions."""

import re

import pytest

from stowplan.app.command_line.flags.flag_set import FlagError, FlagSet
from stowplan.app.command_line.flags.gates import (
    ALWAYS_ON,
    REQUIRED_GATES,
    SPEED_ONLY,
    Versions,
    gates_of,
    version_errors,
    versions_of,
)
from stowplan.app.command_line.flags.table import KUBE_SCHEDULER_FLAGS
from stowplan.kube.config.features import UNBUILT
from stowplan.kube.config.gate_table import HISTORIES, Gate, gates_at
from stowplan.kube.kubernetes_versions import BINARY_VERSION, OLDEST_VERSION, V1_36, V1_37, KubernetesVersion

VERSIONS = [KubernetesVersion(1, minor) for minor in range(OLDEST_VERSION.minor, BINARY_VERSION.minor + 1)]


def gates(text, emulated="1.36"):
    settings = FlagSet(KUBE_SCHEDULER_FLAGS).parse([f"--feature-gates={text}"])["feature-gates"]
    return gates_of(settings, versions_of((emulated,), ()))


def test_the_table_has_the_gates_of_each_version():
    assert [len(gates_at(version)) for version in VERSIONS] == [250, 250, 250, 245]
    assert sum(gate.stage != "PREALPHA" for gate in gates_at(V1_36).values()) == 241


@pytest.mark.parametrize("version", VERSIONS, ids=str)
def test_required_gates_are_gates_and_the_defaults_have_them(version):
    for name, required in REQUIRED_GATES.items():
        assert {name, *required} <= gates_at(V1_36).keys() | gates_at(V1_37).keys()
    gates_of((), versions_of((str(version),), ()))


@pytest.mark.parametrize(
    ("text", "name", "enabled"),
    [
        ("SchedulerAsyncPreemption=false", "SchedulerAsyncPreemption", False),
        ("kube:SchedulerAsyncPreemption=f", "SchedulerAsyncPreemption", False),
        ("MemoryQoS=true,MemoryQoS=false", "MemoryQoS", False),
        ("DynamicResourceAllocation=true", "DynamicResourceAllocation", True),
        ("AllBeta=true,DRADeviceTaintRules=false", "SchedulerAsyncAPICalls", True),
        ("AllBeta=true,DRADeviceTaintRules=false", "MemoryQoS", False),
        ("DRADeviceTaintRules=false,AllBeta=true,SchedulerAsyncAPICalls=false", "SchedulerAsyncAPICalls", False),
        ("SchedulerAsyncAPICalls=false,AllBeta=true,DRADeviceTaintRules=false", "SchedulerAsyncAPICalls", False),
        ("AllAlpha=false", "TaintTolerationComparisonOperators", False),
        ("TaintTolerationComparisonOperators=true", "TaintTolerationComparisonOperators", True),
        ("HPAScaleToZero=true", "HPAScaleToZero", True),
        ("", "GangScheduling", False),
    ],
)
def test_settings(text, name, enabled):
    assert gates(text).features.enabled(name) == enabled


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


def test_disabling_a_required_gate_names_its_dependents():
    with pytest.raises(FlagError) as caught:
        gates("NodeDeclaredFeatures=false")
    for name in ("InPlacePodLevelResourcesVerticalScaling", "ExtendWebSocketsToKubelet"):
        assert f"{name} is enabled, but depends on features that are disabled: [NodeDeclaredFeatures]" in str(
            caught.value
        )


def test_alpha_gates_that_are_on_are_named():
    assert gates("").alpha() == []
    assert gates("KMSv1=true,TaintTolerationComparisonOperators=true,HPAScaleToZero=true").alpha() == [
        "HPAScaleToZero",
        "TaintTolerationComparisonOperators",
    ]


def test_gates_that_will_be_removed_are_reported():
    found = gates("SidecarContainers=true,KMSv1=true,SchedulerAsyncPreemption=true")
    assert list(found.retiring()) == [("GA", "SidecarContainers", True), ("deprecated", "KMSv1", True)]


# -- not implemented


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "NativeHistograms=true",
            "cannot set feature gate NativeHistograms to true, Stowplan cannot do that yet: "
            "histograms have fixed buckets",
        ),
    ],
)
def test_unimplemented_gates_are_refused(text, message):
    with pytest.raises(FlagError) as caught:
        gates(text)
    assert str(caught.value) == message


def test_all_alpha_names_each_of_them():
    with pytest.raises(FlagError) as caught:
        gates("AllAlpha=true")
    alpha = {name for name in UNBUILT if gates_at(V1_36)[name].stage == "ALPHA"}
    assert set(re.findall(r"feature gate (\w+) to true", str(caught.value))) == alpha


def test_unimplemented_gates_can_be_disabled():
    text = ",".join(f"{name}=false" for name in UNBUILT)
    assert not any(gates(text, "1.37").features.enabled(name) for name in UNBUILT)


def test_a_gate_that_another_has_absorbed():
    with pytest.raises(FlagError) as caught:
        gates("GangScheduling=true", "1.37")
    assert str(caught.value) == (
        "unrecognized feature gate: GangScheduling (GenericWorkload decides about what it did)"
    )


def test_a_gate_that_is_on_since_a_minimum_compatibility_version():
    found = gates_of([], versions_of(("1.37",), ("1.37",)))
    assert found.features.enabled("DRAFractionalCapacityRange")
    assert not gates_of([], versions_of(("1.37",))).features.enabled("DRAFractionalCapacityRange")


def test_the_lists_contain_settable_gates_only():
    for name in UNBUILT:
        assert gates_at(V1_37)[name] in (Gate("ALPHA", False), Gate("BETA", False)), name
    for name in ALWAYS_ON:
        assert gates_at(V1_36)[name] in (Gate("BETA", True), Gate("GA", True, locked=True)), name


def test_settings_without_effect_are_reported():
    assert list(gates("").without_effect()) == []
    found = gates("OpportunisticBatching=false,SchedulerAsyncPreemption=true,SchedulerPopFromBackoffQ=false")
    assert list(found.without_effect()) == [("OpportunisticBatching", "cannot be disabled; setting ignored")]
    assert "OpportunisticBatching" in dict(gates("", emulated="1.34").without_effect())
    for name in SPEED_ONLY:
        told = dict(gates(f"{name}=true", emulated="1.37").without_effect())
        assert told == {name: "is about speed alone; nothing is needed for it here"}


# -- earlier versions


def test_each_gate_has_one_history():
    listed = [name for names in HISTORIES.values() for name in names.split()]
    assert len(listed) == len(set(listed))
    assert all(len(states.split()) == len(VERSIONS) for states in HISTORIES)


#: Some of the histories that the specification has.
@pytest.mark.parametrize(
    ("name", "states"),
    [
        ("DRAAdminAccess", ["BETA on", "BETA on", "GA locked", "GA locked"]),
        ("DRADeviceTaintRules", ["PREALPHA off", "ALPHA off", "BETA off", "GA on"]),
        ("DynamicResourceAllocation", ["GA on", "GA locked", "GA locked", "GA locked"]),
        ("GangScheduling", ["PREALPHA off", "ALPHA off", "ALPHA off", "removed"]),
        ("GenericWorkload", ["PREALPHA off", "ALPHA off", "ALPHA off", "BETA off"]),
        ("SchedulerQueueingHints", ["GA locked", "GA locked", "GA locked", "removed"]),
        ("StorageCapacityScoring", ["ALPHA off", "ALPHA off", "ALPHA off", "BETA on"]),
        ("VolumeAttributesClass", ["GA on", "GA on", "GA locked", "GA locked"]),
        ("VolumeLimitScaling", ["PREALPHA off", "ALPHA off", "ALPHA off", "BETA on"]),
        ("NominatedNodeNameForExpectation", ["ALPHA off", "BETA on", "BETA on", "BETA on"]),
        ("InPlacePodVerticalScaling", ["BETA on", "GA locked", "GA locked", "GA locked"]),
        ("NodeDeclaredFeatures", ["PREALPHA off", "ALPHA off", "BETA on", "GA locked"]),
        ("SchedulerAsyncPreemption", ["BETA on"] * 4),
        ("CoordinatedLeaderElection", ["BETA off"] * 4),
    ],
)
def test_histories(name, states):
    def shown(gate):
        return (
            "removed"
            if gate is None
            else f"{gate.stage} {'locked' if gate.locked else 'on' if gate.default else 'off'}"
        )

    assert [shown(gates_at(version).get(name)) for version in VERSIONS] == states


def test_defaults_follow_the_emulated_version():
    assert not gates("", emulated="1.34").features.enabled("NominatedNodeNameForExpectation")
    assert gates("NominatedNodeNameForExpectation=true", emulated="1.34").features.enabled(
        "NominatedNodeNameForExpectation"
    )


def test_switches_follow_the_emulated_version():
    """Beta in 1.36 was alpha."""
    assert gates("AllBeta=false", emulated="1.35").features.enabled("DRADeviceTaints") is False
    assert gates("AllBeta=false").features.enabled("DRADeviceTaints") is False
    assert gates("AllBeta=true,KubeletPodResourcesListUseActivePods=false", emulated="1.34").features.enabled(
        "ImageVolume"
    )


@pytest.mark.parametrize(
    ("text", "emulated", "message"),
    [
        (
            "AtomicFIFO=true",
            "1.35",
            "cannot set feature gate AtomicFIFO to true, feature is PreAlpha at emulated version 1.35, "
            "min compatibility version 1.34",
        ),
        (
            "AtomicFIFO=false",
            "1.35",
            "cannot set feature gate AtomicFIFO to false, feature is PreAlpha at emulated version 1.35, "
            "min compatibility version 1.34",
        ),
        (
            "DynamicResourceAllocation=false",
            "1.35",
            "cannot set feature gate DynamicResourceAllocation to false, feature is locked to true",
        ),
    ],
)
def test_gates_that_an_earlier_version_refuses(text, emulated, message):
    with pytest.raises(FlagError) as caught:
        gates(text, emulated)
    assert str(caught.value) == message


def test_gates_that_an_earlier_version_allows():
    text = "DynamicResourceAllocation=false,DRAAdminAccess=false,DRAPrioritizedList=false"
    text += ",DRAResourceClaimDeviceStatus=false,DRASchedulerFilterTimeout=false"
    assert not gates(text, "1.34").features.enabled("DynamicResourceAllocation")


# -- versions


@pytest.mark.parametrize(
    ("emulated", "least", "expected"),
    [
        ((), (), Versions((1, 37), (1, 36))),
        (("1.36",), (), Versions((1, 36), (1, 35))),
        (("1.37",), (), Versions((1, 37), (1, 36))),
        (("1.35",), (), Versions((1, 35), (1, 34))),
        (("kube=1.34",), (), Versions((1, 34), (1, 34))),
        (("v1.36",), ("1.34",), Versions((1, 36), (1, 34))),
        ((), ("kube=1.37",), Versions((1, 37), (1, 37))),
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
def test_invalid_versions(emulated, message):
    with pytest.raises(FlagError) as caught:
        versions_of(emulated, ())
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("emulated", "least", "messages"),
    [
        (("1.38",), ("1.37",), ["emulation version 1.38 is not between [1.34, 1.37.0]"]),
        (
            ("1.33",),
            ("1.33",),
            [
                "emulation version 1.33 is not between [1.34, 1.37.0]",
                "minCompatibilityVersion version 1.33 is not between [1.34, 1.33]",
            ],
        ),
        (("1.36",), ("1.37",), ["minCompatibilityVersion version 1.37 is not between [1.34, 1.36]"]),
    ],
)
def test_versions_out_of_range(emulated, least, messages):
    versions = versions_of(emulated, least)
    assert list(version_errors(versions)) == messages
    # Their gates are no error of their own.
    gates_of([], versions)
