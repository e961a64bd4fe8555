"""The other views: a pod, the queue, the configuration, the workbench."""

import json
import re

import pytest
from playwright.sync_api import expect

from support.browser.pages import PACKING
from support.what_if.objects import pod


def test_why_a_pod_is_placed_on_its_node(at):
    page = at("#/pod/default/small")
    expect(page.locator(".verdict")).to_contain_text("It goes to node-")
    expect(page.locator(".verdict")).to_contain_text("5 nodes feasible")
    winner = page.locator(".scores li[data-winner]")
    expect(winner.get_by_role("link")).to_have_text(page.locator(".verdict a").inner_text())
    expect(page.locator(".refusals")).to_contain_text("NodeUnschedulable")
    page.get_by_role("region", name="Points").get_by_role("button", name="Node by node").click()
    assert page.locator("[aria-labelledby=scores] tbody tr").count() == 5


def test_why_a_pod_fits_nowhere_and_what_would_help(at):
    page = at("#/pod/default/big")
    expect(page.locator(".refusals .number").first).to_have_text("5")
    help_ = page.get_by_role("region", name="What would help")
    expect(help_).to_contain_text("too large for every node")
    help_.get_by_role("link", name="Show on the plan").first.click()
    expect(page.locator(".sum")).to_contain_text("where default/big would fit")


def test_a_missing_pod(open_tab, address):
    # The browser itself logs an error for the expected status.
    with open_tab() as tab:
        tab.page.goto(address)
        tab.page.goto(f"{address.partition('#')[0]}#/pod/default/nobody")
        expect(tab.page.get_by_role("alert")).to_contain_text('pod "default/nobody" not found')
        tab.complaints.clear()


def test_waiting_pods_and_reasons(at):
    page = at("#/queue")
    lanes = page.locator(".lane h2")
    expect(lanes).to_have_text(["placeable 1", "unschedulable: Insufficient cpu 1", "gated by SchedulingGates 1"])
    page.get_by_text("As a table").click()
    expect(page.locator("tbody tr")).to_have_count(3)


def test_which_plugins_run_and_why(at):
    page = at("#/configuration")
    row = page.locator(".points tr", has=page.get_by_role("rowheader", name="score", exact=True))
    expect(row).to_contain_text("NodeAffinity × 2")
    expect(row.locator(".origin-default").first).to_be_visible()
    page.get_by_text("As a file").click()
    expect(page.locator(".file")).to_contain_text("kind: KubeSchedulerConfiguration")


def test_a_trial_on_the_workbench(at):
    page = at("#/workbench")
    page.locator(".adding select").select_option("Remove a node")
    page.locator(".adding input").fill("node-0")
    page.get_by_role("button", name="Add to the trial").click()
    figures = page.locator(".figures")
    expect(figures.get_by_role("row", name="Nodes")).to_contain_text("−1")
    expect(page.get_by_label("Commands")).to_have_text("kubectl delete node node-0")
    expect(page.get_by_role("heading", name="3 pods moved")).to_be_visible()
    moved = page.get_by_role("row", name="default/db-0")
    expect(moved.get_by_role("cell").nth(2)).to_have_text("node-0")
    page.get_by_role("group", name="Which plan").get_by_role("button", name="Before").click()
    page.get_by_role("button", name=re.compile("Remove: .*node-0")).click()
    expect(figures).to_have_count(0)


def test_a_plan_of_moves_on_the_workbench(at):
    page = at("#/workbench")
    page.locator(".adding select").first.select_option("Move pods")
    page.locator(".adding select").nth(1).select_option("until so many nodes are empty")
    page.get_by_label("How many").fill("2")
    page.get_by_role("button", name="Add to the trial").click()
    figures = page.locator(".figures")
    expect(figures.get_by_role("row", name="Nodes without pods")).to_contain_text("2")
    moves = page.get_by_role("table", name="Pods that get, lose or change their node")
    expect(moves).to_contain_text("empties node-")
    expect(page.get_by_label("Commands")).to_contain_text("kubectl cordon node-")
    page.get_by_role("button", name="Remove: rebalance: free-nodes=2").click()
    expect(figures).to_have_count(0)


def test_room_for_manifests_on_the_workbench(at):
    page = at("#/workbench")
    page.get_by_text("Manifests to apply").click()
    page.get_by_label("Manifests to apply").fill(json.dumps(pod("new")))
    page.get_by_role("button", name="Try").first.click()
    page.locator(".adding select").first.select_option("Move pods")
    page.locator(".adding select").nth(1).select_option("to fit the manifests below")
    page.get_by_role("button", name="Add to the trial").click()
    expect(page.locator(".figures").get_by_role("row", name="Nodes without pods")).to_be_visible()
    expect(page.get_by_label("Commands")).to_contain_text("kubectl apply -f manifests.yaml")


@pytest.mark.parametrize(
    ("kind", "fields", "takes_away", "command"),
    [
        ("Drain a node", {"Node": "node-1"}, False, "kubectl drain node-1 --ignore-daemonsets --delete-emptydir-data"),
        (
            "Label a node",
            {"Node": "node-1", "Key": "a", "Value": "b"},
            False,
            "kubectl label node node-1 a=b --overwrite",
        ),
        ("Label a node", {"Node": "node-1", "Key": "a"}, True, "kubectl label node node-1 a-"),
        ("Taint a node", {"Node": "node-1", "Key": "a"}, False, "kubectl taint node node-1 a=:NoSchedule --overwrite"),
        ("Scale a workload", {"Replicas, now 3": "5"}, False, "kubectl scale -n default statefulset/db --replicas=5"),
        ("Add nodes", {"Like": "node-1", "How many": "3"}, False, "# add 3 nodes like node-1: by what makes nodes"),
    ],
    ids=lambda value: value if isinstance(value, str) and value[0].isupper() else "",
)
def test_each_kind_of_change(at, kind, fields, takes_away, command):
    page = at("#/workbench")
    page.locator(".adding select").first.select_option(kind)
    if takes_away:
        page.get_by_label("take it away").check()
    if kind.startswith("Scale"):
        page.locator(".adding select").nth(1).select_option("StatefulSet default/db")
    for name, value in fields.items():
        page.locator(".adding").get_by_label(name, exact=True).fill(value)
    page.get_by_role("button", name="Add to the trial").click()
    expect(page.get_by_label("Commands")).to_contain_text(command)
    page.get_by_role("list", name="Changes").get_by_role("button").click()
    expect(page.locator(".figures")).to_have_count(0)


