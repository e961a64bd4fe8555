"""The same workloads on the embedded cluster and in a simulation: the same pods after each settled moment.

Compared are each pod's template, when it was created, and whether it runs. Names differ: the API server makes them up.
"""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.api.timestamps import parse_timestamp
from stowplan_lab.simulation.simulate import simulate_scenario
from support.examples import examples
from support.live.controller_cluster import START, LiveCluster, workload
from support.scenarios.manifests import container, group, scenario

#: Seconds from a pod's creation until it runs, and between changes of a workload. Never the same moment.
STARTUP, BETWEEN = 101, 30
DURATION = 2000


def template(cpu):
    return {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container(f"{cpu}m")]}}


class Simulated:
    """A simulation of changes: rollouts to a template of this size, and scaling."""

    def __init__(self, spec, changes):
        events = []
        for place, (cpu, replicas) in enumerate(changes, start=1):
            event = {"scale": {"workload": "web", "replicas": replicas}}
            if cpu:
                event = {"rollout": {"workload": "web", "patch": {"spec": {"template": template(cpu)}}}}
            events.append({"at": place * BETWEEN, **event})
        # Without rollouts there is nothing to model but a ReplicaSet.
        events.append({"at": DURATION - 1, "rollout": {"workload": "web"}})
        found = simulate_scenario(
            scenario(
                {"name": "web", "manifest": {"kind": "Deployment", "spec": spec}},
                groups=[group(count=1, cpu=100, labels={})],
                events=events,
                duration=DURATION,
                models={"startup": STARTUP, "termination": 0, "controllerDelay": 0},
            )
        )
        self._rows = found.decisions

    def pods(self, at):
        # One that is deleted before it has a node just ends.
        gone = [row.ended if row.evicted is None else row.evicted for row in self._rows]
        there = [row for row, end in zip(self._rows, gone, strict=True) if row.arrived <= at and (end or DURATION) > at]
        return Counter((row.requests["cpu"], row.arrived, row.placed + STARTUP <= at) for row in there)


class Embedded:
    """The workload on the embedded cluster, whose pods start as those of the simulation do."""

    def __init__(self, spec):
        self.cluster = LiveCluster()
        self.cluster.add_node("node-1")
        self.cluster.create({**workload("Deployment"), "spec": spec})
        self._settle()

    def _settle(self):
        self.cluster.settle()
        while self.cluster.finish_deletions():
            self.cluster.settle()

    @property
    def passed(self):
        return self.cluster.now - START

    def apply(self, cpu, replicas):
        if cpu:
            self.cluster.change("Deployment", "web", lambda obj: obj["spec"].update(template=template(cpu)))
        else:
            self.cluster.scale("Deployment", "web", replicas)
        self._settle()

    def moments(self, until):
        """Go on to each time at which something happens, until then."""
        while True:
            starts = [self._created(pod) + STARTUP for pod in self.cluster.pods() if self._is_pending(pod)]
            due = self.cluster.loop.next_due()
            at = min([until, *starts, *([] if due is None else [due - START])])
            self.cluster.now = max(self.cluster.now, START + at)
            for pod in self.cluster.pods():
                if self._is_pending(pod) and self._created(pod) + STARTUP <= self.passed:
                    self.cluster.bind(pod["metadata"]["name"], "node-1")
                    self.cluster.set_pod(pod["metadata"]["name"])
            self._settle()
            if at >= until:
                return
            yield at

    def _created(self, pod):
        return parse_timestamp(pod["metadata"]["creationTimestamp"]) - START

    def _is_pending(self, pod):
        return pod["status"]["phase"] == "Pending"

    def pods(self):
        def cpu(pod):
            return int(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"].removesuffix("m"))

        return Counter((cpu(pod), self._created(pod), not self._is_pending(pod)) for pod in self.cluster.pods())


sizes = st.integers(0, 9)
amounts = st.sampled_from([0, 1, 3, "25%", "60%", "100%"])
strategies = st.one_of(
    st.just({"type": "Recreate"}),
    st.builds(
        lambda surge, unavailable: {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": surge or (0 if unavailable else 1), "maxUnavailable": unavailable},
        },
        amounts,
        amounts,
    ),
)


@examples(60)
@given(
    sizes,
    strategies,
    st.sampled_from([0, 13]),
    st.lists(st.tuples(st.sampled_from([0, 0, 100, 200, 300]), sizes), max_size=8),
)
def test_deployments(replicas, strategy, min_ready, changes):
    spec = {
        "replicas": replicas,
        "strategy": strategy,
        "minReadySeconds": min_ready,
        "selector": {"matchLabels": {"app": "web"}},
        "template": template(100),
    }
    simulated, embedded = Simulated(spec, changes), Embedded(spec)
    assert embedded.pods() == simulated.pods(0.5)
    for place, change in enumerate([*changes, None], start=1):
        until = place * BETWEEN if change else DURATION - 100
        for at in embedded.moments(until):
            assert embedded.pods() == simulated.pods(at + 0.5), f"{at} seconds from the start"
        if change:
            embedded.apply(*change)
        assert embedded.pods() == simulated.pods(until + 0.5), f"after change {place}, {until} seconds from the start"
