"""Pages of a running scheduler about its pods agree with an explanation from outside, and asking has no side
effects."""

import asyncio
import inspect
import json
from types import SimpleNamespace

import pytest

from stowplan.app.daemon import decision_pages as scheduler_pages
from stowplan.app.daemon.decision_pages import SchedulerPages
from stowplan.ask.explain.text.tables import page_from_json, plain
from stowplan.ask.offline import Cluster
from stowplan.kube.api.api_errors import BadRequest, NotFound, ServiceUnavailable, TooManyRequests
from stowplan.kube.config.features import with_chosen
from stowplan.kube.kubernetes_versions import V1_36
from stowplan.plugins import Code, PermitPlugin, Status
from stowplan.scheduler.engine.decision.decision import GROUP_UNSCHEDULABLE
from stowplan.testing import a_node, a_pod
from support.live.live_scheduler import live
from support.observing.metrics import framework_metrics
from support.scheduling.fake_extender import FakeExtender
from support.serving.secure_port import asked


async def answer_to(cluster, path, **query):
    pages = SchedulerPages(cluster.scheduler, times=cluster.time)
    return await answer_of(pages, path, **query)


async def answer_of(pages, path, **query):
    request = asked(f"/stowplan/{path}", query={name: [value] for name, value in query.items()})
    routes = pages.pages()
    page = routes.get(request.path) or next(p for prefix, p in routes.items() if request.path.startswith(prefix))
    answer = page(request)
    response = await answer if inspect.isawaitable(answer) else answer
    assert response.content_type == "application/json"
    return json.loads(response.body)


def text(found):
    return plain(page_from_json(found["page"]))


def small(name="n1", cpu="2"):
    return a_node(name).allocatable(cpu=cpu, memory="8Gi", pods="10").obj()


@pytest.mark.parametrize(("leader", "who"), [("other_1", "other_1 leads, ask there"), ("", "nobody leads")])
@pytest.mark.parametrize("path", ["explain/default/big", "pending"])
async def test_a_standby_reports_that_it_is_one(path, leader, who):
    async with live(small()) as cluster:
        await cluster.create(a_pod("big").requests(cpu="64").obj())
        pages = SchedulerPages(cluster.scheduler, other_leader=lambda: leader, times=cluster.time)
        found = await answer_of(pages, path, page="text")
        assert found["leader"] == leader
        assert text(found).startswith(f"this replica is a standby and schedules no pods: {who}\n\n")
        ours = await answer_to(cluster, path, page="text")
        assert "leader" not in ours
        assert "stands by" not in text(ours)


async def test_nodes_to_add_are_tried_on_a_copy_of_the_cluster():
    async with live(small()) as cluster:
        await cluster.create(a_pod("here").requests(cpu="2").obj())
        await cluster.create(a_pod("more").requests(cpu="1").obj())
        pages = SchedulerPages(
            cluster.scheduler, copied=lambda: Cluster.of_state(cluster.scheduler.state), times=cluster.time
        )
        found = await answer_of(pages, "explain/default/more", suggestions="true")
        assert [one["text"] for one in found["relief"]] == ["add 1 node like n1"]
        assert "relief" not in await answer_of(pages, "explain/default/more")
        assert "relief" not in await answer_to(cluster, "explain/default/more", suggestions="true")
        assert list(cluster.scheduler.state.table.row_of) == ["n1"]


async def test_extenders_of_a_running_scheduler_are_asked():
    asked = []

    class Answering:
        async def ask(self, verb, question):
            asked.append(verb)
            return {"failed": {"n1": "not mine"}, "kept": ["n2"]} if verb == "filter" else {"n2": 5}

    options = {"extenders": [FakeExtender("e", filters=True, prioritizes=True)], "extender_clients": {"e": Answering()}}
    async with live(small(), small("n2"), **options) as cluster:
        await cluster.create(a_pod("p").obj())
        asked.clear()
        found = await answer_to(cluster, "explain/default/p")
        assert asked == ["filter"]
        assert found["extenders"] == [{"extender": "e", "verb": "filter", "asked": 2, "refused": {"n1": "not mine"}}]
        assert found["feasible"] == ["n2"]
        assert "e: refuses 1 of 2 nodes: 1 not mine" in text(await answer_to(cluster, "explain/default/p", page="text"))
        asked.clear()
        assert list((await answer_to(cluster, "explain/default/p", extenders="false"))["notAsked"]) == ["e"]
        assert asked == []


