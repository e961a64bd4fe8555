"""Alerts and dashboard use only metrics, types and labels that the scheduler has."""

import json
import re
import shutil
import subprocess
from collections import Counter

import pytest
import yaml

from stowplan.kube.config import DEFAULT_FEATURES
from stowplan.kube.metrics.component import BuildInfo, CompatibilityVersions, ComponentMetrics
from stowplan.kube.metrics.registry import MetricsOptions
from support.processes.deployments import MONITORING, ROOT

ALERTS = yaml.safe_load((MONITORING / "alerts.yaml").read_text())
DASHBOARD = json.loads((MONITORING / "dashboard.json").read_text())
ALERTS_TEST = ROOT / "tests" / "packaging" / "deploy" / "alerts_test.yaml"
RULES = {rule["alert"]: rule for group in ALERTS["groups"] for rule in group["rules"]}
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
#: Labels and series that Prometheus adds itself.
TARGET_LABELS = {"job", "instance", "namespace"}
OF_PROMETHEUS = {"up": set()}
#: PromQL keywords that are followed by a parenthesis or placed between operands.
WORDS = {
    *("sum", "max", "by", "rate", "increase", "changes", "deriv", "absent", "topk", "histogram_quantile"),
    *("and", "or", "unless", "label_values"),
}


def blank(kind):
    return kind(**dict.fromkeys(kind.__struct_fields__, ""))


@pytest.fixture(scope="module")
def known():
    """Name of a series -> its labels."""
    metrics = ComponentMetrics(
        MetricsOptions(),
        gates=DEFAULT_FEATURES,
        features=(),
        build=blank(BuildInfo),
        versions=blank(CompatibilityVersions),
        stowplan_version="",
    )
    found = dict(OF_PROMETHEUS)
    for family in metrics.registry.families():
        labels = set(family.labels)
        if family.kind == "histogram":
            found[f"{family.name}_bucket"] = {*labels, "le"}
            found[f"{family.name}_sum"] = found[f"{family.name}_count"] = labels
        else:
            found[family.name] = labels
    return found


def selectors(expression):
    """Each metric of an expression with the labels in its selector."""
    plain = re.sub(r"\b(by|without|on) \([^)]*\)", "", expression)
    plain = re.sub(r"\[[^\]]*\]|\boffset \w+", "", plain)
    found = []
    for name, _, matchers in re.findall(r"([a-zA-Z_:][\w:]*)\s*(\{([^}]*)\})?", _without_values(plain)):
        if name not in WORDS:
            found.append((name, set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers))))
    return found


def _without_values(text):
    """Label values may be anything."""
    return re.sub(r'"[^"]*"', '""', text)


def grouped(expression):
    return {label.strip() for labels in re.findall(r"\bby \(([^)]*)\)", expression) for label in labels.split(",")}


def shown(text):
    return set(re.findall(r"\$labels\.(\w+)", text))


def queries():
    for name, rule in RULES.items():
        labels = shown(" ".join(rule["annotations"].values()))
        yield pytest.param(rule["expr"], labels, id=name)
    for panel in PANELS:
        for target in panel["targets"]:
            labels = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            yield pytest.param(target["expr"], labels, id=f"{panel['title']} {target['refId']}")


QUERIES = list(queries())


@pytest.mark.parametrize(("expression", "shows"), QUERIES)
def test_metrics_and_labels_exist(known, expression, shows):
    asked = selectors(expression)
    assert asked
    for name, labels in asked:
        assert name in known, name
        assert labels <= known[name] | TARGET_LABELS, name
    here = {label for name, _ in asked for label in known[name]} | TARGET_LABELS
    assert grouped(expression) <= here
    assert shows <= (grouped(expression) or here)


@pytest.mark.parametrize(("expression", "shows"), QUERIES)
def test_quantiles_use_buckets_and_rates_use_counters(expression, shows):
    assert ("histogram_quantile" in expression) == ("_bucket" in expression)
    if "histogram_quantile" in expression:
        assert "le" in grouped(expression)
    for name in re.findall(r"(?:rate|increase)\(\s*(\w+)", expression):
        assert name.endswith(("_total", "_bucket", "_sum", "_count")) or name == "authentication_attempts"
    assert expression.count("(") == expression.count(")")
    assert expression.count("{") == expression.count("}")


@pytest.mark.parametrize(("expression", "shows"), QUERIES)
def test_queries_count_pending_pods_of_the_leader_only(expression, shows):
    """All pending pods of a standby are in its active queue, as it does not pop them."""
    counts_active = "scheduler_pending_pods" in expression and 'queue="unschedulable"' not in expression
    assert counts_active == ("unless on (job, instance) leader_election_master_status" in expression)


def test_a_missing_metric_is_found(known):
    assert selectors('sum by (a) (rate(nope_total{b="c", d=~"e|f"}[5m])) > 0.5 and up == 1') == [
        ("nope_total", {"b", "d"}),
        ("up", set()),
    ]
    assert "nope_total" not in known


def test_every_alert_is_documented():
    headings = re.findall(r"^### (\w+)$", (ROOT / "docs/run/operate.md").read_text(), re.MULTILINE)
    assert [heading for heading in headings if heading.startswith(("Scheduler", "Stowplan"))] == list(RULES)


def test_alerts_have_severity_and_annotations():
    for rule in RULES.values():
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert set(rule["annotations"]) == {"summary", "description"}


def test_each_alert_has_cases_that_fire_and_that_do_not():
    cases = yaml.safe_load(ALERTS_TEST.read_text())
    assert [(ALERTS_TEST.parent / file).resolve() for file in cases["rule_files"]] == [MONITORING / "alerts.yaml"]
    tests = [case for group in cases["tests"] for case in group["alert_rule_test"]]
    fires = Counter(case["alertname"] for case in tests if "exp_alerts" in case)
    is_quiet = Counter(case["alertname"] for case in tests if "exp_alerts" not in case)
    assert set(fires) == set(is_quiet) == set(RULES)


@pytest.mark.parametrize("arguments", [["check", "rules", MONITORING / "alerts.yaml"], ["test", "rules", ALERTS_TEST]])
def test_prometheus_agrees(arguments):
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed")
    ran = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_prometheus_reads_the_queries_of_panels(tmp_path):
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed")
    expressions = [target["expr"] for panel in PANELS for target in panel["targets"]]
    rules = [
        {"record": f"panel:query:{number}", "expr": expression.replace("$__rate_interval", "1m")}
        for number, expression in enumerate(expressions)
    ]
    path = tmp_path / "panels.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    ran = subprocess.run([program, "check", "rules", path], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"SUCCESS: {len(expressions)} rules found" in ran.stdout


def test_panels_neither_overlap_nor_share_an_id():
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    taken = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells


def test_panels_use_the_selected_jobs_and_instances():
    for panel in PANELS:
        for target in panel["targets"]:
            for _, labels in selectors(target["expr"]):
                assert {"job", "instance"} <= labels, panel["title"]


def test_the_dashboard_has_the_panels_that_operators_need():
    rows = [panel["title"] for panel in DASHBOARD["panels"] if panel["type"] == "row"]
    wanted = ["Now", "Pods", "Latency", "Extension points and plugins", "Preemption", "API server", "Process"]
    assert rows == wanted
