"""Registered metrics compared with the recorded facts about the reference, in both directions."""

import re
from dataclasses import dataclass

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse

from stowplan.kube.api.decode import convert
from stowplan.kube.api.types import Pod
from stowplan.kube.kubernetes_versions import V1_36
from stowplan.kube.metrics.families import Histogram
from stowplan.kube.metrics.registry import exponential_buckets
from stowplan.scheduler.inspection.resource_metrics import resource_page
from stowplan.testing import a_pod
from support.observing.component_metrics import all_gates_on, component, used_once
from support.paths import ROOT
from support.tables import every_case

SPEC = ROOT / "shared" / "spec" / "metrics.md"
pytestmark = pytest.mark.skipif(not SPEC.exists(), reason="the written facts are not here")

#: Families of the reference that are left out, with reasons.
LEFT_OUT = {
    "go_": "the runtime of Go",
    "informer_": "registered by the reference, without series in a scheduler",
    "aggregator_discovery_": "a by-product of linked server code",
    "apiserver_audit_": "a by-product of linked server code",
    "apiserver_envelope_encryption_": "a by-product of linked server code",
    "apiserver_storage_": "a by-product of linked server code",
    "apiserver_validation_": "a by-product of linked server code",
    "apiserver_webhooks_x509_": "a by-product of linked server code",
}
#: Families that the reference does not have.
OURS = ("stowplan_", "python_")


@dataclass(frozen=True)
class Stated:
    """A recorded metric; None is unknown."""

    labels: tuple[str, ...]
    type: str | None = None
    stability: str | None = None
    buckets: tuple[float, ...] | None = None


@pytest.fixture(scope="module")
def registered():
    """Families of the main page by name, with every vector used once, and the bounds of the histograms."""
    metrics = component(gates=all_gates_on(V1_36))
    used_once(metrics)
    return {family.name: (family, bounds(family)) for family in metrics.registry.families()}


def bounds(family):
    (first, *_) = [child for _, child in family.series()]
    return first.bounds if isinstance(first, Histogram) else ()


def section(number):
    text = SPEC.read_text().split(f"\n## {number}. ")[1]
    return text.split("\n## ")[0]


def rows(text):
    """Cells of the first table, without its header."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def label_names(cell):
    """hinted: hint, no_hint; profile" has the labels hinted and profile."""
    cell = re.sub(r"\([^)]*\)", "", cell)
    if cell.strip() == "–":
        return ()
    groups = [group.partition(":")[0] for group in cell.split(";")]
    return tuple(name.strip() for group in groups for name in group.split(","))


def bucket_bounds(cell, before):
    if cell == "same":
        return before
    exponential = re.fullmatch(r"exp\(([^,]+),([^,]+),([^,]+)\)", cell)
    if exponential:
        start, factor, count = exponential.groups()
        return exponential_buckets(float(start), float(factor), int(count))
    return tuple(float(bound) for bound in re.split(r"[,\s]+", cell) if bound)


def table(text, prefix=""):
    stated, buckets = {}, ()
    for names, type_, stability, labels, bucket_cell, *_ in rows(text):
        buckets = bucket_bounds(bucket_cell, buckets)
        for name in names.split(","):
            stated[prefix + name.strip()] = Stated(label_names(labels), type_, stability, buckets)
    return stated


def of_volumes(text):
    found = re.findall(r"`(scheduler_volume_\w+)` (\w+) ([A-Z]+) \{(\w+)", text)
    return {name: Stated((label,), type_, stability, ()) for name, type_, stability, label in found}


def of_kubernetes(text):
    """`name gauge BETA =1 {labels}`, some with several names before the type."""
    found = re.findall(r"((?:\w+, )*\w+) (counter|gauge) (ALPHA|BETA|STABLE)(?: =1)?(?: \{([^{}]*)\})?", text)
    return {
        name: Stated(label_names(re.sub(r'""', "", labels)) if labels else (), type_, stability, ())
        for names, type_, stability, labels in found
        for name in names.split(", ")
    }


def of_process(text):
    names = [name for name in re.findall(r"process_\w+", text) if name != "process_"]
    return {name: Stated((), "counter" if name.endswith("_total") else "gauge", "") for name in names}


