"""The other views: a pod, the queue, the configuration, the workbench."""

import json

from playwright.sync_api import expect


def test_why_a_pod_goes_where_it_goes(at):
    page = at("#/pod/default/small")
    expect(page.locator(".verdict")).to_contain_text("It goes to node-")
    expect(page.locator(".verdict")).to_contain_text("5 nodes would take it")
    winner = page.locator(".scores li[data-winner]")
    expect(winner.get_by_role("link")).to_have_text(page.locator(".verdict a").inner_text())
    expect(page.locator(".refusals")).to_contain_text("NodeUnschedulable")
    page.get_by_role("region", name="Points").get_by_role("button", name="Node by node").click()
    assert page.locator("[aria-labelledby=scores] tbody tr").count() == 5


def test_why_a_pod_goes_nowhere_and_what_would_help(at):
    page = at("#/pod/default/big")
    expect(page.locator(".refusals .number").first).to_have_text("5")
    help_ = page.get_by_role("region", name="What would help")
    expect(help_).to_contain_text("too large for every node")
    help_.get_by_role("link", name="Show on the plan").first.click()
    expect(page.locator(".sum")).to_contain_text("where default/big would then fit")


def test_a_pod_that_is_not_there(open_tab, address):
    # The browser itself complains of the status, which is meant.
    with open_tab() as tab:
        tab.page.goto(address)
        tab.page.goto(f"{address.partition('#')[0]}#/pod/default/nobody")
        expect(tab.page.get_by_role("alert")).to_contain_text('pod "default/nobody" not found')
        tab.complaints.clear()


def test_who_waits_and_for_whom(at):
    page = at("#/queue")
    lanes = page.locator(".lane h2")
    expect(lanes).to_have_text(
        ["placeable 1", "unschedulable: NodeResourcesFit, NodeUnschedulable 1", "gated by SchedulingGates 1"]
    )
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
    page.get_by_role("button", name="Do not remove node-0").click()
    expect(figures).to_have_count(0)


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


def test_what_the_server_refuses_is_said(at, open_tab, address):
    # The browser itself complains of the status, which is meant.
    with open_tab() as tab:
        tab.page.goto(address)
        tab.page.goto(f'{address.partition("#")[0]}#/workbench?change={{"remove":["nope"]}}')
        expect(tab.page.get_by_role("alert")).to_contain_text('node "nope" not found')
        tab.complaints.clear()