async def test_a_pending_pods_page_has_verdict_queue_place_and_story():
    async with live(small()) as cluster:
        await cluster.create(a_pod("big").requests(cpu="64").obj())
        found = await answer_to(cluster, "explain/default/big")
        assert found["rejected"] == {
            "n1": {
                "plugin": "NodeResourcesFit",
                "code": "UnschedulableAndUnresolvable",
                "reasons": ["Insufficient cpu"],
            }
        }
        standing = found["scheduler"]
        assert (standing["place"], standing["attempts"], standing["rejectedBy"]) == (
            "unschedulable",
            1,
            ["NodeResourcesFit"],
        )
        assert [step["what"] for step in standing["story"]["steps"]] == [
            "active",
            "in flight",
            "decided",
            "unschedulable",
        ]
        page = text(await answer_to(cluster, "explain/default/big", page="text"))
        assert "Insufficient cpu" in page
        assert (
            "What this scheduler knows of it\n  unschedulable (1 attempt; waits for an event that NodeResourcesFit"
            in page
        )
        assert "attempt 1 (0.0 ms): no node (Unschedulable): 0/1 nodes are available: 1 Insufficient cpu." in page


class Holding(PermitPlugin):
    name = "Holding"

    def permit(self, state, pod, node_name):
        return Status(Code.Wait), 600.0


HOLDING = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"plugins": {"permit": {"enabled": [{"name": "Holding"}]}}}],
}


async def test_assumed_pods_count():
    async with live(small(cpu="2"), config=HOLDING, plugins=[Holding]) as cluster:
        await cluster.create(a_pod("first").requests(cpu="2").obj())
        await cluster.create(a_pod("second").requests(cpu="2").obj())
        assert cluster.node_of("first") == ""
        first, second = (
            await answer_to(cluster, "explain/default/first"),
            await answer_to(cluster, "explain/default/second"),
        )
        assert (first["node"], first["currentNode"]) == ("n1", "n1")
        assert first["scheduler"]["place"] == "waits on Permit for"
        assert second["rejected"]["n1"]["reasons"] == ["Insufficient cpu"]
        page = text(await answer_to(cluster, "explain/default/first", page="wide"))
        assert page.startswith("default/first waits on Permit for n1 and would go there again: ")


async def test_a_deleted_pod_still_has_a_story():
    async with live(small()) as cluster:
        await cluster.create(a_pod("p").obj())
        await cluster.delete("pods", "p")
        found = await answer_to(cluster, "explain/default/p")
        assert found["scheduler"]["story"]["steps"][-1]["what"] == "deleted"
        assert text(await answer_to(cluster, "explain/default/p", page="text")).startswith("default/p is gone\n")
        assert (await answer_to(cluster, "stories/default/p"))["pod"] == "default/p"


@pytest.mark.parametrize(
    ("path", "error", "words"),
    [
        (
            "explain/default/nobody",
            NotFound,
            'pod "default/nobody" not found: this scheduler schedules for default-scheduler, has 0 pods',
        ),
        ("stories/default/nobody", NotFound, 'no story of pod "default/nobody"'),
        ("explain/default", BadRequest, "/stowplan/explain/<namespace>/<pod>: which pod? got 'default'"),
        ("explain/a/b/c", BadRequest, "which pod"),
        ("stories/", BadRequest, "which pod"),
        ("decisions?limit=x", BadRequest, "limit: want a number up to 1000, got 'x'"),
        ("pending?limit=-1", BadRequest, "limit: want a number"),
        (f"pending?limit={'9' * 5000}", BadRequest, "limit: want a number"),
        ("pending?page=html", BadRequest, "page: want text or wide, got 'html'"),
    ],
)
async def test_unanswerable_questions_give_a_reason(path, error, words):
    path, _, query = path.partition("?")
    async with live(small()) as cluster:
        with pytest.raises(error) as caught:
            await answer_to(cluster, path, **dict([query.split("=")] if query else []))
        assert words in str(caught.value)


