"""The content of a registry, the effects of flags and resets, and pages, which Prometheus' own parsers read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse

from stowplan.kube.metrics.registry import (
    OPENMETRICS,
    TEXT,
    MetricsOptions,
    MetricsRegistry,
    exponential_buckets,
    go_float,
    render,
)


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


@pytest.fixture
def registry():
    registry = MetricsRegistry()
    registry.counter_vec("asked_total", "Asked.", ("who",)).with_label_values('"me"\\\n').inc(3)
    registry.counter_vec("authentication_attempts", "Attempts\nto enter.", ("result",)).with_label_values("ok").inc()
    registry.gauge("level", "Level.").set(0.25)
    took = registry.histogram("took_seconds", "Took.", (0.5, 1.0, 2592000.0))
    for seconds in (0.5, 0.7, 5e6):
        took.observe(seconds)
    registry.gauge_vec("silent", "Never used.", ("x",))
    return registry


def samples(families):
    return {(sample.name, *sorted(sample.labels.items())): sample.value for f in families for sample in f.samples}


NUMBERS = {
    ("asked_total", ("who", '"me"\\\n')): 3,
    ("authentication_attempts", ("result", "ok")): 1,
    ("level",): 0.25,
    ("took_seconds_sum",): 5000001.2,
    ("took_seconds_count",): 3,
}


def test_the_prometheus_text(registry):
    content_type, body = render([registry], "")
    assert content_type == TEXT
    families = list(parse(body.decode()))
    assert {(f.name, f.type, f.documentation) for f in families} == {
        ("asked", "counter", "[ALPHA] Asked."),
        ("authentication_attempts", "counter", "[ALPHA] Attempts\nto enter."),
        ("level", "gauge", "[ALPHA] Level."),
        ("took_seconds", "histogram", "[ALPHA] Took."),
    }
    assert 'authentication_attempts{result="ok"} 1' in body.decode().splitlines()
    numbers = samples(families)
    # Python's parser appends the missing suffix.
    numbers["authentication_attempts", ("result", "ok")] = numbers.pop(
        ("authentication_attempts_total", ("result", "ok"))
    )
    assert numbers == {
        **NUMBERS,
        ("took_seconds_bucket", ("le", "0.5")): 1,
        ("took_seconds_bucket", ("le", "1")): 2,
        ("took_seconds_bucket", ("le", "2.592e+06")): 2,
        ("took_seconds_bucket", ("le", "+Inf")): 3,
    }


def test_help_and_type_lines_are_those_of_the_reference(registry):
    heads = [line for line in render([registry], "")[1].decode().splitlines() if line.startswith("# TYPE")]
    assert heads == [
        "# TYPE asked_total counter",
        "# TYPE authentication_attempts counter",
        "# TYPE level gauge",
        "# TYPE took_seconds histogram",
    ]


def test_openmetrics(registry):
    content_type, body = render([registry], "application/openmetrics-text; version=1.0.0")
    assert content_type == OPENMETRICS
    assert body.endswith(b"# EOF\n")
    families = list(parse_openmetrics(body.decode()))
    assert {(f.name, f.type) for f in families} == {
        ("asked", "counter"),
        ("authentication_attempts", "unknown"),
        ("level", "gauge"),
        ("took_seconds", "histogram"),
    }
    assert samples(families) == {
        **NUMBERS,
        ("took_seconds_bucket", ("le", "0.5")): 1,
        ("took_seconds_bucket", ("le", "1.0")): 2,
        ("took_seconds_bucket", ("le", "2.592e+06")): 2,
        ("took_seconds_bucket", ("le", "+Inf")): 3,
    }


def test_there_are_no_created_series(registry):
    for accept in ("", "application/openmetrics-text"):
        assert b"_created" not in render([registry], accept)[1]


def test_several_registries_make_one_page_by_name():
    first, second = MetricsRegistry(), MetricsRegistry()
    first.gauge("a", "A.")
    first.gauge("c", "C.")
    second.gauge("b", "B.")
    body = render([first, second], "")[1].decode()
    assert [f.name for f in parse(body)] == ["a", "b", "c"]


PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0;q=0.6,application/openmetrics-text;version=0.0.1;q=0.5,"
    "text/plain;version=0.0.4;q=0.4,*/*;q=0.3"
)


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        pytest.param("", TEXT, id="nothing said"),
        pytest.param("*/*", TEXT, id="curl"),
        pytest.param("text/html,application/xhtml+xml", TEXT, id="a browser"),
        pytest.param(PROMETHEUS, TEXT, id="a Prometheus takes both: its series keep their names"),
        pytest.param("application/openmetrics-text", OPENMETRICS, id="nothing but OpenMetrics"),
        pytest.param("Application/OpenMetrics-Text;version=1.0.0 , application/json", OPENMETRICS, id="odd spelling"),
        pytest.param(
            "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited",
            TEXT,
            id="protocol buffers",
        ),
    ],
)
def test_content_negotiation(registry, accept, content_type):
    assert render([registry], accept)[0] == content_type


LABELS = st.text(st.characters(codec="utf-8"), max_size=8)
NUMBER = st.floats(allow_nan=False, min_value=0)


@given(st.dictionaries(st.tuples(LABELS, LABELS), NUMBER, max_size=5), st.lists(NUMBER, max_size=5))
def test_both_formats_agree(series, observed):
    """Our text, parsed by prometheus_client, compared with what prometheus_client writes."""
    registry = MetricsRegistry()
    gauge = registry.gauge_vec("level", "Level.", ("b", "a"))
    took = registry.histogram_vec("took_seconds", "Took.", ("z", "a"), (0.0, 0.25, 3.5e6))
    for labels, number in series.items():
        gauge.with_label_values(*labels).set(number)
        took.with_label_values(*labels)
        for seconds in observed:
            took.with_label_values(*labels).observe(seconds)

    def read(parser, accept):
        families = parser(render([registry], accept)[1].decode())
        return {
            (s.name, *sorted((k, float(v) if k == "le" else v) for k, v in s.labels.items())): s.value
            for family in families
            for s in family.samples
        }

    ours = read(parse, "")
    assert ours == read(parse_openmetrics, "application/openmetrics-text")
    assert {(key[1][1], key[2][1]): value for key, value in ours.items() if key[0] == "level"} == {
        (a, b): number for (b, a), number in series.items()
    }


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0"),
        (1.0, "1"),
        (-2.0, "-2"),
        (0.5, "0.5"),
        (100.0, "100"),
        (604800.0, "604800"),
        (999999.0, "999999"),
        (1000000.0, "1e+06"),
        (1048576.0, "1.048576e+06"),
        (2592000.0, "2.592e+06"),
        (124416000.0, "1.24416e+08"),
        (-1500000.5, "-1.5000005e+06"),
        (1e15, "1e+15"),
        (1e16, "1e+16"),
        (1.25e21, "1.25e+21"),
        (18446744073709551615.0, "1.8446744073709552e+19"),
        (0.001, "0.001"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (1.5000000000000002e-05, "1.5000000000000002e-05"),
        (0.02216837820053101, "0.02216837820053101"),
        (float("inf"), "+Inf"),
        (float("-inf"), "-Inf"),
    ],
)
def test_numbers_as_go_prints_them(number, text):
    assert go_float(number) == text


@given(st.floats(allow_nan=False))
def test_they_read_back_as_they_were(number):
    assert float(go_float(number)) == number