def of_serving(text):
    (line,) = [line for line in text.splitlines() if line.startswith("* Serving")]
    line = re.sub(r"(\w+)_total/_duration_seconds(\{\w+\})", r"\1_total\2, \1_duration_seconds\2", line)
    cache = re.search(r"(authentication_token_cache_)\{((?:\w+\{[^}]*\}(?:, )?)+)\}", line)
    inside = re.sub(r"(\w+)\{", cache[1] + r"\1{", cache[2])
    line = line.replace(cache[0], inside)
    named = re.findall(r"(\w+)(?:\{(\w+)[^}]*\})?(?=[,.] ?|$)", line.partition(": ")[2])
    return {name: Stated((label,) if label else (), None, "ALPHA") for name, label in named if "_" in name}


def stated():
    second, fourth, fifth = section(2), section(4), section(5)
    return {
        **table(second, "scheduler_"),
        **of_volumes(second),
        **table(fourth),
        **of_kubernetes(fifth),
        **of_process(fifth.split("* go_")[0]),
        **of_serving(fifth),
    }


def test_the_facts_were_read():
    facts = stated()
    assert len(facts) >= 85
    assert facts["scheduler_pending_pods"] == Stated(("queue",), "gauge", "STABLE", ())
    assert facts["scheduler_get_node_hint_duration_seconds"].labels == ("hinted", "profile")
    assert facts["rest_client_response_size_bytes"].buckets[-1] == 16777216
    assert facts["rest_client_rate_limiter_duration_seconds"].buckets[-1] == 60
    assert facts["authentication_token_cache_fetch_total"].labels == ("status",)
    assert facts["apiserver_delegated_authz_request_duration_seconds"].labels == ("code",)
    assert facts["kubernetes_feature_enabled"] == Stated(("name", "stage"), "gauge", "BETA", ())
    assert facts["disabled_metrics_total"] == Stated((), "counter", "BETA", ())
    assert facts["apiserver_client_certificate_expiration_seconds"].labels == ()


def test_no_metric_is_missing(registered):
    assert {name for name in stated().keys() - registered.keys() if not name.startswith(tuple(LEFT_OUT))} == set()


def test_only_our_own_metrics_are_additional(registered):
    assert {name for name in registered.keys() - stated().keys() if not name.startswith(OURS)} == set()


def test_each_metric_is_as_recorded(registered):
    with every_case() as case:
        for name, fact in stated().items():
            with case(name):
                check_as_recorded(*registered[name], fact)


def check_as_recorded(family, buckets, fact):
    assert family.labels == fact.labels
    if fact.type is not None:
        assert family.kind == fact.type
    if fact.stability is not None:
        prefix = f"[{fact.stability}] " if fact.stability else ""
        assert re.match(r"(\[\w+\] )?", family.help)[0] == prefix
    if fact.buckets is not None:
        assert buckets == fact.buckets


def test_the_page_of_resources():
    facts = {
        name: Stated(label_names(labels), type_, stability)
        for name, type_, stability, labels in rows(section(6).replace("| same |", f"| {rows(section(6))[0][3]} |"))
    }
    pod = convert(a_pod().requests(cpu="1").limits(cpu="1").obj(), Pod)
    shown = {f.name: f for f in parse(b"".join(resource_page([pod])).decode())}
    assert shown.keys() == facts.keys()
    for name, fact in facts.items():
        assert shown[name].type == fact.type
        assert shown[name].documentation.startswith(f"[{fact.stability}] ")
        assert set(shown[name].samples[0].labels) == set(fact.labels)


def test_the_page_of_health_checks():
    found = re.findall(r"(kubernetes_\w+) (gauge|counter) (STABLE) \{([^{}]*)\}", section(7))
    facts = {
        name: (type_, stability, set(label_names(labels.split(":")[0]))) for name, type_, stability, labels in found
    }
    assert len(facts) == 2
    metrics = component()
    metrics.health.observe("ping", "healthz", True)
    shown = {}
    for family in parse(metrics.slis_page("")[1].decode()):
        name = family.samples[0].name
        shown[name] = (family.type, family.documentation.split()[0].strip("[]"), set(family.samples[0].labels))
    assert shown.pop("process_start_time_seconds")[0] == "gauge"
    assert shown == facts