async def test_a_large_clusters_page_does_not_list_every_node(monkeypatch):
    monkeypatch.setattr(scheduler_pages, "_MAX_WIDE", 1)
    async with live(small("n1"), small("n2")) as cluster:
        await cluster.create(a_pod("big").requests(cpu="64").obj())
        page = text(await answer_to(cluster, "explain/default/big", page="wide"))
        assert "too many for a running scheduler to spell out: -o json has them all" in page
        assert "What this scheduler knows of it" in page
        assert (await answer_to(cluster, "explain/default/big"))["rejected"].keys() == {"n1", "n2"}


async def test_pods_of_other_schedulers_are_refused():
    async with live(small()) as cluster:
        await cluster.create(a_pod("theirs").scheduler("other").on("n1").obj())
        with pytest.raises(NotFound, match='is for scheduler "other", which has no profile here'):
            await answer_to(cluster, "explain/default/theirs")


async def test_before_the_sync_pages_are_unavailable():
    async with live(small()) as cluster:
        cluster.scheduler.synced.clear()
        with pytest.raises(ServiceUnavailable):
            await answer_to(cluster, "explain/default/p")
        cluster.scheduler.synced.set()


async def test_decisions_and_waiting_pods():
    async with live(small()) as cluster:
        await cluster.create(*(a_pod(f"big-{i}").requests(cpu="64").obj() for i in range(3)), a_pod("p").obj())
        found = await answer_to(cluster, "decisions", limit="2")
        assert [one["pod"] for one in found["decisions"]] == ["default/p", "default/big-2"]
        waiting = await answer_to(cluster, "pending", limit="2")
        assert waiting["counts"] == {"active": 0, "backoff": 0, "unschedulable": 3, "gated": 0}
        assert ([pod["pod"] for pod in waiting["pods"]], waiting["leftOut"]) == (["default/big-0", "default/big-1"], 1)
        page = text(await answer_to(cluster, "pending", limit="2", page="text"))
        assert page.startswith("activeQ:0; backoffQ:0; unschedulableEntities:3\n")
        assert "… and 1 more pod" in page
        assert "default/p  attempt 1 (0.0 ms): goes to n1" in text(
            await answer_to(cluster, "decisions", page="text")
        ).replace("      ", "  ").replace("    ", "  ")


async def test_events_that_woke_pods():
    async with live(small()) as cluster:
        await cluster.create(*(a_pod(f"big-{i}").requests(cpu="64").obj() for i in range(3)))
        assert "wakes" not in await answer_to(cluster, "pending")
        await cluster.create(a_node("larger").allocatable(cpu="65", pods=9).obj())
        (wake,) = (await answer_to(cluster, "pending"))["wakes"]
        assert (wake["event"], wake["by"], wake["count"]) == ("NodeAdd", "Node larger", 3)
        assert set(wake["pods"]) == {f"default/big-{i}" for i in range(3)}
        assert wake["rejectedBy"] == ["NodeResourcesFit"]


async def test_explanations_run_one_at_a_time_and_yield_most_of_the_time():
    async with live(small()) as cluster:
        await cluster.create(a_pod("p").obj())
        slow = iter(range(0, 10_000, 2))
        slept = []

        async def sleep(seconds):
            slept.append(seconds)
            await asyncio.sleep(0)

        times = SimpleNamespace(clock=lambda: float(next(slow)), sleep=sleep)
        pages = SchedulerPages(cluster.scheduler, times=times)
        await answer_of(pages, "explain/default/p")
        await answer_of(pages, "explain/default/p")
        assert slept == [16.0]
        waiting = [asyncio.create_task(answer_of(pages, "explain/default/p")) for _ in range(20)]
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert sum(isinstance(result, TooManyRequests) for result in results) == 12
        assert sum(isinstance(result, dict) for result in results) == 8


