"""Traces as workloads, with a fake importer."""

from __future__ import annotations

import pytest

from stowplan.kube.api.meta import ObjectMeta
from stowplan.kube.api.pod import Container, Pod, PodSpec
from stowplan_lab.simulation.scenario_errors import ScenarioError
from stowplan_lab.simulation.simulate import simulate_scenario
from stowplan_lab.traces.trace import FORMATS, Arrival, TraceError


class Given:
    """A trace of times."""

    def __init__(self, times):
        self._times = times
        self.skipped = 0
        self.count = len(times)

    def nodes(self):
        return ()

    def arrivals(self):
        spec = PodSpec(containers=(Container(name="c", image="i"),))
        for number, at in enumerate(self._times):
            if at == "broken":
                raise TraceError(f"line {number + 1}: it is broken")
            yield Arrival(at, Pod(metadata=ObjectMeta(name=f"t-{number}"), spec=spec), 10.0)


def open_given(options, folder):
    if set(options) != {"times"}:
        raise TraceError("want times")
    return Given(options["times"])


@pytest.fixture(autouse=True)
def _given_format(monkeypatch):
    monkeypatch.setitem(FORMATS, "given", (__name__, "open_given"))
    monkeypatch.setattr(
        "stowplan_lab.traces.trace.import_module", lambda name: pytest.importorskip("sys").modules[name]
    )


def simulated(times, **more):
    trace = {"format": "given", "times": times}
    return simulate_scenario(
        {
            "cluster": {"groups": [{"name": "a", "count": 1, "capacity": {"cpu": 1}}]},
            "workloads": [{"name": "t", "trace": trace, **more}],
            "models": {"startup": 0},
        }
    )


def test_pods_are_created_and_finish_at_their_times():
    found = simulated([0, 3, 3, 7])
    assert [(row.pod, row.arrived, row.ended) for row in found.decisions] == [
        ("default/t-0", 0, 10),
        ("default/t-1", 3, 13),
        ("default/t-2", 3, 13),
        ("default/t-3", 7, 17),
    ]


def test_a_trace_is_shifted_and_sped_up():
    found = simulated([0, 4], at=100, speed=2)
    assert [(row.arrived, row.ended) for row in found.decisions] == [(100, 105), (102, 107)]


@pytest.mark.parametrize(
    ("times", "problem"),
    [([0, "broken"], "workloads: t: line 2: it is broken"), ([5, 3], "t-1 comes at 3, before the pod ahead of it")],
)
def test_invalid_traces(times, problem):
    with pytest.raises(ScenarioError, match=problem):
        simulated(times)


def test_unknown_options_of_an_importer():
    with pytest.raises(ScenarioError, match="want times"):
        simulate_scenario(
            {
                "cluster": {"groups": [{"name": "a", "count": 1, "capacity": {"cpu": 1}}]},
                "workloads": [{"name": "t", "trace": {"format": "given"}}],
            }
        )
