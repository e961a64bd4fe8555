"""Pages, parsed by Prometheus' own parsers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from stowplan.kube.metrics.registry import OPENMETRICS, TEXT, MetricsRegistry, go_float, render


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
    families = list(parse_text(body.decode()))
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
    assert [f.name for f in parse_text(body)] == ["a", "b", "c"]


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

    ours = read(parse_text, "")
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
