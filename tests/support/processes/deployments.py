"""The objects in `deploy/`: manifests, rules, and the chart if `helm` is installed."""

import shutil
import subprocess

import pytest
import yaml

from support.paths import ROOT

DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "chart" / "stowplan"
SECOND_SCHEDULER = DEPLOY / "manifests" / "second-scheduler"
FEATURE_GATES = DEPLOY / "manifests" / "feature-gates"
REBALANCE = DEPLOY / "manifests" / "rebalance"
STATIC_POD = DEPLOY / "manifests" / "static-pod" / "kube-scheduler.yaml"
MONITORING = DEPLOY / "monitoring"
#: The required value of the chart.
IMAGE = "registry.example/stowplan"
SPEC = ROOT.parent / "shared" / "spec"


def objects(*paths):
    return [document for path in paths for document in yaml.safe_load_all(path.read_text()) if document]


def second_scheduler():
    return objects(*sorted(SECOND_SCHEDULER.glob("*.yaml")))


def named(documents, kind, name):
    (found,) = (one for one in documents if (one["kind"], one["metadata"]["name"]) == (kind, name))
    return found


def rights(*roles):
    """(group, resource, name or "", verb) of each right of the roles; ("url", path, "", verb) for paths."""
    found = set()
    for rule in (rule for role in roles for rule in role["rules"]):
        groups = rule.get("apiGroups", ["url"])
        resources = rule.get("resources", rule.get("nonResourceURLs"))
        found |= {
            (group, resource, name, verb)
            for group in groups
            for resource in resources
            for name in rule.get("resourceNames", [""])
            for verb in rule["verbs"]
        }
    return found


def rendered(*options, values=None, release="stowplan", namespace="kube-system"):
    """The objects of the chart; skips without `helm`."""
    options = (f"--namespace={namespace}", "--kube-version=1.36.0", f"--set=image.repository={IMAGE}", *options)
    ran = helm("template", release, str(CHART), *options, stdin=yaml.safe_dump(values or {}))
    assert ran.returncode == 0, ran.stderr
    return [document for document in yaml.safe_load_all(ran.stdout) if document]


def helm(*arguments, stdin=""):
    program = shutil.which("helm")
    if program is None:
        pytest.skip("helm is not installed")
    return subprocess.run([program, *arguments], input=stdin, capture_output=True, text=True, timeout=60)


def custom_resource(group, kind):
    """A definition that accepts anything: enough to create objects of a kind of the Prometheus operator."""
    plural = f"{kind.lower()}s"
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": anything}},
            ],
        },
    }
