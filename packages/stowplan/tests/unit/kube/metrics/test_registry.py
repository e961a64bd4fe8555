"""The content of a registry, and the effects of flags and resets."""

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse

from stowplan.kube.metrics.registry import MetricsOptions, MetricsRegistry, exponential_buckets, render


def shown_families(registry):
    return list(parse(render([registry], "")[1].decode()))


def values(registry):
    """The numbers by sample name and label values."""
    return {(s.name, *s.labels.values()): s.value for family in shown_families(registry) for s in family.samples}


def test_plain_metrics_show_at_once_and_vectors_after_their_first_use():
    registry = MetricsRegistry()
    registry.counter("plain_total", "Plain.")
    registry.gauge("level", "Level.")
    registry.histogram("took_seconds", "Took.", (1.0,))
    vector = registry.counter_vec("by_kind_total", "By kind.", ("kind",))
    before = {family.name for family in shown_families(registry)}
    assert before == {"plain", "level", "took_seconds"}
    vector.with_label_values("a")
    assert values(registry)["by_kind_total", "a"] == 0


def test_families_come_by_name_and_series_by_their_values():
    registry = MetricsRegistry()
    later = registry.gauge_vec("b", "B.", ("x", "y"))
    registry.gauge("a", "A.")
    for pair in (("2", "1"), ("1", "2"), ("1", "1")):
        later.with_label_values(*pair)
    assert list(values(registry)) == [("a",), ("b", "1", "1"), ("b", "1", "2"), ("b", "2", "1")]


@pytest.mark.parametrize(
    ("stability", "help"), [("STABLE", "[STABLE] How many."), ("ALPHA", "[ALPHA] How many."), ("", "How many.")]
)
def test_help_begins_with_the_stability(stability, help):
    registry = MetricsRegistry()
    registry.counter("a_total", "How many.", stability=stability)
    assert [family.documentation for family in shown_families(registry)] == [help]


def test_a_name_can_be_taken_once():
    registry = MetricsRegistry()
    registry.gauge("a", "A.")
    with pytest.raises(ValueError, match="a is registered twice"):
        registry.counter("a", "A.")


def test_buckets_must_ascend():
    with pytest.raises(ValueError, match="h: buckets must ascend"):
        MetricsRegistry().histogram("h", "H.", (1.0, 1.0))


def test_exponential_buckets_multiply_step_by_step():
    assert exponential_buckets(0.00001, 1.5, 3) == (1e-05, 1.5000000000000002e-05, 2.2500000000000005e-05)
    assert exponential_buckets(0.00001, 1.5, 20)[-1] == 0.02216837820053101
    assert exponential_buckets(1, 2, 5) == (1, 2, 4, 8, 16)


class TestReadAtTheScrape:
    def test_a_refresher_sets_its_metrics_before_they_are_shown(self):
        registry = MetricsRegistry()
        gauge = registry.gauge("level", "Level.")
        registry.at_scrape(gauge.inc)
        assert values(registry) == {("level",): 1}
        assert values(registry) == {("level",): 2}


class TestMetaMetrics:
    def test_registered_metrics_are_counted_by_stability(self):
        registry = MetricsRegistry()
        registry.gauge("a", "A.", stability="STABLE")
        registry.gauge_vec("b", "B.", ("x",))
        registry.gauge("c", "C.", stability="")
        registry.register_meta_metrics()
        shown = values(registry)
        assert shown["registered_metrics_total", "", "STABLE"] == 1
        assert shown["registered_metrics_total", "", "BETA"] == 3
        assert shown["registered_metrics_total", "", "ALPHA"] == 2

    def test_disabled_ones_are_counted_and_not_shown(self):
        registry = MetricsRegistry(MetricsOptions.of(disabled=["a", "nobody_knows_it", "a"]))
        registry.gauge("a", "A.").set(5)
        registry.gauge("b", "B.")
        registry.register_meta_metrics()
        shown = values(registry)
        assert ("a",) not in shown
        assert ("b",) in shown
        assert shown[("disabled_metrics_total",)] == 2
        assert shown[("hidden_metrics_total",)] == 1
        assert shown["registered_metrics_total", "", "ALPHA"] == 2

    def test_a_disabled_vector_may_still_be_moved(self):
        registry = MetricsRegistry(MetricsOptions.of(disabled=["a_total", "h"]))
        registry.counter_vec("a_total", "A.", ("x",)).with_label_values("1").inc()
        registry.histogram_vec("h", "H.", ("x",), (1.0,)).with_label_values("1").observe(3)
        assert values(registry) == {}

    def test_unexpected_label_values_are_counted(self):
        registry = MetricsRegistry(MetricsOptions.of(allow_labels={"a_total,x": "1,2", "b_total,x": "3"}))
        counter = registry.counter_vec("a_total", "A.", ("x", "y"))
        registry.register_meta_metrics()
        for x in ("1", "2", "3"):
            counter.with_label_values(x, "any").inc()
        shown = values(registry)
        assert {key: value for key, value in shown.items() if key[0] == "a_total"} == {
            ("a_total", "1", "any"): 1,
            ("a_total", "2", "any"): 1,
            ("a_total", "unexpected", "any"): 1,
        }
        assert shown[("cardinality_enforcement_unexpected_categorizations_total",)] == 1

    def test_even_they_can_be_disabled(self):
        registry = MetricsRegistry(MetricsOptions.of(disabled=["hidden_metrics_total"]))
        registry.register_meta_metrics()
        assert ("hidden_metrics_total",) not in values(registry)


class TestReset:
    @pytest.fixture
    def registry(self):
        registry = MetricsRegistry()
        registry.counter("a_total", "A.").inc()
        registry.counter_vec("b_total", "B.", ("x",)).with_label_values("1").inc()
        registry.histogram_vec("c", "C.", ("x",), (1.0,)).with_label_values("1").observe(0.5)
        registry.histogram("d", "D.", (1.0,)).observe(0.5)
        registry.gauge_vec("e", "E.", ("x",)).with_label_values("1").set(5)
        registry.gauge("f", "F.").set(6)
        registry.reset()
        return registry

    def test_counters_restart_at_zero(self, registry):
        assert values(registry)[("a_total",)] == 0

    def test_vectors_forget_their_series(self, registry):
        assert not {key for key in values(registry) if key[0].startswith(("b", "c"))}

    def test_gauges_keep_their_values(self, registry):
        assert values(registry)["e", "1"] == 5
        assert values(registry)[("f",)] == 6

    def test_a_histogram_without_labels_is_kept_as_upstream_keeps_it(self, registry):
        assert values(registry)[("d_count",)] == 1


def test_options_from_flags():
    options = MetricsOptions.of(disabled=["a", ""], allow_labels={"metric,label": "v1,v2", "metric,other": ""})
    assert options.disabled == {"a"}
    assert options.allowed_values == {("metric", "label"): {"v1", "v2"}, ("metric", "other"): {""}}
