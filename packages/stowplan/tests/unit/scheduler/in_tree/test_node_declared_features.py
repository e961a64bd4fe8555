"""NodeDeclaredFeatures: nodes must declare the features that a pod's spec needs."""

import pytest

from stowplan.kube.kubernetes_versions import V1_36, V1_37
from stowplan.scheduler.framework.status import SKIP
from stowplan.scheduler.in_tree.node_declared_features.plugin import NodeDeclaredFeatures, recognized
from stowplan.testing import a_node, a_pod

USER_NAMESPACES, RESTART_ALL = "UserNamespacesHostNetworkSupport", "RestartAllContainersOnContainerExits"
REASON = "node(s) didn't match Pod's required features"

RULE = {"name": "main", "restartPolicyRules": [{"action": "RestartAllContainers"}]}
HOST = a_pod().host_network().spec(hostUsers=False)
BOTH = a_pod().host_network().spec(hostUsers=False, containers=[RULE])


@pytest.mark.parametrize("pod", [a_pod(), a_pod().host_network(), a_pod().spec(hostUsers=False)])
def test_pods_that_need_no_feature_skip(bench, pod):
    assert bench(NodeDeclaredFeatures, a_node()).pre_filter(pod) is SKIP


def test_without_its_gate_it_does_nothing(bench):
    world = bench(NodeDeclaredFeatures, a_node(), NodeDeclaredFeatures=False)
    assert world.pre_filter(HOST) is SKIP
    assert world.plugin.events_to_register() == ()


@pytest.mark.parametrize(
    ("pod", "features", "fits"),
    [
        pytest.param(HOST, [USER_NAMESPACES], True, id="declared"),
        pytest.param(HOST, [], False, id="nothing declared"),
        pytest.param(HOST, [RESTART_ALL], False, id="another declared"),
        pytest.param(BOTH, [RESTART_ALL, USER_NAMESPACES], True, id="both"),
        pytest.param(BOTH, [RESTART_ALL], False, id="one of the two"),
        pytest.param(
            a_pod().spec(containers=[RULE]), ["FutureFeature", RESTART_ALL], True, id="unknown ones do not matter"
        ),
        pytest.param(a_pod().spec(initContainers=[RULE]), [], False, id="rule of an init container"),
    ],
)
def test_required_features(bench, pod, features, fits):
    world = bench(NodeDeclaredFeatures, a_node("n").declares(*features))
    assert world.refusals(pod) == ({} if fits else {"n": REASON})


def test_unsorted_lists_lose_entries():
    assert recognized((USER_NAMESPACES, RESTART_ALL)) == {USER_NAMESPACES}
    assert recognized((RESTART_ALL, "Some", USER_NAMESPACES)) == {RESTART_ALL, USER_NAMESPACES}


MOUNTED = {"name": "main", "volumeMounts": [{"name": "v", "mountPath": "/v", "bindMountOptions": ["noexec"]}]}
PLAIN = {"name": "main", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}


@pytest.mark.parametrize(
    ("spec", "needs"),
    [
        ({"containers": [MOUNTED]}, True),
        ({"containers": [PLAIN], "initContainers": [MOUNTED]}, True),
        ({"containers": [PLAIN]}, False),
    ],
)
@pytest.mark.parametrize("version", [V1_36, V1_37], ids=str)
def test_options_of_mounts_need_a_feature_since_1_37(bench, spec, needs, version):
    nodes = a_node("new").declares("DRAOptionalNodeOperations", "VolumeBindMountOptions"), a_node("old")
    world = bench(NodeDeclaredFeatures, *nodes, version=version)
    needs = needs and version == V1_37
    pod = a_pod().spec(**spec)
    assert (world.pre_filter(pod) is SKIP) is not needs
    if needs:
        assert world.refusals(pod) == {"old": REASON}