# -- suggestions and nodes


async def test_an_unschedulable_pod_gets_suggestions_on_request():
    async with live(small(), small("n2", cpu="4")) as cluster:
        await cluster.create(a_pod("big").requests(cpu="3").node_selector(disk="ssd").obj())
        before = cluster.scheduler.engine.dump()
        found = await answer_to(cluster, "explain/default/big", suggestions="true")
        assert [one["gain"] for one in found["suggestions"]]
        assert any("disk" in one["text"] for one in found["suggestions"])
        assert found["refusals"], "and the details of each node"
        page = text(await answer_to(cluster, "explain/default/big", page="text", suggestions="true"))
        assert found["suggestions"][0]["text"] in page
        assert "suggestions" not in await answer_to(cluster, "explain/default/big")
        assert cluster.scheduler.engine.dump() == before
        cluster.scheduler.engine.validate()


async def test_a_nodes_page_has_the_pods_that_fit_and_reasons_for_others():
    async with live(small(), small("n2", cpu="4")) as cluster:
        wide = [a_pod(f"wide{i}").requests(cpu="3").node_selector({"kubernetes.io/hostname": "x"}) for i in range(2)]
        await cluster.create(a_pod("placed").requests(cpu="1").obj(), *(pod.obj() for pod in wide))
        found = await answer_to(cluster, "nodes/n1")
        assert found["node"] == "n1"
        (refused,) = found["refuses"]
        assert refused["pods"] == ["default/wide0", "default/wide1"]
        assert refused["suggestions"]
        on_some_node = [
            pod["pod"] for name in ("n1", "n2") for pod in (await answer_to(cluster, f"nodes/{name}")).get("pods", ())
        ]
        assert on_some_node == ["default/placed"]
        assert "default/wide0" in text(await answer_to(cluster, "nodes/n1", page="text"))
        with pytest.raises(NotFound, match='node "nope" not found: this scheduler knows 2'):
            await answer_to(cluster, "nodes/nope")
        cluster.scheduler.engine.validate()


async def test_a_node_evaluates_the_most_frequent_of_many_pod_shapes(monkeypatch):
    monkeypatch.setattr(scheduler_pages, "_MAX_KINDS", 1)
    async with live(small()) as cluster:
        await cluster.create(a_pod("a").requests(cpu="64").obj(), a_pod("b").requests(cpu="65").obj())
        page = text(await answer_to(cluster, "nodes/n1", page="text"))
        assert "not judged: 1 more pods, of 1 kinds" in page


HIGH = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}


