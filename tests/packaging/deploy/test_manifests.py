"""The manifests are accepted unchanged, comply with a restricted namespace, and are consistent with each other."""

import pytest

import stowplan
from stowplan.app.command_line.flags.flag_set import FlagSet
from stowplan.app.command_line.flags.table import KUBE_SCHEDULER_FLAGS
from support.processes.deployments import (
    FEATURE_GATES,
    MONITORING,
    REBALANCE,
    STATIC_POD,
    custom_resource,
    named,
    objects,
    second_scheduler,
)

MONITORS = objects(MONITORING / "podmonitor.yaml", MONITORING / "servicemonitor.yaml")
REBALANCING = objects(*sorted(REBALANCE.glob("*.yaml")))
ALL = [*second_scheduler(), *REBALANCING, *MONITORS, *objects(*sorted(FEATURE_GATES.glob("*.yaml")))]
DEPLOYMENT = named(ALL, "Deployment", "stowplan")
POD = DEPLOYMENT["spec"]["template"]["spec"]
STATIC = objects(STATIC_POD)[0]
PROBES = ("startupProbe", "livenessProbe", "readinessProbe")


def flags(container):
    return FlagSet(KUBE_SCHEDULER_FLAGS).parse([*container["command"][1:], *container.get("args", [])])


@pytest.fixture(scope="module")
def monitors_known(api_server):
    """The kinds of the Prometheus operator."""
    group = "monitoring.coreos.com"
    kinds = [custom_resource(group, kind) for kind in ("PodMonitor", "ServiceMonitor")]
    api_server.kubectl("apply", "-f", "-", stdin=kinds)
    names = [f"crd/{kind['metadata']['name']}" for kind in kinds]
    api_server.kubectl("wait", "--for=condition=Established", "--timeout=30s", *names)


@pytest.mark.usefixtures("monitors_known")
def test_a_server_accepts_them_in_dry_run_and_for_real(api_server):
    if api_server.kubectl("get", "namespace", "kube-system", check=False).returncode:
        api_server.kubectl("create", "namespace", "kube-system")
    strict = ("--validate=strict", "-f", "-")
    dry = api_server.kubectl("apply", "--server-side", "--dry-run=server", *strict, stdin=ALL)
    assert dry.stdout.count("serverside-applied (server dry run)") == len(ALL)
    applied = api_server.kubectl("apply", *strict, stdin=ALL)
    assert "Warning" not in dry.stderr + applied.stderr
    assert api_server.kubectl("diff", "-f", "-", stdin=ALL).stdout == ""
    api_server.kubectl("delete", "-f", "-", stdin=ALL)


def test_the_static_pod_is_accepted_too(api_server):
    if api_server.kubectl("get", "namespace", "kube-system", check=False).returncode:
        api_server.kubectl("create", "namespace", "kube-system")
    # As the kubelet mirrors it: fields that it defaults are left to the server here.
    without_class = {**STATIC, "spec": {k: v for k, v in STATIC["spec"].items() if not k.startswith("priority")}}
    created = api_server.kubectl("create", "--dry-run=server", "--validate=strict", "-f", "-", stdin=[without_class])
    assert created.stdout == f"pod/{STATIC['metadata']['name']} created (server dry run)\n"


def test_a_restricted_namespace_accepts_its_pods(real):
    namespace = real.new_namespace("restricted")
    label = "pod-security.kubernetes.io/enforce=restricted"
    real.kubectl("label", "namespace", namespace, label)
    # Its priority class and account are not tested here.
    spec = {key: value for key, value in POD.items() if key not in ("priorityClassName", "serviceAccountName")}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": namespace}, "spec": spec}
    created = real.kubectl("create", "--dry-run=server", "-f", "-", stdin=[pod])
    assert created.stderr == ""
    loose = {**pod, "spec": {**spec, "securityContext": {}}}
    refused = real.kubectl("create", "--dry-run=server", "-f", "-", stdin=[loose], check=False)
    assert "violates PodSecurity" in refused.stderr


# -- consistency


