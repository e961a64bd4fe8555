"""Extenders of a `Cluster`, of simulated time, and of explanations, by a function or over HTTP."""

import json

import pytest
from click.testing import CliRunner

import stowplan
from stowplan.app.cli.main import cli
from stowplan.testing import a_node, a_pod
from stowplan.testing.live import live_cluster
from support.extenders.running import configuration, running_extender

URL = "http://extender.example"
FILTER = {"urlPrefix": URL, "filterVerb": "filter", "nodeCacheCapable": True}
BOTH = FILTER | {"prioritizeVerb": "prioritize", "weight": 2}


def rooms(*names, pods=10):
    return [a_node(name).allocatable(cpu=4, pods=pods).obj() for name in names]


class Answering:
    """Replaces extenders; answers by the end of the URL."""

    def __init__(self, **answers):
        self.calls, self._answers = [], answers

    def __call__(self, url, body):
        self.calls.append((url, body))
        answer = self._answers[url.rpartition("/")[2]]
        if isinstance(answer, Exception):
            raise answer
        return answer(body) if callable(answer) else answer


def only(*names):
    return lambda body: {
        "NodeNames": [name for name in body["NodeNames"] if name in names],
        "FailedNodes": {name: "not mine" for name in body["NodeNames"] if name not in names},
    }


def cluster_with(*objects, extender=BOTH, answers):
    return stowplan.Cluster([*objects], configuration(extender), call_extender=answers)


# -- placing ----------------------------------------------------------------------------------------------------------


def test_a_cluster_calls_extenders():
    answers = Answering(filter=only("n2", "n3"), prioritize=[{"Host": "n3", "Score": 10}])
    cluster = cluster_with(*rooms("n1", "n2", "n3"), answers=answers)
    pod = a_pod("p").obj()
    pod["spec"]["containers"][0]["env"] = [{"name": "A"}]
    cluster.add(pod)
    assert [decision.node_name for decision in cluster.schedule()] == ["n3"]
    (url, body), (second, _) = answers.calls
    assert (url, second) == (f"{URL}/filter", f"{URL}/prioritize")
    assert body["Pod"]["spec"]["containers"][0]["env"] == [{"name": "A"}]
    assert sorted(body["NodeNames"]) == ["n1", "n2", "n3"]


@pytest.mark.parametrize(
    ("left", "node", "asked"), [("n2", "n2", [["n2"]]), ("n1", "n1", [["n2"], ["n1", "n2", "n3"]])]
)
def test_the_nominated_node_is_asked_about_alone_first(left, node, asked):
    answers = Answering(filter=only(left), prioritize=[])
    cluster = cluster_with(*rooms("n1", "n2", "n3"), answers=answers)
    pod = a_pod("p").obj()
    pod["status"] = {"nominatedNodeName": "n2"}
    assert [decision.node_name for decision in cluster.schedule([pod])] == [node]
    assert [sorted(body["NodeNames"]) for _, body in answers.calls] == asked


def test_an_extender_that_fails_fails_the_pod():
    cluster = cluster_with(*rooms("n1"), answers=Answering(filter=RuntimeError("no")), extender=FILTER)
    (decision,) = cluster.schedule([a_pod("p").obj()])
    assert decision.node_name == ""
    assert decision.message == "no"


def test_bind_is_not_called_in_memory():
    answers = Answering()
    cluster = cluster_with(*rooms("n1"), answers=answers, extender={"urlPrefix": URL, "bindVerb": "bind"})
    assert [decision.node_name for decision in cluster.schedule([a_pod("p").obj()])] == ["n1"]
    assert answers.calls == []


def test_simulated_time_calls_extenders():
    answers = Answering(filter=only("n2"))
    with live_cluster(*rooms("n1", "n2"), config=configuration(FILTER), call_extender=answers) as cluster:
        cluster.create(a_pod("p").obj())
        assert cluster.node_of("p") == "n2"


def test_simulated_time_without_a_handler():
    with live_cluster(*rooms("n1"), config=configuration(FILTER)) as cluster:
        cluster.create(a_pod("p").obj())
        assert cluster.why_pending("p") == f"there is no one to answer {URL} in this simulation"


# -- explaining -------------------------------------------------------------------------------------------------------


def test_explanations_call_extenders():
    answers = Answering(filter=only("n2", "n3"), prioritize=[{"Host": "n2", "Score": 10}])
    cluster = cluster_with(*rooms("n1", "n2", "n3"), answers=answers)
    verdict = cluster.explain(a_pod("p").obj())
    found = verdict.to_dict()
    assert found["node"] == "n2"
    assert found["feasible"] == ["n2", "n3"]
    assert found["rejected"] == {"n1": {"plugin": "Extender", "code": "Unschedulable", "reasons": ["not mine"]}}
    assert found["scores"]["n2"][URL] == 200
    assert found["totals"]["n2"] - found["totals"]["n3"] == 200
    assert found["extenders"] == [
        {"extender": URL, "verb": "filter", "asked": 3, "refused": {"n1": "not mine"}},
        {"extender": URL, "verb": "prioritize", "asked": 2, "points": {"n2": 200}},
    ]
    assert "notAsked" not in found