def test_a_missing_node_is_not_tried(at):
    page = at("#/workbench")
    page.locator(".adding").get_by_label("Like").fill("node-7")
    page.get_by_role("button", name="Add to the trial").click()
    expect(page.get_by_role("list", name="Changes").get_by_role("listitem")).to_have_count(0)
    assert page.locator(".adding input:invalid").evaluate("one => one.validationMessage") == "There is no node node-7."


def test_a_trial_for_a_node_from_the_plan(at):
    page = at("#/plan?select=node:node-0")
    page.get_by_role("link", name="it is drained").click()
    expect(page.get_by_role("list", name="Changes")).to_contain_text("drain node-0")
    expect(page.locator(".figures").get_by_role("row", name="Nodes")).to_be_visible()


def test_manifests_and_configurations_are_pasted(open_tab, address):
    # The browser itself logs an error for each expected refusal.
    with open_tab() as tab:
        page = tab.page
        page.goto(address)
        page.locator(".sum").wait_for()
        page.goto(f"{address.partition('#')[0]}#/workbench")
        page.get_by_text("Another configuration").click()
        box = page.get_by_label("Another configuration")
        box.fill("profiles: {a: [}")
        page.get_by_role("button", name="Try").last.click()
        expect(page.get_by_role("alert")).to_contain_text("config: ")
        box.fill(
            "kind: KubeSchedulerConfiguration\napiVersion: kubescheduler.config.k8s.io/v1\nprofiles: [{plugin: x}]\n"
        )
        page.get_by_role("button", name="Try").last.click()
        expect(page.get_by_role("alert")).to_contain_text("plugin")
        box.fill(PACKING)
        page.get_by_role("button", name="Try").last.click()
        expect(page.get_by_role("alert")).to_have_count(0)
        expect(page.get_by_label("Configuration", exact=True)).to_contain_text("MostAllocated")
        page.get_by_role("button", name="Remove: use the configuration").click()
        page.get_by_text("Manifests to apply").click()
        page.get_by_label("Manifests to apply").fill(json.dumps(pod("more", cpu="1")))
        page.get_by_role("button", name="Try").first.click()
        expect(page.get_by_role("row", name="default/more")).to_contain_text("gets a node")
        expect(page.get_by_label("Manifests", exact=True)).to_contain_text('"name": "more"')
        tab.complaints.clear()


def test_tables_and_pictures_of_a_trial_and_of_plugins_are_saved(at):
    page = at('#/workbench?change={"remove":["node-0"]}')
    for button, begins in (
        ("Figures as CSV", b"What,before,after\r\nNodes,6,5\r\n"),
        ("The plan as SVG", b"<svg"),
        ("The plan as PNG", b"\x89PNG"),
    ):
        assert saved(page, button).startswith(begins), button
    page = at("#/configuration")
    assert b"score,1,TaintToleration,3," in saved(page, "Plugins of default-scheduler as CSV")
    page = at("#/pod/default/small")
    assert saved(page, "Points as SVG").startswith(b"<svg")
    assert saved(page, "Points as PNG").startswith(b"\x89PNG")


def saved(page, button):
    with page.expect_download() as download:
        page.get_by_role("button", name=button).click()
    return download.value.path().read_bytes()


def test_a_trial_has_an_address(at):
    change = json.dumps({"addNodes": [{"count": 2, "like": "node-1"}]})
    page = at(f"#/workbench?change={change.replace(' ', '')}")
    expect(page.locator(".figures").get_by_role("row", name="Nodes")).to_contain_text("+2")


def test_a_slider_changes_a_weight(at):
    page = at("#/workbench")
    page.get_by_text("Weights of plugins").click()
    slider = page.get_by_label("ImageLocality")
    slider.focus()
    page.keyboard.press("End")
    expect(page.get_by_label("Configuration", exact=True)).to_contain_text("weight: 20")
    page.get_by_role("button", name=re.compile("Remove: .*ImageLocality")).click()
    expect(slider).to_have_value("1")


def test_slider_requests_are_debounced(at):
    page = at("#/workbench")
    page.get_by_text("Weights of plugins").click()
    asked = []
    page.on("request", lambda request: asked.append(request) if request.url.endswith("what-if") else None)
    page.get_by_label("ImageLocality").evaluate(
        """one => {
          for (let i = 2; i < 12; i++) {
            one.value = i;
            one.dispatchEvent(new Event('input', {bubbles: true}));
          }
        }"""
    )
    expect(page.get_by_label("Configuration", exact=True)).to_contain_text("weight: 11")
    assert len(asked) == 1


def test_refusals_of_the_server_are_shown(at, open_tab, address):
    # The browser itself logs an error for the expected status.
    with open_tab() as tab:
        tab.page.goto(address)
        tab.page.goto(f'{address.partition("#")[0]}#/workbench?change={{"remove":["nope"]}}')
        expect(tab.page.get_by_role("alert")).to_contain_text('node "nope" not found')
        tab.complaints.clear()