def test_names_and_labels_match():
    labels = DEPLOYMENT["spec"]["template"]["metadata"]["labels"]
    assert DEPLOYMENT["spec"]["selector"]["matchLabels"] == labels
    assert named(ALL, "Service", "stowplan")["spec"]["selector"] == labels
    assert named(ALL, "PodDisruptionBudget", "stowplan")["spec"]["selector"]["matchLabels"] == labels
    (term,) = POD["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert term["podAffinityTerm"]["labelSelector"]["matchLabels"] == labels
    assert POD["serviceAccountName"] == named(ALL, "ServiceAccount", "stowplan")["metadata"]["name"]
    (volume,) = POD["volumes"]
    named(ALL, "ConfigMap", volume["configMap"]["name"])
    assert [mount["name"] for mount in POD["containers"][0]["volumeMounts"]] == [volume["name"]]


def test_ports_match():
    container = POD["containers"][0]
    (port,) = container["ports"]
    assert port["containerPort"] == flags(container)["secure-port"]
    assert all(container[probe]["httpGet"]["port"] == port["name"] for probe in PROBES)
    (served,) = named(ALL, "Service", "stowplan")["spec"]["ports"]
    (pods,) = named(ALL, "PodMonitor", "stowplan")["spec"]["podMetricsEndpoints"]
    (services,) = named(ALL, "ServiceMonitor", "stowplan")["spec"]["endpoints"]
    assert served["targetPort"] == served["name"] == pods["port"] == services["port"] == port["name"]


def test_the_token_of_the_pod_monitor_is_one_that_may_read_metrics():
    (endpoint,) = named(ALL, "PodMonitor", "stowplan")["spec"]["podMetricsEndpoints"]
    secret = named(ALL, "Secret", endpoint["authorization"]["credentials"]["name"])
    account = secret["metadata"]["annotations"]["kubernetes.io/service-account.name"]
    binding = named(ALL, "ClusterRoleBinding", "stowplan-metrics-reader")
    assert [subject["name"] for subject in binding["subjects"]] == [account]
    named(ALL, "ClusterRole", binding["roleRef"]["name"])


def test_the_configuration_loads_and_the_lease_is_the_one_it_has_rights_to(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text(named(ALL, "ConfigMap", "stowplan")["data"]["config.yaml"])
    config = stowplan.load_config(str(file))
    election = config.leader_election
    role = named(ALL, "Role", "stowplan-leader-election")
    assert [rule["resourceNames"] for rule in role["rules"] if "resourceNames" in rule] == [[election.resource_name]]
    assert role["metadata"]["namespace"] == election.resource_namespace
    assert election.leader_elect
    assert list(config.effective_plugins()) == ["stowplan"]
    assert flags(POD["containers"][0])["config"].startswith(POD["containers"][0]["volumeMounts"][0]["mountPath"])


def test_there_are_two_replicas_with_a_disruption_budget():
    assert DEPLOYMENT["spec"]["replicas"] == 2
    assert DEPLOYMENT["spec"]["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}
    assert named(ALL, "PodDisruptionBudget", "stowplan")["spec"]["minAvailable"] == 1
    assert POD["priorityClassName"] == "system-cluster-critical"


# -- the static pod


def test_the_static_pod_matches_kubeadms():
    (container,) = STATIC["spec"]["containers"]
    conf = "/etc/kubernetes/scheduler.conf"
    line = flags(container)
    assert container["command"][0] == "kube-scheduler"
    assert "args" not in container
    given = {flag.name: line[flag.name] for flag in KUBE_SCHEDULER_FLAGS if line.is_given(flag.name)}
    assert {name: str(value) for name, value in given.items()} == {
        "authentication-kubeconfig": conf,
        "authorization-kubeconfig": conf,
        "bind-address": "127.0.0.1",
        "kubeconfig": conf,
        "leader-elect": "True",
    }
    assert container["volumeMounts"] == [{"mountPath": conf, "name": "kubeconfig", "readOnly": True}]
    assert STATIC["spec"]["volumes"] == [{"hostPath": {"path": conf, "type": "FileOrCreate"}, "name": "kubeconfig"}]
    assert container["ports"] == [{"containerPort": line["secure-port"], "name": "probe-port", "protocol": "TCP"}]
    times = ("initialDelaySeconds", "timeoutSeconds", "failureThreshold", "periodSeconds")
    probes = {name: [container[name].get(time) for time in times] for name in PROBES}
    assert probes == {
        "startupProbe": [10, 15, 24, 10],
        "livenessProbe": [10, 15, 8, 10],
        "readinessProbe": [None, 15, 3, 1],
    }
    paths = [container[name]["httpGet"]["path"] for name in PROBES]
    assert paths == ["/livez", "/livez", "/readyz"]
    # No user: it is the image's, and has to be root to read the kubeconfig.
    assert STATIC["spec"]["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}}
    assert "securityContext" not in container


def test_kubeadms_patch_changes_the_image_alone():
    (patch,) = objects(STATIC_POD.parent / "patches" / "kube-scheduler+strategic.yaml")
    (container,) = patch["spec"]["containers"]
    (patched,) = STATIC["spec"]["containers"]
    assert patch == {"spec": {"containers": [container]}}
    assert container == {"name": patched["name"], "image": patched["image"]}


def test_images_are_placeholders_that_no_registry_has():
    images = {one["image"] for one in [*POD["containers"], *STATIC["spec"]["containers"]]}
    assert images == {"YOUR-REGISTRY/stowplan:VERSION", "YOUR-REGISTRY/stowplan:VERSION-static-pod"}


def test_objects_are_unique_and_have_a_namespace():
    keys = [(one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]) for one in ALL]
    assert len(keys) == len(set(keys))
    cluster_wide = {"ClusterRole", "ClusterRoleBinding"}
    assert all(bool(namespace) != (kind in cluster_wide) for kind, namespace, _ in keys)
