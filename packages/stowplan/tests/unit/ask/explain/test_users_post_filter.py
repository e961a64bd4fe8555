"""Plans of out-of-tree PostFilter plugins are shown like DefaultPreemption's; failing explanations lose only their
text."""

import logging

import pytest

import stowplan
from stowplan.plugins import (
    Code,
    EvictionPlan,
    PostFilterPlugin,
    PostFilterResult,
    Preemption,
    Status,
    eviction,
    unschedulable,
)
from stowplan.testing import a_node, a_pod
from support.plugins.answering_plugins import configuration

SUCCESS = Status(Code.Success)


def config(*names):
    disabled = [] if "DefaultPreemption" in names else [{"name": "DefaultPreemption"}]
    post_filter = {"enabled": [{"name": name} for name in names], "disabled": disabled}
    return configuration({"plugins": {"postFilter": post_filter}})


class Ousting(PostFilterPlugin):
    """Evicts all pods of the last node that has any."""

    name = "Ousting"
    effect_free = True

    def post_filter(self, state, pod, diagnosis):
        node = [node for node in self.handle.nodes() if node.pods][-1]
        plan = EvictionPlan(
            preemptor=pod, node_name=node.name, victims=tuple(node.pods), plugin=self.name, pdb_violations=1
        )
        return PostFilterResult(SUCCESS, node.name, plan=plan)


class Choosy(Ousting):
    name = "Choosy"

    def preemption(self, result):
        candidates = {node.name: eviction(node.name, node.pods) for node in self.handle.nodes()}
        return Preemption(candidates=candidates, best=("a", result.plan.node_name))


class Forgetful(Ousting):
    name = "Forgetful"

    def preemption(self, result):
        raise RuntimeError("lost my notes")


class Moving(PostFilterPlugin):
    """Nominates a node without evictions."""

    name = "Moving"
    effect_free = True

    def post_filter(self, state, pod, diagnosis):
        return PostFilterResult(SUCCESS, "b")


class Refusing(PostFilterPlugin):
    name = "Refusing"
    effect_free = True

    def post_filter(self, state, pod, diagnosis):
        return PostFilterResult(unschedulable("not again"), detail="everybody has been moved twice today")

    def preemption(self, result):
        return Preemption(unhelpful=result.detail)


class Silent(PostFilterPlugin):
    name = "Silent"
    effect_free = True

    def post_filter(self, state, pod, diagnosis):
        return PostFilterResult(unschedulable("nothing to say"))


def objects():
    nodes = [a_node(name).allocatable(cpu="1").obj() for name in "ab"]
    return [*nodes, *(a_pod(f"on-{name}").priority(3).requests(cpu="1").on(name).obj() for name in "ab")]


def waiting():
    return a_pod("web").requests(cpu="1").obj()


def of(plugin, *more):
    """A profile with these PostFilter plugins, the first of which is not in-tree."""
    return {"config": config(plugin.name, *(p if isinstance(p, str) else p.name for p in more)), "plugins": [plugin]}


def record(plugin, *more):
    return stowplan.Cluster(objects(), **of(plugin, *more)).explain(waiting()).to_dict().get("preemption")


def test_a_plan_is_shown(page):
    text = page(objects(), waiting(), **of(Ousting))
    shown = text[text.index("Preemption (Ousting)\n") :].splitlines()[1:3]
    assert shown == [
        "  would evict 1 pod from b: 1 eviction against a disruption budget",
        "    default/on-b  priority 3",
    ]
    candidate = {"victims": ["default/on-b"], "pdbViolations": 1}
    assert record(Ousting) == {
        "plugin": "Ousting",
        "eligible": True,
        "candidates": {"b": candidate},
        "selected": ["b"],
    }


def test_details_are_shown_with_the_plan(page):
    text = page(objects(), waiting(), **of(Choosy))
    assert "1 other node would do as well, a at the same price" in text
    found = record(Choosy)
    assert found["selected"] == ["a", "b"]
    assert set(found["candidates"]) == {"a", "b"}


def test_a_nomination_without_evictions_is_shown(page):
    text = page(objects(), waiting(), **of(Moving))
    assert "Preemption (Moving)\n  would be nominated to b, no pod is evicted\n" in text
    assert record(Moving)["candidates"] == {"b": {"victims": [], "pdbViolations": 0}}


def test_why_nothing_helps(page):
    text = page(objects(), waiting(), **of(Refusing))
    assert "Preemption (Refusing)\n  would not help: everybody has been moved twice today\n" in text


def test_the_plugin_that_succeeds_is_shown_before_those_that_refused(page):
    plugins = {"config": config("Refusing", "Ousting"), "plugins": [Refusing, Ousting]}
    text = page(objects(), waiting(), **plugins)
    assert "Preemption (Ousting)\n" in text
    assert "Refusing" not in text


def test_refusals_do_not_hide_details_of_other_plugins(page):
    assert "Preemption (DefaultPreemption)\n" in page(objects(), waiting(), **of(Silent, "DefaultPreemption"))


def test_a_refusal_without_details_has_no_section(page):
    assert "Preemption" not in page(objects(), waiting(), **of(Silent))
    assert record(Silent) is None


@pytest.mark.parametrize("asked_for", ["page", "record"])
def test_a_failing_explanation_loses_only_its_text(page, caplog, asked_for):
    with caplog.at_level(logging.ERROR):
        if asked_for == "page":
            assert "would evict 1 pod from b: " in page(objects(), waiting(), **of(Forgetful))
        else:
            assert record(Forgetful)["selected"] == ["b"]
    assert "a plugin's explanation failed and is left out" in caplog.text
