"""All metrics together: initial values, and the effects of gates, flags and resets."""

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse

from stowplan.kube.config.features import DEFAULT_FEATURES, default_features
from stowplan.kube.kubernetes_versions import V1_36, V1_37
from stowplan.kube.metrics.registry import MetricsOptions
from support.observing.component_metrics import FEATURES, all_gates_on, component, used_once


def series(page):
    """By sample name and labels, the numbers of a page."""
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in parse(page[1].decode())
        for sample in family.samples
    }


def families(metrics):
    return {family.name for family in metrics.registry.families()}


def test_pending_pods_show_from_the_start():
    shown = series(component().page(""))
    for queue in ("active", "backoff", "unschedulable", "gated"):
        assert shown["scheduler_pending_pods", ("queue", queue)] == 0


def test_without_an_exec_plugin_nothing_expires():
    assert series(component().page(""))[("rest_client_exec_plugin_ttl_seconds",)] == float("inf")


def test_versions_and_features():
    shown = series(component().page(""))
    (build,) = [dict(key[1:]) for key in shown if key[0] == "kubernetes_build_info"]
    assert build["git_version"] == "v1.36.2"
    assert build["go_version"] == "python3.11.9"
    assert list(build) == sorted(build)
    (version,) = [dict(key[1:]) for key in shown if key[0] == "version_info"]
    assert version == {"component": "kube", "binary": "1.36", "emulation": "1.36", "min_compat": "1.35"}
    for name, stage, on in FEATURES:
        assert shown["kubernetes_feature_enabled", ("name", name), ("stage", stage)] == on
    assert shown["stowplan_build_info", ("version", "9.9.9")] == 1


CLAIMS_CREATED = "dynamic_resource_allocation_resourceclaim_creates_total"


@pytest.mark.parametrize(
    ("gate", "names"),
    [
        (
            "SchedulerAsyncPreemption",
            {"preemption_goroutines_duration_seconds", "preemption_goroutines_execution_total"},
        ),
        (
            "SchedulerAsyncAPICalls",
            {
                "async_api_call_execution_total",
                "async_api_call_execution_duration_seconds",
                "pending_async_api_calls",
            },
        ),
        ("DRAExtendedResource", {CLAIMS_CREATED}),
        (
            "DRADeviceBindingConditions",
            {"dra_bindingconditions_allocations_total", "dra_bindingconditions_wait_duration_seconds"},
        ),
        (
            "GenericWorkload",
            {
                "podgroup_schedule_attempts_total",
                "podgroup_scheduling_attempt_duration_seconds",
                "podgroup_scheduling_algorithm_duration_seconds",
                "workload_preemption_attempts_total",
                "workload_preemption_victims",
                "preemption_workload_disruptions",
                "preemption_evaluation_duration_seconds",
                "preemption_execution_duration_seconds",
                "preemption_pdb_violations_total",
            },
        ),
        (
            "TopologyAwareWorkloadScheduling",
            {
                "generated_placements_total",
                "placement_evaluations_total",
                "placement_evaluation_duration_seconds",
            },
        ),
    ],
)
def test_metrics_of_disabled_gates_are_missing(gate, names):
    with_it = families(component(gates=all_gates_on()))
    metrics = component(gates=all_gates_on().with_gates({gate: False}))
    assert with_it - families(metrics) == {n if n == CLAIMS_CREATED else f"scheduler_{n}" for n in names}
    used_once(metrics)  # which harms nobody


def test_metrics_since_1_37():
    added = {
        "queue_incoming_entities_total",
        "queued_entities",
        "workload_preemption_attempts_total",
        "workload_preemption_victims",
        "preemption_workload_disruptions",
        "preemption_evaluation_duration_seconds",
        "preemption_execution_duration_seconds",
        "preemption_pdb_violations_total",
        "generated_placements_total",
        "placement_evaluations_total",
        "placement_evaluation_duration_seconds",
    }
    before, since = (families(component(gates=all_gates_on(version))) for version in (V1_36, V1_37))
    assert since - before == {CLAIMS_CREATED, *(f"scheduler_{name}" for name in added)}
    assert before - since == {"scheduler_resourceclaim_creates_total"}