def test_the_verdict_agrees_with_what_an_attempt_does():
    answers = Answering(filter=only("n3"), prioritize=[])
    cluster = cluster_with(*rooms("n1", "n2", "n3"), answers=answers)
    assert cluster.explain(a_pod("p").obj()).node_name == "n3"
    answers = Answering(filter={"NodeNames": [], "FailedNodes": {"n1": "no", "n2": "no"}})
    cluster = cluster_with(*rooms("n1", "n2", "n3"), answers=answers)
    verdict = cluster.explain(a_pod("p").obj())
    (decision,) = cluster.schedule([a_pod("p").obj()])
    assert verdict.node_name == ""
    assert verdict.full_message == decision.message
    assert verdict.message.startswith("0/3 nodes are available: 2 no.")
    assert verdict.to_dict()["unschedulablePlugins"] == ["Extender"]
    assert verdict.to_dict()["extenders"][0]["refused"] == {"n1": "no", "n2": "no", "n3": ""}


@pytest.mark.parametrize("ignorable", [False, True])
def test_an_extender_that_fails_is_named(ignorable):
    extender = FILTER | {"ignorable": ignorable}
    cluster = cluster_with(*rooms("n1"), answers=Answering(filter=RuntimeError("it broke")), extender=extender)
    found = cluster.explain(a_pod("p").obj()).to_dict()
    assert found.get("node", "") == ("n1" if ignorable else "")
    assert found.get("error", "") == ("" if ignorable else "it broke")
    assert found["extenders"] == [{"extender": URL, "verb": "filter", "asked": 1, "failed": "it broke"}]


def test_extenders_can_be_skipped():
    answers = Answering()
    found = cluster_with(*rooms("n1", "n2"), answers=answers).explain(a_pod("p").obj(), extenders=False).to_dict()
    assert answers.calls == []
    assert found["notAsked"] == {
        URL: "an attempt would call it, this question did not; its filter and prioritize may change this"
    }


def test_preempt_is_called_only_in_attempts():
    extender = {"urlPrefix": URL, "preemptVerb": "preempt"}
    objects = [*rooms("n1", pods=1), a_pod("v").on("n1").obj()]
    answers = Answering(preempt={})
    cluster = cluster_with(*objects, answers=answers, extender=extender)
    verdict = cluster.explain(a_pod("p").priority(10).obj())
    assert answers.calls == []
    assert list(verdict.to_dict()["notAsked"]) == [URL]
    (decision,) = cluster.schedule([a_pod("p").priority(10).obj()])
    assert decision.message.endswith("preemption: no candidate node for preemption")


# -- over HTTP --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def program():
    with running_extender() as found:
        yield found


def test_a_cluster_calls_over_http(program):
    program.dislikes("n1")
    config = configuration(program.settings("good", "filter", "prioritize"))
    cluster = stowplan.Cluster(rooms("n1", "n2", "n3"), config)
    assert cluster.explain(a_pod("p").obj()).node_name == "n3"
    assert [decision.node_name for decision in cluster.schedule([a_pod("p").obj()])] == ["n3"]


async def test_a_cluster_calls_over_http_within_an_event_loop(program):
    program.dislikes()
    cluster = stowplan.Cluster(rooms("n1", "n2"), configuration(program.settings("good", "prioritize")))
    assert cluster.explain(a_pod("p").obj()).node_name == "n2"


@pytest.mark.parametrize("asks", [True, False], ids=["asks", "--no-extenders"])
def test_the_command(program, asks, tmp_path):
    program.dislikes("n1", "n2")
    program.asked()
    config, objects = tmp_path / "config.json", tmp_path / "objects.json"
    config.write_text(json.dumps(configuration(program.settings("good", "filter"))))
    listed = {"apiVersion": "v1", "kind": "List", "items": [*rooms("n1", "n2"), a_pod("p").obj()]}
    objects.write_text(json.dumps(listed))
    question = ["explain", "-f", str(objects), "--config", str(config), "pod", "p"]
    result = CliRunner().invoke(cli, [*question, *([] if asks else ["--no-extenders"])], prog_name="stowplan")
    assert result.exit_code == 0, result.output
    if asks:
        assert "refuses 2 of 2 nodes: 2 the extender does not like it" in result.output
        assert "none of 2 nodes takes it" in result.output
    else:
        assert "goes to n1" in result.output
        assert "this question did not; its filter may change this" in result.output
    assert len(program.asked()) == asks


def _suggestions(program, folder, *more):
    """For two pods that no node takes: the kinds of changes, with the number of pods placed by each."""
    config, objects = folder / "config.json", folder / "objects.json"
    config.write_text(json.dumps(configuration(program.settings("good", "filter"))))
    nodes = [
        a_node("small").allocatable(cpu="1").obj(),
        a_node("large").tainted("owner", "ml").allocatable(cpu="9").obj(),
    ]
    pods = [a_pod(f"ml-{n}").requests(cpu="4").obj() for n in range(2)]
    objects.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*nodes, *pods]}))
    question = ["explain", "-f", str(objects), "--config", str(config), "-o", "json", *more]
    summary = json.loads(CliRunner().invoke(cli, question, prog_name="stowplan").stdout)["summary"]
    return {one["changes"][0]["kind"]: one["pods"] for one in summary["relief"]}


def test_the_command_tries_suggestions_with_the_extenders_that_it_asks(program, tmp_path):
    program.dislikes("large")
    program.asked()
    assert _suggestions(program, tmp_path) == {"resources": 1}
    assert program.asked()
    assert _suggestions(program, tmp_path, "--no-extenders") == {"taints": 2, "resources": 1}
    assert not program.asked()
