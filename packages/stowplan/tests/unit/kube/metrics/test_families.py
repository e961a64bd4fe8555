"""Children are independent; vectors find them by label values, and forget those that a reset removes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.metrics.families import Counter, Gauge, Histogram, Vec

BOUNDS = st.lists(st.floats(allow_nan=False, allow_infinity=False), unique=True, max_size=8).map(
    lambda bounds: tuple(sorted(bounds))
)
VALUES = st.lists(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e9, max_value=1e9), max_size=30)


@given(BOUNDS, VALUES, st.data())
def test_histograms_agree_with_the_plain_rule(bounds, values, data):
    if bounds:
        values = values + data.draw(st.lists(st.sampled_from(bounds)))  # values on a bound
    histogram = Histogram(bounds)
    for value in values:
        histogram.observe(value)
    for place, bound in enumerate(bounds):
        assert sum(histogram.counts[: place + 1]) == sum(1 for value in values if value <= bound)
    assert histogram.count == len(values)
    assert histogram.sum == pytest.approx(sum(values))


def test_a_counter_adds_up():
    counter = Counter()
    counter.inc()
    counter.inc(2.5)
    counter.value += 1
    assert counter.value == 4.5


def test_a_gauge_goes_both_ways():
    gauge = Gauge()
    gauge.set(5)
    gauge.inc()
    gauge.dec(3)
    assert gauge.value == 3


def test_the_same_values_are_the_same_child():
    vector = Vec(("queue", "event"), Counter)
    vector.with_label_values("active", "PodAdd").inc()
    vector.with_label_values("active", "PodAdd").inc()
    vector.with_label_values("backoff", "PodAdd")
    assert shown(vector) == {("active", "PodAdd"): 2, ("backoff", "PodAdd"): 0}


@pytest.mark.parametrize("values", [(), ("a",), ("a", "b", "c")], ids=["none", "too few", "too many"])
def test_the_wrong_number_of_values_is_refused(values):
    vector = Vec(("queue", "event"), Counter)
    with pytest.raises(ValueError, match="take 2 values"):
        vector.with_label_values(*values)
    assert shown(vector) == {}


def shown(vector):
    return {values: child.value for values, child in vector.series()}


class TestReset:
    def test_children_are_hidden(self):
        vector = Vec(("queue",), Counter)
        vector.with_label_values("active").inc()
        vector.reset()
        assert shown(vector) == {}

    def test_a_held_child_reappears_when_updated(self):
        vector = Vec(("queue",), Counter)
        held = vector.with_label_values("active")
        held.inc(7)
        vector.reset()
        held.inc()
        assert shown(vector) == {("active",): 1}

    def test_a_held_histogram_reappears_when_updated(self):
        vector = Vec(("queue",), lambda: Histogram((1.0,)))
        held = vector.with_label_values("active")
        held.observe(0.5)
        vector.reset()
        assert list(vector.series()) == []
        held.observe(0)  # which leaves its sum at zero
        assert [(values, child.counts, child.sum) for values, child in vector.series()] == [(("active",), [1, 0], 0)]

    def test_a_requested_child_reappears_at_zero(self):
        vector = Vec(("queue",), Gauge)
        held = vector.with_label_values("active")
        held.set(3)
        vector.reset()
        assert vector.with_label_values("active") is held
        assert shown(vector) == {("active",): 0}

    def test_metrics_without_labels_stay(self):
        vector = Vec((), Counter)
        vector.with_label_values().inc()
        vector.reset()
        assert shown(vector) == {(): 0}


class TestAllowLists:
    def test_other_values_share_a_child_and_are_counted(self):
        unexpected = Counter()
        vector = Vec(("queue", "event"), Counter, allowed={"event": frozenset({"PodAdd"})}, unexpected=unexpected)
        vector.with_label_values("active", "PodAdd").inc()
        vector.with_label_values("active", "NodeAdd").inc()
        vector.with_label_values("active", "NodeUpdate").inc()
        assert shown(vector) == {("active", "PodAdd"): 1, ("active", "unexpected"): 2}
        assert unexpected.value == 2

    def test_each_label_outside_its_list_counts(self):
        unexpected = Counter()
        both = {"queue": frozenset({"active"}), "event": frozenset({"PodAdd"})}
        vector = Vec(("queue", "event"), Counter, allowed=both, unexpected=unexpected)
        vector.with_label_values("gated", "NodeAdd").inc()
        assert shown(vector) == {("unexpected", "unexpected"): 1}
        assert unexpected.value == 2