@pytest.mark.parametrize(
    ("name", "then", "now"),
    [
        ("scheduling_algorithm_duration_seconds", "[ALPHA] How", "[BETA] How"),
        ("plugin_execution_duration_seconds", "[ALPHA] How", "[BETA] How"),
        ("preemption_goroutines_duration_seconds", "[ALPHA] How", "[ALPHA] (Deprecated since 1.37.0) How"),
    ],
)
def test_the_stability_of_a_metric_is_that_of_its_version(name, then, now):
    for version, start in ((V1_36, then), (V1_37, now)):
        registry = component(gates=all_gates_on(version)).registry
        (found,) = [family for family in registry.families() if family.name == f"scheduler_{name}"]
        assert found.help.startswith(start)


@pytest.mark.parametrize(
    ("version", "name", "labels"),
    [(V1_36, "scheduler_resourceclaim_creates_total", ("failure",)), (V1_37, CLAIMS_CREATED, ("failure", "false"))],
)
def test_claims_for_extended_resources(version, name, labels):
    metrics = component(gates=all_gates_on(version))
    metrics.scheduler.claim_for_extended_resources("failure")
    (found,) = [family for family in metrics.registry.families() if family.name == name]
    assert [(values, child.value) for values, child in found.series()] == [(labels, 1)]


@pytest.mark.parametrize("version", [V1_36, V1_37])
def test_each_version_has_metrics(version):
    """A removed gate is no reason to fail."""
    assert families(component(gates=default_features(version)))


def test_attributes_are_named_after_their_metrics():
    metrics = component(gates=all_gates_on(V1_37))
    prefixes = {metrics.scheduler: "scheduler_", metrics.client: "", metrics.serving: "", metrics.stowplan: "stowplan_"}
    names = {
        prefix + attribute for group, prefix in prefixes.items() for attribute in vars(group) if attribute[0] != "_"
    }
    assert names <= families(metrics)
    assert len(names) > 60


def test_disabled_metrics_are_on_neither_page():
    metrics = component(MetricsOptions.of(disabled=["scheduler_pending_pods", "kubernetes_healthcheck"]))
    metrics.health.observe("ping", "livez", True)
    assert not [key for key in series(metrics.page("")) if key[0] == "scheduler_pending_pods"]
    assert not [key for key in series(metrics.slis_page("")) if key[0] == "kubernetes_healthcheck"]


def test_a_reset_leaves_the_page_of_health_checks_alone():
    metrics = component(gates=DEFAULT_FEATURES)
    metrics.scheduler.preemption_attempts_total.inc()
    metrics.health.observe("ping", "livez", True)
    before = series(metrics.slis_page(""))
    metrics.reset()
    assert series(metrics.page(""))[("scheduler_preemption_attempts_total",)] == 0
    assert series(metrics.slis_page("")) == before


def test_health_checks():
    metrics = component()
    for ok in (True, True, False):
        metrics.health.observe("leaderElection", "readyz", ok)
    metrics.health.observe("ping", "livez", True)
    shown = series(metrics.slis_page(""))
    started = shown.pop(("process_start_time_seconds",))
    assert started > 1_500_000_000
    election = (("name", "leaderElection"), ("type", "readyz"))
    ping = (("name", "ping"), ("type", "livez"))
    assert shown == {
        ("kubernetes_healthcheck", *election): 0,
        ("kubernetes_healthcheck", *ping): 1,
        ("kubernetes_healthchecks_total", election[0], ("status", "success"), election[1]): 2,
        ("kubernetes_healthchecks_total", election[0], ("status", "error"), election[1]): 1,
        ("kubernetes_healthchecks_total", ping[0], ("status", "success"), ping[1]): 1,
    }
    metrics.reset_slis()
    assert not [key for key in series(metrics.slis_page("")) if key[0] == "kubernetes_healthchecks_total"]


def test_all_metrics_are_valid_openmetrics():
    from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics

    metrics = component(gates=all_gates_on())
    used_once(metrics)
    content_type, body = metrics.page("application/openmetrics-text")
    assert content_type.startswith("application/openmetrics-text")
    assert len(list(parse_openmetrics(body.decode()))) == len(families(metrics))
