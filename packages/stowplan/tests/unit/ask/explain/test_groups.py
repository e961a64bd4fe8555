"""Explaining a pod group as a whole: which pods fit together, what is missing per domain, and suggestions."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stowplan
from stowplan.ask.explain.text.group_text import group_page
from stowplan.ask.explain.text.tables import plain
from stowplan.ask.what_if import group_relief
from stowplan.scheduler.framework.status import Code
from stowplan.testing import a_node, a_pod
from support.examples import times
from support.extenders.running import configuration

GATES = {"GenericWorkload": True, "GangScheduling": True, "TopologyAwareWorkloadScheduling": True}
RACK = "example.com/rack"


def rack(name, nodes, cpu="4"):
    size = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    return [a_node(f"{name}-{i}").allocatable(**size).labels(**{RACK: name}).obj() for i in range(nodes)]


def members(count, cpu="1500m", group="train", **spec):
    together = {"schedulingGroup": {"podGroupName": group}}
    return [a_pod(f"{group}-{i}").requests(cpu=cpu).spec(**together, **spec).obj() for i in range(count)]


def a_group(gang=None, *, topology=None, name="train"):
    spec = {"schedulingPolicy": {"basic": {}} if gang is None else {"gang": {"minCount": gang}}}
    if topology:
        spec["schedulingConstraints"] = {"topology": [{"key": topology}]}
    metadata = {"name": name, "namespace": "default", "generation": 1}
    return {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": metadata, "spec": spec}


def cluster_of(*objects, gates=GATES):
    flat = [one for obj in objects for one in (obj if isinstance(obj, list) else [obj])]
    return stowplan.Cluster(flat, feature_gates=gates, emulated_version="1.36")


def page(cluster, group="train", *, wide=False):
    verdict = cluster.explain_group(group)
    return plain(group_page(verdict, group_relief(cluster, verdict), wide=wide))


@pytest.fixture
def racks():
    """One rack that fits six of eight, and one that fits two."""
    return cluster_of(rack("small", 1), rack("large", 3), members(8), a_group(8, topology=RACK))


class TestVerdicts:
    def test_one_row_per_domain(self, racks):
        rows = racks.explain_group("train").rows()
        assert [(row["domain"], row["placed"], row["lacking"], row["fits"]) for row in rows] == [
            ("large", 6, 2, False),
            ("small", 2, 6, False),
        ]
        assert all("Insufficient cpu" in row["why"] for row in rows)

    def test_pods_that_fit_together_and_missing_resources(self, racks):
        verdict = racks.explain_group("train")
        assert not verdict.fits
        best, other = verdict.ranked
        assert (best.name, len(best.placed), verdict.lacking(best)) == ("large", 6, 2)
        assert (other.name, len(other.placed), verdict.lacking(other)) == ("small", 2, 6)
        assert verdict.lacking_resources(best) == {"cpu": "3"}
        # Numbers of nodes are per domain.
        assert {refused.reason for refused in best.refused} == {"0/3 nodes are available: 3 Insufficient cpu."}
        assert {refused.reason for refused in other.refused} == {"0/1 nodes are available: 1 Insufficient cpu."}
        first = "0/2 placements are available, first placement status: pod group is unschedulable"
        assert verdict.status.message == first

    def test_asking_changes_nothing(self, racks):
        before = racks.state.version
        racks.explain_group("train")
        assert racks.state.version == before
        assert racks.pending() == [f"default/train-{i}" for i in range(8)]

    def test_a_group_that_fits_is_placed_as_the_verdict_says(self):
        cluster = cluster_of(rack("small", 1), rack("large", 4), members(8), a_group(8, topology=RACK))
        verdict = cluster.explain_group("train")
        assert verdict.fits
        said = {placed.pod.key: placed.node for placed in verdict.best.placed}
        assert {decision.pod.key: decision.node_name for decision in cluster.schedule()} == said

    def test_a_placed_group_is_evaluated_again(self):
        cluster = cluster_of(rack("large", 4), members(4), a_group(4))
        cluster.schedule()
        verdict = cluster.explain_group("train")
        assert verdict.judged_as_pending
        assert verdict.fits
        assert "judged as if they were placed now" in page(cluster)
        assert len(cluster.state.pod_groups.placed("default/train")) == 4

    def test_additional_pods(self):
        cluster = cluster_of(rack("large", 1), members(2), a_group(2))
        cluster.schedule()
        for pod in members(4)[2:]:
            cluster.add(pod)
        verdict = cluster.explain_group("train")
        assert [info.key for info in verdict.staying] == ["default/train-0", "default/train-1"]
        # The quorum is complete: the condition would be about the new pods.
        assert verdict.lacking(verdict.best) == 0

    def test_the_rest_of_the_gang_is_missing(self):
        cluster = cluster_of(rack("large", 3), members(2), a_group(4))
        verdict = cluster.explain_group("train")
        assert set(verdict.gated) == {"default/train-0", "default/train-1"}
        assert "is held back: waiting for minCount pods" in verdict.in_words()
        # They are tried nevertheless, and fit.
        assert len(verdict.best.placed) == 2
        assert group_relief(cluster, verdict) == []
        assert "the gang needs 4 pods and has 2" in page(cluster)

    def test_a_gated_member_is_excluded(self):
        pods = members(3)
        pods[2]["spec"]["schedulingGates"] = [{"name": "quota"}]
        verdict = cluster_of(rack("large", 3), pods, a_group(3)).explain_group("train")
        assert verdict.left_out == ["default/train-2"]
        assert [info.key for info in verdict.pods] == ["default/train-0", "default/train-1"]
        assert not verdict.fits

    def test_victims(self):
        low = [a_pod(f"low-{i}").requests(cpu="4").spec(priority=1, nodeName=f"large-{i}").obj() for i in range(2)]
        cluster = cluster_of(rack("large", 2), low, members(2, cpu="4", priority=10), a_group(2))
        verdict = cluster.explain_group("train")
        assert verdict.waiting
        assert not verdict.fits
        assert "would evict 2 pods: default/low-0, default/low-1" in page(cluster)
        assert len(list(cluster.state.placed_pods())) == 2

    def test_without_the_object(self):
        verdict = cluster_of(rack("large", 2), members(2)).explain_group("train")
        assert "there is no PodGroup object" in plain(group_page(verdict))
        assert set(verdict.gated) == {"default/train-0", "default/train-1"}

    def test_without_the_gates(self):
        verdict = cluster_of(rack("large", 2), members(2), a_group(2), gates=None).explain_group("train")
        assert verdict.best is None
        assert "the gate GenericWorkload is off" in verdict.in_words()

    def test_pods_for_several_schedulers(self):
        pods = [*members(1), *members(2, schedulerName="other")[1:]]
        verdict = cluster_of(rack("large", 2), pods, a_group(2)).explain_group("train")
        assert "its pods are for several schedulers: default-scheduler, other" in verdict.in_words()

    def test_an_unknown_group(self, racks):
        with pytest.raises(stowplan.ClusterError, match='pod group "default/tarin" not found'):
            racks.explain_group("tarin")


URL = "http://extender.example"
EXTENDER = {"urlPrefix": URL, "filterVerb": "filter", "preemptVerb": "preempt", "nodeCacheCapable": True}


class TestExtenders:
    def asked(self, *objects, refuses=(), gates=GATES):
        """A cluster with an extender that refuses some nodes, and its requests; with `refuses` None it fails."""
        calls = []

        def answer(url, body):
            if refuses is None:
                raise RuntimeError("no")
            calls.append((url.rpartition("/")[2], body["Pod"]["metadata"]["name"]))
            kept = [name for name in body["NodeNames"] if name not in refuses]
            return {"NodeNames": kept, "FailedNodes": dict.fromkeys(refuses, "not mine")}

        flat = [one for obj in objects for one in (obj if isinstance(obj, list) else [obj])]
        return stowplan.Cluster(
            flat, configuration(EXTENDER), feature_gates=gates, emulated_version="1.36", call_extender=answer
        ), calls

    def test_filter_is_called_per_pod(self):
        cluster, calls = self.asked(rack("r", 2), members(2), a_group(2), refuses=["r-1"])
        before = cluster.engine.dump()
        verdict = cluster.explain_group("train")
        assert calls == [("filter", "train-0"), ("filter", "train-1")]
        assert [(one.pod.name, one.node) for one in verdict.best.placed] == [("train-0", "r-0"), ("train-1", "r-0")]
        assert not verdict.not_asked
        assert cluster.engine.dump() == before

    def test_its_refusals_are_shown(self):
        cluster, _ = self.asked(rack("r", 2), members(2), a_group(2), refuses=["r-0", "r-1"])
        verdict = cluster.explain_group("train")
        assert not verdict.fits
        assert "2 not mine" in verdict.best.refused[0].reason
        # Larger nodes would not help.
        assert group_relief(cluster, verdict) == []

    def test_a_failing_extender(self):
        cluster, _ = self.asked(rack("r", 2), members(2), a_group(2), refuses=None)
        verdict = cluster.explain_group("train")
        assert verdict.status.code == Code.Error
        assert group_relief(cluster, verdict) == []

    def test_skipped_extenders_are_listed(self):
        cluster, calls = self.asked(rack("r", 2), members(2), a_group(2), refuses=["r-0", "r-1"])
        verdict = cluster.explain_group("train", extenders=False)
        assert verdict.fits
        assert calls == []
        (why,) = verdict.not_asked.values()
        assert "its filter and preempt may change this" in why
        assert verdict.to_dict()["notAsked"] == verdict.not_asked
        text = plain(group_page(verdict))
        assert "Not asked" in text
        assert why in text

    def test_victims(self):
        low = [a_pod("low").requests(cpu=4).spec(nodeName="r-0", priority=1).obj()]
        group = a_group(2) | {"spec": a_group(2)["spec"] | {"priority": 10}}
        gates = {**GATES, "WorkloadAwarePreemption": True}
        cluster, calls = self.asked(rack("r", 1), low, members(2), group, gates=gates)
        for extenders in (True, False):
            verdict = cluster.explain_group("train", extenders=extenders)
            assert verdict.waiting
            assert verdict.best.victims == ("default/low",)
        # The trial without the victim; preempt is not called.
        assert calls == [("filter", "train-0"), ("filter", "train-1")]


class TestPages:
    def test_as_text(self, racks):
        lines = page(racks).splitlines()
        assert lines[0] == (
            "pod group default/train does not fit: 6 of 8 pods fit together in large, 2 more pods are needed"
        )
        assert lines[1] == f"  a gang of at least 8; all on nodes with the same {RACK}"
        assert "  2 pods, requesting 3 cpu in all" in lines
        assert "  2 pods  default/train-6, default/train-7  0/3 nodes are available: 3 Insufficient cpu." in lines
        assert "  large-0  2 pods  default/train-0, default/train-3" in lines
        assert [line.split()[:4] for line in lines[-2:]] == [["large", "3", "6", "2"], ["small", "1", "2", "6"]]

    def test_as_data(self, racks):
        found = racks.explain_group("train").to_dict()
        assert (found["kind"], found["policy"], found["minCount"]) == ("ExplainGroup", "gang", 8)
        assert [(one["name"], one["lacking"]) for one in found["domains"]] == [("large", 2), ("small", 6)]
        assert found["domains"][0]["placed"][0] == {"pod": "default/train-0", "node": "large-0"}
        assert found["domains"][0]["refused"][0]["names"] == ["default/train-6", "default/train-7"]

    def test_in_notebooks(self, racks):
        html = racks.explain_group("train")._repr_html_()
        assert '<td style="text-align:left">large</td>' in html
        assert "0/3 nodes are available: 3 Insufficient cpu." in html


class TestSince137:
    """A trial ends once the gang cannot be complete, and minCount can be changed."""

    @pytest.fixture
    def racks(self):
        group = {**a_group(8, topology=RACK), "apiVersion": "scheduling.k8s.io/v1beta1"}
        objects = [*rack("small", 1), *rack("large", 3), *members(8), group]
        gates = {name: on for name, on in GATES.items() if name != "GangScheduling"}
        return stowplan.Cluster(objects, feature_gates=gates, emulated_version="1.37")

    def test_pods_that_were_not_tried_are_refused_with_the_group(self, racks):
        verdict = racks.explain_group("train")
        assert [(row["domain"], row["placed"], row["lacking"]) for row in verdict.rows()] == [
            ("large", 6, 2),
            ("small", 2, 6),
        ]
        assert [refused.reason for refused in verdict.ranked[1].refused][1:] == [
            "minCount (8) cannot be satisfied: 2 scheduled, 5 remaining"
        ] * 5

    def test_a_smaller_min_count_needs_no_other_group(self, racks):
        found = {one.changes[0]["kind"]: one for one in group_relief(racks, racks.explain_group("train"))}
        assert found["addNodes"].pods == 8
        assert found["minCount"].changes == ({"kind": "minCount", "value": 6},)
        assert found["minCount"].note == ""
        assert "create another one" in found["dropTopology"].note


class TestRelief:
    def test_each_suggestion_was_tried(self, racks):
        found = {one.changes[0]["kind"]: one for one in group_relief(racks, racks.explain_group("train"))}
        assert found["addNodes"].text == "add 1 node like large-0"
        assert found["addNodes"].pods == 8
        assert found["minCount"].changes == ({"kind": "minCount", "value": 6},)
        assert found["dropTopology"].pods == 8
        (smaller,) = (one for kind, one in found.items() if kind not in ("addNodes", "minCount", "dropTopology"))
        assert smaller.text == "of all its pods, request 1 cpu instead of 1500m"

    def test_no_suggestions_for_a_group_that_fits(self):
        cluster = cluster_of(rack("large", 4), members(8), a_group(8))
        assert group_relief(cluster, cluster.explain_group("train")) == []

    @settings(max_examples=times(25), deadline=None)
    @given(
        sizes=st.lists(st.integers(1, 3), min_size=1, max_size=3),
        pods=st.integers(1, 9),
        share=st.integers(1, 9),
        topology=st.booleans(),
    )
    def test_verdicts_agree_with_scheduling(self, sizes, pods, share, topology):
        """If the verdict says that the gang fits, it is placed completely; otherwise no pod is."""
        nodes = [rack(f"r{i}", size) for i, size in enumerate(sizes)]
        group = a_group(min(share, pods), topology=RACK if topology else None)
        cluster = cluster_of(*nodes, members(pods), group)
        verdict = cluster.explain_group("train")
        placed = sum(bool(decision.node_name) for decision in cluster.schedule())
        assert placed == (len(verdict.best.placed) if verdict.fits else 0)
