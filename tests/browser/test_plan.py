"""The plan in a browser: nodes and pods, selection, and saving."""

import csv
import re

from playwright.sync_api import expect


def saved(page, button):
    with page.expect_download() as download:
        page.get_by_role("button", name=button, exact=True).click()
    return download.value.path().read_bytes()


def test_summary_line(at):
    expect(at().locator(".sum")).to_have_text("6 nodes, 13 pods scheduled, 3 pending; cpu 46 % requested")


def test_pending_pods_by_reason(at):
    pending = at().get_by_role("region", name="Pending pods")
    expect(pending.get_by_role("region", name="Insufficient cpu: 1 pod")).to_be_visible()
    expect(pending.get_by_role("region", name="gated by SchedulingGates: 1 pod")).to_be_visible()
    expect(pending.get_by_role("region", name="a node would take it: 1 pod")).to_be_visible()
    pending.get_by_role("button", name="default/big").click()
    chosen = at().get_by_role("complementary", name="Selection")
    expect(chosen).to_contain_text("none: Insufficient cpu")
    chosen.get_by_role("link", name="Why pending?").click()
    expect(at().locator(".verdict")).to_contain_text("It does not fit on any node. 0/6 nodes are available")


def test_keyboard_navigation_and_announcements(at):
    page = at()
    page.locator(".picture").focus()
    page.keyboard.press("Home")
    expect(page.locator(".sea [role=status]")).to_have_text("node-0: 3 pods, 75 % of its cpu requested")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".sea [role=status]")).to_contain_text("node-2: ")
    expect(page.get_by_role("complementary")).to_contain_text("default/db-2")
    page.keyboard.press("Escape")
    expect(page.get_by_role("complementary")).to_have_count(0)


def test_boxes_can_be_selected_with_the_mouse(at):
    """The picture is a canvas: a click shows what is at a place, which stays there beside the panel."""
    page = at()
    box = page.locator(".picture").bounding_box()
    found = {}
    for x in range(20, int(box["width"]), 23):
        for y in range(20, int(box["height"]), 23):
            page.mouse.move(box["x"] + x, box["y"] + y)
            if page.locator(".tip").count():
                found.setdefault(page.locator(".tip strong").inner_text(), (box["x"] + x, box["y"] + y))
    assert {f"node-{i}" for i in range(6)} | {"default/db-0", "default/db-1", "default/db-2"} <= found.keys()
    name, place = min(found.items(), key=lambda one: one[1])
    page.mouse.click(*place)
    expect(page.get_by_role("complementary")).to_be_visible()
    page.mouse.move(0, 0)
    page.mouse.move(*place)
    expect(page.locator(".tip strong")).to_have_text(name)


def test_nodes_as_a_table_in_order_and_as_csv(at):
    page = at()
    page.get_by_role("button", name="Table").click()
    names = page.locator(".table tbody tr td:first-child")
    expect(names).to_have_text([f"node-{i}" for i in range(6)])
    expect(page.locator(".table tbody tr").nth(5)).to_contain_text("cordoned")
    page.get_by_role("button", name="Requested %").click()
    expect(names.first).to_have_text("node-5")
    page.get_by_role("button", name="Requested %").click()
    expect(names.first).to_have_text("node-0")
    rows = list(csv.DictReader(saved(page, "Save as CSV").decode().splitlines()))
    assert rows[0]["Node"] == "node-0"
    assert rows[0]["cpu requested (millicores)"] == "3000"
    assert "memory allocatable (bytes)" in rows[0]


def test_room_as_a_heat_map_with_what_is_free(at):
    page = at("#/room?group=")
    nodes = page.get_by_role("region", name="Nodes by cpu")
    expect(nodes.get_by_role("link", name="node-0: 3 of 4 cpu, 75 % requested, 1 free")).to_be_visible()
    expect(nodes.get_by_role("link", name="node-5")).to_have_text("⊘")
    expect(page.get_by_role("region", name="How many more fit").get_by_role("row")).not_to_have_count(1)
    page.get_by_role("button", name="Help").click()
    expect(page.get_by_role("dialog")).to_contain_text("it takes no pods")


def test_labels_that_match_are_counted(at):
    page = at("#/plan?filter=app%3Ddb")
    expect(page.locator(".sum")).to_contain_text("pods with these labels")


def test_the_picture_as_svg_has_all_nodes(at):
    page = at()
    pending = page.get_by_role("region", name="Pending pods")
    expect(pending.get_by_role("region", name="gated by SchedulingGates: 1 pod")).to_be_visible()
    text = saved(page, "SVG").decode()
    assert {f"node-{i}" for i in range(6)} <= set(re.findall(r">(?:⊘ )?(node-\d)<", text))
    assert "<script" not in text
    for words in (
        "6 nodes, 13 pods scheduled, 3 pending",
        "1 gated by SchedulingGates",
        "/web-abc 10<",
        "/db 3<",
    ):
        assert re.search(words, text), words


def test_the_picture_as_png(at):
    assert saved(at(), "PNG").startswith(b"\x89PNG")


def test_pods_by_labels(at):
    page = at()
    page.get_by_role("textbox", name="Pods").fill("app in (web")
    expect(page.get_by_role("alert")).to_contain_text("is not one of: key=value")
    page.get_by_role("textbox", name="Pods").fill("app=db")
    expect(page.get_by_role("alert")).to_have_count(0)
    page.get_by_role("button", name="Table").click()
    page.get_by_role("button", name="Node", exact=True).click()
    expect(page.locator(".table tbody tr").first.locator("td").nth(2)).to_have_text("1")
    expect(page.locator(".table tbody tr").nth(4).locator("td").nth(2)).to_have_text("0")


def test_the_selection_is_in_the_address(at, page):
    page = at("#/plan?group=&resource=memory&colour=namespace&select=pod%3Adefault%2Fdb-1")
    expect(page.locator(".sum")).to_contain_text("memory 0 % requested")
    expect(page.get_by_role("complementary")).to_contain_text("db-1")
    expect(page.locator(".legend")).to_contain_text("default 16")
    page.reload()
    expect(page.get_by_role("complementary")).to_contain_text("db-1")


def test_search_finds_pods_and_nodes(at):
    page = at()
    page.keyboard.press("/")
    page.keyboard.type("node-4")
    page.keyboard.press("Enter")
    expect(page.get_by_role("complementary")).to_contain_text("node-4")
    page.keyboard.press("/")
    page.keyboard.type("big")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("big")