class TestGroups:
    @staticmethod
    def gang(min_count):
        spec = {"schedulingPolicy": {"gang": {"minCount": min_count}}}
        metadata = {"name": "train", "namespace": "default"}
        return {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": metadata, "spec": spec}

    @staticmethod
    def member(name):
        return a_pod(name).requests(cpu="1").spec(schedulingGroup={"podGroupName": "train"}).obj()

    async def test_the_story_of_a_group(self):
        gates = with_chosen({"GenericWorkload": True, "GangScheduling": True}, V1_36)
        async with live(small(), self.gang(3), features=gates) as cluster:
            await cluster.create(*(self.member(f"t{i}") for i in range(3)))
            waiting = (await answer_to(cluster, "pending"))["pods"]
            assert sorted(one["reason"] for one in waiting) == ["Insufficient cpu", *2 * [GROUP_UNSCHEDULABLE]]
            found = await answer_to(cluster, "podgroups/default/train", page="text")
            assert [pod["pod"] for pod in found["waiting"]] == ["default/t0", "default/t1", "default/t2"]
            member = await answer_to(cluster, "explain/default/t0", page="text")
            assert "fits" not in member["podGroup"]
            assert text(member).startswith(
                "default/t0 waits for its pod group default/train, which does not fit; alone "
            )
            assert found["condition"]["status"] == "False"
            (step,) = found["story"]["steps"]
            assert step["what"] == "not scheduled"
            assert step["cause"] == "2 of 3 pods fit together: pod group is unschedulable"
            assert text(found).startswith(
                "pod group default/train: 0 pods with a node, 3 in the queue, a gang of at least 3"
            )
            await cluster.create(small("n2"))
            await cluster.advance(30)
            found = await answer_to(cluster, "podgroups/default/train")
            assert set(found["haveNode"]) == {"default/t0", "default/t1", "default/t2"}
            assert found["story"]["steps"][-1]["what"] == "scheduled"

    async def test_the_verdict_on_a_group(self):
        """The question has no effect, and the answer names the pods that the group would evict."""
        gates = {"GenericWorkload": True, "GangScheduling": True, "WorkloadAwarePreemption": True}
        group = self.gang(2)
        group["spec"]["priorityClassName"] = "high"
        async with live(small(), HIGH, features=with_chosen(gates, V1_36)) as cluster:
            await cluster.create(a_pod("low").requests(cpu="1").obj(), self.gang(2) | {"metadata": {"name": "other"}})
            await cluster.create(self.member("t0"), self.member("t1"))
            before = cluster.scheduler.engine.state.dump()
            found = await answer_to(cluster, "podgroups/default/train", verdict="true")
            assert cluster.scheduler.engine.state.dump() == before
            assert found["verdict"]["heldBack"]
            await cluster.create(group)
            found = await answer_to(cluster, "podgroups/default/train", verdict="true", page="text")
            assert found["verdict"]["waitsForPreemption"]
            assert found["verdict"]["domains"][0]["victims"] == ["default/low"]
            assert "would evict 1 pod: default/low" in text(found)
            cluster.scheduler.engine.validate()

    async def test_a_verdict_observes_no_metrics(self):
        gates = with_chosen({"GenericWorkload": True, "GangScheduling": True}, V1_36)
        async with live(small(), self.gang(3), features=gates) as cluster:
            framework = cluster.scheduler.frameworks["default-scheduler"]
            framework.metrics = metrics = framework_metrics()
            framework.handle.metrics = metrics.scheduler
            metrics.count_calls_of(framework.points)
            await cluster.create(*(self.member(f"t{i}") for i in range(3)))
            before = metrics.scheduler.preemption_attempts_total.value
            assert before
            found = await answer_to(cluster, "podgroups/default/train", verdict="true", page="text")
            assert text(found).startswith("pod group default/train does not fit: 2 of 3 pods fit together")
            assert "What happened" in text(found)
            assert metrics.scheduler.preemption_attempts_total.value == before
            assert framework.metrics is metrics

    async def test_groups_that_cannot_be_evaluated(self, monkeypatch):
        async with live(small()) as cluster:
            await cluster.create(self.member("t0"))
            found = await answer_to(cluster, "podgroups/default/train", verdict="true")
            assert found["note"] == "the gate GenericWorkload is off: its pods are scheduled one by one"
            assert "verdict" not in found
        gates = {"GenericWorkload": True, "GangScheduling": True, "WorkloadAwarePreemption": True}
        group = self.gang(1)
        group["spec"]["priorityClassName"] = "high"
        async with live(small(), HIGH, group, features=with_chosen(gates, V1_36)) as cluster:
            await cluster.create(a_pod("low").requests(cpu="2").obj())
            monkeypatch.setattr(scheduler_pages, "_MAX_SEARCH", 0)
            await cluster.create(a_pod("big").requests(cpu="2").spec(schedulingGroup={"podGroupName": "train"}).obj())
            found = await answer_to(cluster, "podgroups/default/train", verdict="true", page="text")
            monkeypatch.setattr(scheduler_pages, "_MAX_MEMBERS", 0)
            found = await answer_to(cluster, "podgroups/default/train", verdict="true", page="text")
            assert "does not judge groups of more than 0 pods" in text(found)

    async def test_an_unknown_group(self):
        async with live(small()) as cluster:
            with pytest.raises(NotFound, match='pod group "default/train" not found'):
                await answer_to(cluster, "podgroups/default/train")
