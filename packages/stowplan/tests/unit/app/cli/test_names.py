"""Names on the command line: the same forms in every command."""

import json

import pytest

from support.what_if.objects import node, owned, pod


def in_shop(made):
    made["metadata"]["namespace"] = "shop"
    return made


CLUSTER = (
    node("a", zone="x"),
    node("b", zone="y"),
    in_shop(owned(pod("web-0", nodeName="a"))),
    in_shop(pod("waiting", "9")),
    pod("alone"),
)
POD = [["shop/web-0"], ["pod/shop/web-0"], ["po", "shop/web-0"], ["web-0", "-n", "shop"], ["pods/web-0", "-n", "shop"]]
DEPLOYMENT = [
    ["deployment/shop/web"],
    ["deploy", "web", "-n", "shop"],
    ["deployments.apps/shop/web"],
    ["deploy", "shop/web"],
]
NODE = [["a"], ["node/a"], ["no", "a"], ["nodes/a"]]


@pytest.fixture
def answers(run, files):
    def asked(command, *words):
        ran = run(command, "-f", files(*CLUSTER), "-o", "json", *words)
        assert ran.code == 0, ran.err
        return json.loads(ran.out)

    return asked


@pytest.mark.parametrize("forms", [POD, DEPLOYMENT], ids=["pod", "deployment"])
@pytest.mark.parametrize("command", ["explain", "fit"])
def test_pods_and_workloads(answers, command, forms):
    found = [answers(command, *words) for words in forms]
    assert all(one == found[0] for one in found)


def test_nodes(answers):
    for command, forms in (("drain", NODE), ("explain", NODE[1:])):
        found = [answers(command, *words) for words in forms]
        assert all(one == found[0] for one in found)
    assert answers("what-if", "--remove", "node/a") == answers("what-if", "--remove", "a")
    assert answers("what-if", "--label", "no/a", "x=y")["changes"] == ["label node a x=y"]
    assert answers("what-if", "--add-nodes", "1", "--like", "node/b")["after"]["nodes"] == 3
    assert answers("fit", "alone", "--like", "node/a=3", "--replicas", "50")["nodesToAdd"][0]["like"] == "a"
    assert answers("survive", "--by", "node", "--only", "node/a")["losses"][0]["lost"] == "a"


def test_scaling(answers):
    changed = ["scale Deployment shop/web to 2"]
    for name in ("deployment/shop/web", "deploy.apps/shop/web"):
        assert answers("what-if", "--scale", f"{name}=2")["changes"] == changed
    assert answers("what-if", "--scale", "deploy/web=2", "-n", "shop")["changes"] == changed


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["web", "-n", "shop"], 'pod "shop/web" not found; did you mean deployment/shop/web?'),
        (["web-0"], 'pod "default/web-0" not found; did you mean shop/web-0?'),
        (["nothing", "-n", "shop"], 'pod "shop/nothing" not found; pods in namespace "shop": shop/waiting, shop/web-0'),
        (["deploymnt"], 'pod "default/deploymnt" not found; did you mean the kind deployment?'),
        (["deplyment/web"], 'pod "deplyment/web" not found; did you mean the kind deployment?'),
        (["pdo", "-n", "shop"], 'pod "shop/pdo" not found; did you mean the kind pod?'),
        (["nothing", "-n", "x"], 'pod "x/nothing" not found; there are no pods in namespace "x", but in default, shop'),
        (["deploy/web"], "did you mean deployment/shop/web?"),
        (["sts/shop/web"], "did you mean deployment/shop/web?"),
        (["deploy"], "deploy is a kind: give a name, too"),
    ],
)
@pytest.mark.parametrize("command", ["explain", "fit"])
def test_what_was_probably_meant(run, files, command, words, message):
    ran = run(command, "-f", files(*CLUSTER), *words)
    assert (ran.code, message in ran.err) == (2, True), ran.err


@pytest.mark.parametrize("words", [["pod/a"], ["shop/a"]])
def test_what_is_not_a_node(run, files, words):
    assert f"error: {words[0]} is not a node\n" == run("drain", "-f", files(*CLUSTER), *words).err
