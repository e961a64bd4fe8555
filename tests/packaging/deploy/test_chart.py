"""The chart: its templates use existing values, its schema covers them all, and it renders to the manifests.

Tests that render need `helm`; the others read the templates as text.
"""

import json
import re
from itertools import chain

import pytest
import yaml

from stowplan import __version__, load_config
from support.processes.deployments import (
    CHART,
    FEATURE_GATES,
    IMAGE,
    MONITORING,
    helm,
    named,
    objects,
    rendered,
    second_scheduler,
)

VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
TEMPLATES = {path.name: path.read_text() for path in sorted((CHART / "templates").iterdir())}
EVERYTHING = (
    "podMonitor.enabled=true",
    "serviceMonitor.enabled=true",
    "prometheusRule.enabled=true",
    "dashboard.enabled=true",
    "networkPolicy.enabled=true",
)
#: Maps with arbitrary keys.
OPEN = {"config", "featureGates", "resources", "nodeSelector", "affinity", "podLabels", "podAnnotations", "global"}


def actions(text):
    """The text between {{ and }}, without comments."""
    found = re.findall(r"\{\{-?\s*(.*?)\s*-?\}\}", text, re.DOTALL)
    return [action for action in found if not action.startswith("/*")]


def sets(*values):
    return list(chain.from_iterable(("--set", value) for value in values))


# -- as text


@pytest.mark.parametrize("name", TEMPLATES)
def test_blocks_are_closed(name):
    depth = 0
    for action in actions(TEMPLATES[name]):
        word = action.split(maxsplit=1)[0]
        depth += (word in ("if", "with", "range", "define")) - (word == "end")
        assert depth >= (word == "else")
    assert depth == 0
    assert len(re.findall(r"\{\{.*?\}\}", TEMPLATES[name], re.DOTALL)) == TEMPLATES[name].count("{{")


@pytest.mark.parametrize("name", TEMPLATES)
def test_values_used_by_templates_exist(name):
    for path in re.findall(r"\.Values\.([\w.]+)", TEMPLATES[name]):
        at = VALUES
        for key in path.split("."):
            assert key in at, f"{name}: .Values.{path}"
            at = at[key]


def test_all_values_are_used():
    text = "\n".join(TEMPLATES.values())
    election = {"leaderElection.leaseDuration", "leaderElection.renewDeadline", "leaderElection.retryPeriod"}
    for path in _paths(VALUES):
        assert re.search(rf"\.Values\.{re.escape(path)}\b", text) or path in election, path


