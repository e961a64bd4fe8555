"""The version that is emulated: which ones there are, and what it does to gates."""

import pytest

import stowplan
from stowplan.kube.config.features import GateError, default_features, group_gates, known_gates, with_chosen
from stowplan.kube.kubernetes_versions import V1_36, V1_37, KubernetesVersion, VersionError, emulated_version_of


@pytest.mark.parametrize("text", ["1.36", "v1.36"])
def test_a_version(text):
    assert emulated_version_of(text) == V1_36
    assert str(V1_36) == "1.36"


@pytest.mark.parametrize("text", ["1.33", "1.38", "1.36.2", "36", "", 1.36])
def test_no_version(text):
    with pytest.raises(VersionError):
        emulated_version_of(text)
    with pytest.raises(stowplan.ClusterError, match="emulated_version: "):
        stowplan.Cluster(emulated_version=text)


def test_versions_are_ordered_by_number():
    assert KubernetesVersion(1, 9) < KubernetesVersion(1, 10) < V1_36 < V1_37


def test_defaults_follow_the_version():
    changed = {name for name, on in default_features(V1_37).gates.items() if on != default_features(V1_36).gates[name]}
    assert changed == {"DRADeviceTaintRules", "StorageCapacityScoring", "VolumeLimitScaling"}


def test_a_removed_gate_cannot_be_set():
    with pytest.raises(GateError, match=r"no gate 'GangScheduling' in 1\.37: GenericWorkload decides about it"):
        with_chosen({"GangScheduling": True}, V1_37)
    with pytest.raises(GateError, match=r"no gate 'SchedulerQueueingHints'"):
        with_chosen({"SchedulerQueueingHints": True}, V1_37)


@pytest.mark.parametrize("on", [True, False])
def test_what_a_removed_gate_decided_is_decided_by_its_successor(on):
    features = with_chosen({"GenericWorkload": on}, V1_37)
    assert features.enabled("GangScheduling") is on
    assert features.enabled("WorkloadAwarePreemption") is on
    assert not with_chosen({"GenericWorkload": True}, V1_36).enabled("GangScheduling")


@pytest.mark.parametrize("version", [V1_36, V1_37], ids=str)
def test_gates_of_groups_can_be_set(version):
    assert with_chosen(group_gates(version), version).enabled("GangScheduling")


def test_gates_of_another_version_are_left_out():
    gates = with_chosen(group_gates(V1_36), V1_36).gates
    assert "GangScheduling" not in known_gates(gates, V1_37)
    with_chosen(known_gates(gates, V1_37), V1_37)


def test_configurations_have_the_defaults_of_the_version():
    def shape(version):
        config = stowplan.load_config(emulated_version=version)
        return config.profiles[0].plugin_args("VolumeBinding").shape

    assert not shape("1.36")
    assert [(point.utilization, point.score) for point in shape("1.37")] == [(0, 10), (100, 0)]


def test_a_cluster_and_its_copies_have_the_version():
    cluster = stowplan.Cluster(emulated_version="1.37")
    assert cluster.engine.features.emulated_version == V1_37
    assert cluster.reconfigured(cluster.config).engine.features.emulated_version == V1_37


def test_trees_of_groups_need_groups_and_placements():
    assert with_chosen(group_gates(V1_37) | {"CompositePodGroup": True}, V1_37).enabled("CompositePodGroup")
    with pytest.raises(GateError, match="CompositePodGroup needs GenericWorkload and TopologyAwareWorkloadScheduling"):
        with_chosen({"CompositePodGroup": True}, V1_37)
