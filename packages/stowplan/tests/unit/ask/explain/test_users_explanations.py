"""Explanations of out-of-tree plugins are shown, and their remedies tried together with those of in-tree plugins.

A failing explanation loses only its own text. Scheduling imports none of this.
"""

import logging
import subprocess
import sys

import numpy as np
import pytest

from stowplan.plugins import (
    Change,
    Dial,
    Explanation,
    NodeFilterPlugin,
    NodeScorePlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    Reason,
    Remedy,
    ShapeSigned,
    unresolvable,
    unschedulable,
    with_labels,
)
from stowplan.testing import a_node, a_pod
from support.plugins.answering_plugins import configuration

TOO_LOUD = Reason("TooLoud", "node(s) want quieter pods")


def config(name):
    return configuration({"plugins": {"multiPoint": {"enabled": [{"name": name}]}}})


def loudness(pod):
    return int(pod.labels.get("loudness", "0"))


class QuietExplained(Explanation):
    def detail(self, row, reason):
        return f"takes up to {self.inspection.node(row).metadata.labels['limit']}"

    def depends_on(self, reason):
        return [self.inspection.table.label("limit").codes]

    def obstacles(self):
        limits = [
            int(self.inspection.node(row).metadata.labels["limit"]) for row in np.flatnonzero(self.inspection.valid)
        ]
        if loudness(self.inspection.pod) > 100 + max(limits):
            yield "no node will ever take a pod that loud"

    def remedy(self, mask):
        return TurnDown(self.inspection, mask)

    def of_score(self, row):
        return f"is quiet up to {self.inspection.node(row).metadata.labels['limit']}"

    def facts(self):
        yield f"its loudness is {loudness(self.inspection.pod)}"


class TurnDown(Remedy):
    """How much quieter the pod must become."""

    def __init__(self, inspection, mask):
        super().__init__(inspection, mask)
        rows = np.flatnonzero(mask)
        if len(rows) and loudness(inspection.pod) <= 50:
            self.add_class(rows)

    def ways(self, kind, rows):
        now = loudness(self.inspection.pod)

        def at(by):
            text = f"turn the pod down by {by}"
            return Change("loudness", text, {"by": by}, on_pod=lambda pod: with_labels(pod, loudness=str(now - by)))

        return [(Dial(1, now, at),)]


class Quiet(NodeFilterPlugin, ShapeSigned):
    name = "Quiet"
    explained = QuietExplained

    def filter_node(self, state, pod, node):
        limit = int(node.node.metadata.labels["limit"])
        return unresolvable(TOO_LOUD) if loudness(pod) > limit else None

    def explanation(self, inspection):
        return self.explained(inspection)


def nodes(*limits):
    return [a_node(f"n{i}").labels(limit=str(limit)).allocatable(cpu="2").obj() for i, limit in enumerate(limits)]


def loud(level, **requests):
    return a_pod("loud").labels(loudness=str(level)).requests(**requests or {"cpu": "1"}).obj()


def test_details_are_summarized(page):
    text = page(nodes(10, 10, 20), loud(30), config=config("Quiet"), plugins=[Quiet])
    assert "node(s) want quieter pods" in text
    assert "2× takes up to 10, 1× takes up to 20" in text
    wide = page(nodes(10, 20), loud(30), config=config("Quiet"), plugins=[Quiet], wide=True)
    assert "takes up to 10" in wide
    assert "takes up to 20" in wide


def test_remedies_are_tried_and_minimized(advice):
    found = advice(nodes(10, 20), loud(30), config=config("Quiet"), plugins=[Quiet])
    assert [s.text for s in found.suggestions] == ["turn the pod down by 10 to gain 1 node (n1)"]


def test_remedies_are_combined_with_those_of_in_tree_plugins(texts):
    objects = [*nodes(10), a_pod("db").requests(cpu="1500m").on("n0").obj()]
    (text,) = texts(objects, loud(30), config=config("Quiet"), plugins=[Quiet])
    assert text == "request 500m cpu instead of 1 and turn the pod down by 20 to gain 1 node (n0)"


def test_obstacles_are_listed(advice):
    found = advice(nodes(10), loud(130), config=config("Quiet"), plugins=[Quiet])
    assert found.suggestions == ()
    assert found.obstacles == ("no node will ever take a pod that loud",)


def test_what_scores_rest_on_and_facts_are_said_of_a_pod_that_fits(page):
    class Ranked(Quiet, NodeScorePlugin):
        name = "Ranked"

        def score_node(self, state, pod, node):
            return 5

    text = page(nodes(40, 50), loud(30), config=config("Ranked"), plugins=[Ranked])
    assert "Ranked: n0 is quiet up to 40; n1 is quiet up to 50" in text
    assert "its loudness is 30" in text
    assert "its loudness is 90" in page(nodes(40), loud(90), config=config("Ranked"), plugins=[Ranked])


class Broken(Explanation):
    def detail(self, row, reason):
        raise RuntimeError("no words")

    obstacles = remedy = ways_for_pod = of_score = facts = detail


class BrokenWays(Explanation):
    def remedy(self, mask):
        found = Remedy(self.inspection, mask)
        found.add_class(np.flatnonzero(mask))
        found.ways = lambda kind, rows: [(Change("odd", "do it", {}, on_pod=lambda pod: 1 / 0),)]
        return found


def nothing(inspection):
    raise RuntimeError("not built")


@pytest.mark.parametrize("explained", [Broken, BrokenWays, nothing])
def test_a_failing_explanation_loses_only_its_text(page, advice, caplog, explained):
    class Failing(Quiet):
        name = "Failing"

    Failing.explained = staticmethod(explained)
    with caplog.at_level(logging.ERROR):
        text = page(nodes(10), loud(30), config=config("Failing"), plugins=[Failing])
    assert "node(s) want quieter pods" in text
    assert advice(nodes(10), loud(30), config=config("Failing"), plugins=[Failing]).suggestions == ()
    assert caplog.records


# -- refusals by PreFilter and PreEnqueue


class TicketExplained(Explanation):
    def ways_for_pod(self):
        return [
            (Change("ticket", "get a ticket", {"ticket": "any"}, on_pod=lambda pod: with_labels(pod, ticket="any")),)
        ]


class Ticket(PreFilterPlugin, ShapeSigned):
    name = "Ticket"

    def pre_filter(self, state, pod, nodes):
        return None if "ticket" in pod.labels else unresolvable("no ticket")

    def explanation(self, inspection):
        return TicketExplained(inspection)


class TicketGate(PreEnqueuePlugin):
    name = "TicketGate"

    def pre_enqueue(self, pod):
        return None if "ticket" in pod.labels else unschedulable("no ticket")

    def explanation(self, inspection):
        return TicketExplained(inspection)


@pytest.mark.parametrize("plugin", [Ticket, TicketGate])
def test_remedies_for_pre_filter_and_pre_enqueue(texts, plugin):
    assert texts(nodes(10), loud(0), config=config(plugin.name), plugins=[plugin]) == [
        "get a ticket to gain 1 node (n0)"
    ]


# -- cost


@pytest.mark.slow
def test_scheduling_imports_no_explanation():
    code = (
        "import sys, stowplan\n"
        "from stowplan.testing import a_node, a_pod\n"
        "cluster = stowplan.Cluster([a_node('n').obj(), a_pod('p').obj(), a_pod('q').requests(cpu='900').obj()])\n"
        "cluster.schedule()\n"
        "print([name for name in sys.modules if '.in_tree.' in name and 'explanation' in name])\n"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