def _paths(values, prefix=""):
    for key, value in values.items():
        if isinstance(value, dict) and value and key not in (*OPEN, "labels"):
            yield from _paths(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"


def test_a_feature_gate_brings_the_rights_of_its_manifest():
    gate, file = "GenericWorkload", "pod-groups.yaml"
    condition = rf'index \.Values\.featureGates "{gate}"'
    (block,) = re.findall(rf"{condition}.*?\}}\}}\n(.*?)\{{\{{- end", TEMPLATES["rbac.yaml"], re.DOTALL)
    role, _ = objects(FEATURE_GATES / file)
    assert yaml.safe_load(block) == role["rules"]


def test_included_templates_exist():
    text = "\n".join(TEMPLATES.values())
    included, defined = (set(re.findall(rf'{word} "([\w.]+)"', text)) for word in ("include", "define"))
    assert included == defined


def test_included_files_are_those_of_monitoring():
    shown = set(re.findall(r'\.Files\.Get "([^"]+)"', "\n".join(TEMPLATES.values())))
    assert {(CHART / name).resolve() for name in shown} == {
        MONITORING / "alerts.yaml",
        MONITORING / "dashboard.json",
    }


def test_the_schema_knows_the_values_and_no_others():
    _compare(SCHEMA, VALUES, "values")


def _compare(schema, values, where):
    assert set(schema["properties"]) - {"global"} == set(values), where
    assert schema["additionalProperties"] is False, where
    for key, value in values.items():
        known = schema["properties"][key]
        if isinstance(value, dict) and key not in (*OPEN, "labels", "annotations"):
            _compare(known, value, f"{where}.{key}")
        elif "enum" in known:
            assert value in known["enum"], f"{where}.{key}"
        else:
            types = {bool: "boolean", int: "integer", str: "string", list: "array", dict: "object"}
            assert types[type(value)] in known["type"], f"{where}.{key}"


def test_the_image_is_the_users_own():
    assert VALUES["image"]["repository"] == ""
    assert "required" in TEMPLATES["_helpers.tpl"].split(".Values.image.repository")[0].splitlines()[-1]


def test_its_version_is_the_package_version():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == __version__


# -- rendered


def plain(document):
    """As in the manifests: without what only a release has."""
    document = json.loads(json.dumps(document))
    places = [document["metadata"]]
    if document["kind"] == "Deployment":
        template = document["spec"]["template"]
        places.append(template["metadata"])
        document["spec"]["selector"]["matchLabels"].pop("app.kubernetes.io/instance", None)
        (container,) = template["spec"]["containers"]
        container["image"] = "IMAGE"
        (term,) = template["spec"]["affinity"]["podAntiAffinity"].popitem()[1]
        term["podAffinityTerm"]["labelSelector"]["matchLabels"].pop("app.kubernetes.io/instance", None)
        template["spec"]["affinity"] = term
        template["metadata"].get("annotations", {}).pop("checksum/config", None)
    if "selector" in document.get("spec", {}):
        selector = document["spec"]["selector"]
        selector.get("matchLabels", selector).pop("app.kubernetes.io/instance", None)
    for metadata in places:
        metadata["labels"] = {"app.kubernetes.io/name": metadata["labels"]["app.kubernetes.io/name"]}
        if not metadata.get("annotations", True):
            del metadata["annotations"]
    if document["kind"] == "ConfigMap":
        document["data"] = sorted(document["data"])
    return document


def by_name(documents):
    return {(one["kind"], one["metadata"]["name"]): plain(one) for one in documents}


def configuration(documents, tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text(named(documents, "ConfigMap", "stowplan")["data"]["config.yaml"])
    return load_config(str(file))


def test_it_renders_to_the_manifests(tmp_path):
    chart = rendered()
    assert by_name(chart) == by_name(second_scheduler())
    assert configuration(chart, tmp_path).to_dict() == configuration(second_scheduler(), tmp_path).to_dict()


def test_its_monitors_are_those_of_monitoring():
    chart = by_name(rendered(*sets(*EVERYTHING)))
    monitors = by_name(objects(MONITORING / "podmonitor.yaml", MONITORING / "servicemonitor.yaml"))
    assert {key: chart[key] for key in monitors} == monitors


def test_its_rules_and_dashboard_are_the_files():
    chart = rendered(*sets(*EVERYTHING))
    rules = yaml.safe_load((MONITORING / "alerts.yaml").read_text())
    assert named(chart, "PrometheusRule", "stowplan")["spec"] == rules
    shown = named(chart, "ConfigMap", "stowplan-dashboard")["data"]["stowplan.json"]
    assert json.loads(shown) == json.loads((MONITORING / "dashboard.json").read_text())


@pytest.mark.parametrize(
    ("values", "why"),
    [
        pytest.param(["image.repository="], "image.repository: name the repository", id="a stranger's image"),
        pytest.param(["leaderElection.enabled=false"], "more than one replica without leader election", id="no lease"),
        pytest.param(["schedulerName=default-scheduler"], "against the cluster's own scheduler", id="its name"),
        pytest.param(["profiles[0].plugins=null"], "against the cluster's own scheduler", id="its name by default"),
        pytest.param(["serviceAccount.create=false"], "serviceAccount.name: name the account", id="no account"),
        pytest.param(["replica=3"], "dditional propert.*replica.* not allowed", id="unknown value"),
        pytest.param(["plugins.classes={my_module}"], "oes not match pattern", id="no class"),
        pytest.param(["fullnameOverride=Mine"], "oes not match pattern", id="no name of an object"),
        pytest.param(["leaderElection.leaseDuration=15"], "leaseDuration.*(Invalid type|want string)", id="no unit"),
        pytest.param(["extraEnv[0].value=x"], "extraEnv.*name", id="a variable without a name"),
    ],
)
def test_harmful_values_are_refused(values, why):
    ran = helm("template", "s", str(CHART), "--kube-version=1.36.0", f"--set=image.repository={IMAGE}", *sets(*values))
    assert ran.returncode == 1
    # The schema's messages differ between versions 3 and 4 of Helm.
    assert re.search(why, ran.stderr)


@pytest.mark.parametrize("named_by", ["release", "fullnameOverride"])
def test_it_can_be_installed_in_another_namespace_with_another_name(named_by, tmp_path):
    if named_by == "release":
        documents = rendered(*sets(*EVERYTHING), release="other", namespace="apart")
    else:
        documents = rendered(*sets(*EVERYTHING, "fullnameOverride=other"), namespace="apart")
    names = {one["metadata"]["name"] for one in documents}
    assert all(name == "other" or name.startswith("other-") for name in names)
    # The clients' certificate authorities are always in kube-system.
    elsewhere = {one["metadata"]["name"] for one in documents if one["metadata"].get("namespace") == "kube-system"}
    assert elsewhere == {"other-authentication-reader"}
    role = named(documents, "Role", "other-leader-election")
    assert role["metadata"]["namespace"] == "apart"
    assert [rule["resourceNames"] for rule in role["rules"] if "resourceNames" in rule] == [["other"]]
    file = tmp_path / "config.yaml"
    file.write_text(named(documents, "ConfigMap", "other")["data"]["config.yaml"])
    election = load_config(str(file)).leader_election
    assert (election.resource_namespace, election.resource_name) == ("apart", "other")
    accounts = {subject["namespace"] for one in documents for subject in one.get("subjects", [])}
    assert accounts == {"apart"}


def test_rbac_can_be_disabled():
    documents = rendered(*sets("rbac.create=false", "podMonitor.enabled=true"))
    assert not [one for one in documents if "rbac" in one["apiVersion"]]


def test_it_can_replace_the_clusters_scheduler(tmp_path):
    documents = rendered(*sets("schedulerName=default-scheduler", "leaderElection.resourceName=kube-scheduler"))
    config = configuration(documents, tmp_path)
    assert list(config.effective_plugins()) == ["default-scheduler"]
    assert config.leader_election.resource_name == "kube-scheduler"
    (rule,) = (r for r in named(documents, "Role", "stowplan-leader-election")["rules"] if "resourceNames" in r)
    assert rule["resourceNames"] == ["kube-scheduler"]


def test_further_configuration_is_rendered(tmp_path):
    values = {
        "config": {"percentageOfNodesToScore": 50, "clientConnection": {"qps": 500, "burst": 1000}},
        "profiles": [{"schedulerName": "a"}, {"schedulerName": "b", "percentageOfNodesToScore": 20}],
    }
    config = configuration(rendered("--values=-", values=values), tmp_path)
    assert config.percentage_of_nodes_to_score == 50
    assert config.client_connection.qps == 500
    assert list(config.effective_plugins()) == ["a", "b"]


@pytest.mark.parametrize(("via", "folder"), [("copy", "/opt/plugins"), ("volume", "/opt/plugins/plugins")])
def test_plugins_of_another_image_are_on_the_path(via, folder):
    documents = rendered(*sets("plugins.image=mine:1", f"plugins.via={via}", "plugins.classes={a.b:C,d:E}"))
    pod = named(documents, "Deployment", "stowplan")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["env"] == [{"name": "PYTHONPATH", "value": folder}]
    assert container["args"][-2:] == ["--plugin=a.b:C", "--plugin=d:E"]
    assert ("initContainers" in pod) == (via == "copy")
    (volume,) = (one for one in pod["volumes"] if one["name"] == "plugins")
    assert ("image" in volume) == (via == "volume")


def test_what_else_the_container_needs_is_added():
    mount = {"name": "ca", "mountPath": "/etc/extender"}
    volume = {"name": "ca", "secret": {"secretName": "extender-ca"}}
    values = {
        "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy.example:3128"}],
        "extraVolumes": [volume],
        "extraVolumeMounts": [mount],
    }
    for options in ((), sets("plugins.image=mine:1", "serving.certificateSecret=tls")):
        documents = rendered("--values=-", *options, values=values)
        pod = named(documents, "Deployment", "stowplan")["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        assert container["env"][-1:] == values["extraEnv"]
        assert container["volumeMounts"][-1] == mount
        assert pod["volumes"][-1] == volume


def test_a_custom_certificate_is_mounted_readably():
    documents = rendered(*sets("serving.certificateSecret=tls"))
    pod = named(documents, "Deployment", "stowplan")["spec"]["template"]["spec"]
    (volume,) = (one for one in pod["volumes"] if one["name"] == "serving")
    assert volume["secret"] == {"secretName": "tls", "defaultMode": 0o440}
    assert pod["securityContext"]["fsGroup"] == pod["securityContext"]["runAsGroup"]
    mount = next(one["mountPath"] for one in pod["containers"][0]["volumeMounts"] if one["name"] == "serving")
    files = [arg.partition("=")[2] for arg in pod["containers"][0]["args"] if arg.startswith("--tls-")]
    assert files == [f"{mount}/tls.crt", f"{mount}/tls.key"]


def test_a_single_replica_without_a_lease_is_recreated():
    documents = rendered(*sets("replicas=1", "leaderElection.enabled=false"))
    deployment = named(documents, "Deployment", "stowplan")
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}
    assert {one["kind"] for one in documents}.isdisjoint({"PodDisruptionBudget"})
    assert not any(one["metadata"]["name"].endswith("leader-election") for one in documents)


@pytest.mark.parametrize("extra", [(), EVERYTHING], ids=["defaults", "everything"])
def test_a_server_accepts_the_rendered_objects(real, extra):
    kept = ("PodMonitor", "ServiceMonitor", "PrometheusRule")
    documents = [one for one in rendered(*sets(*extra)) if one["kind"] not in kept]
    created = real.kubectl("create", "--dry-run=server", "--validate=strict", "-f", "-", stdin=documents)
    assert created.stdout.count("created (server dry run)") == len(documents)
