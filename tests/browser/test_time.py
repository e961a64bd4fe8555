"""The time controls: moments of recordings and simulations, playback, and two timelines side by side."""

import asyncio
import csv
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from stowplan_lab.simulation.definition.scenario_loading import load_scenario
from stowplan_lab.simulation.simulate import simulate_scenario
from support.browser.pages import PACKING, run
from support.live.recordings import a_short_run


@pytest.fixture(scope="session")
def recorded_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("recorded") / "run.recording"
    # In another thread: Playwright's event loop may run in this one.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, a_short_run(path)).result()
    return path


@pytest.fixture(scope="session")
def recorded(recorded_file):
    with run("ui", "--recording", str(recorded_file)) as said:
        yield said.split()[-1]


@pytest.fixture
def at_time(recorded, page):
    page.goto(recorded)
    page.locator(".sum").wait_for()
    page.get_by_role("link", name="Time").click()
    page.get_by_role("slider", name="Moment").wait_for()
    return page


def test_it_starts_at_the_end_and_can_go_back_to_the_beginning(at_time):
    tools = at_time.locator(".one-head")
    expect(tools).to_contain_text("2 nodes, 1 pod scheduled, 1 pending")
    at_time.get_by_role("slider", name="Moment").focus()
    at_time.keyboard.press("Home")
    expect(tools).to_contain_text("2 nodes, 0 pods scheduled, 0 pending")
    expect(at_time.get_by_role("img", name="Pending pods: 0 at this moment")).to_be_visible()
    at_time.get_by_role("button", name="One step forward").click()
    expect(tools).not_to_contain_text("0 pods scheduled, 0 pending")
    at_time.keyboard.press("End")


def test_it_plays_to_the_end(at_time):
    at_time.get_by_label("Speed").select_option("500 ×")
    at_time.get_by_role("button", name="Play").click()
    expect(at_time.locator(".one-head")).to_contain_text("1 pod scheduled, 1 pending")
    expect(at_time.get_by_role("button", name="Play")).to_be_visible()


def test_a_moment_has_an_address(at_time, recorded):
    slider = at_time.get_by_role("slider", name="Moment")
    slider.focus()
    at_time.keyboard.press("Home")
    expect(slider).to_have_value("0")
    moment = slider.get_attribute("aria-valuetext")
    at_time.wait_for_url(lambda url: url.endswith(f"#/time?at={quote(moment, safe='')}"))
    at_time.reload()
    expect(at_time.locator(".one-head")).to_contain_text("0 pods scheduled, 0 pending")


def test_questions_about_a_moment_of_a_recording(at_time):
    at_time.get_by_text("1 pending pod").click()
    at_time.get_by_role("button", name="default/huge").click()
    at_time.get_by_role("link", name="Why pending?").click()
    expect(at_time.locator(".verdict")).to_contain_text("It does not fit on any node. 0/2 nodes are available")


def test_clicking_a_chart_selects_the_moment(at_time):
    at_time.get_by_role("img", name="CPU requested").click(position={"x": 2, "y": 20})
    expect(at_time.locator(".one-head")).to_contain_text("0 pods scheduled")


# -- simulations ------------------------------------------------------------------------------------------------------


@pytest.fixture
def at_pair(pair, page):
    page.goto(pair)
    page.locator(".sum").wait_for()
    page.get_by_role("link", name="Time").click()
    page.get_by_role("slider", name="Moment").wait_for()
    return page


def test_a_simulation_plays_like_a_recording(simulated, page):
    with run("ui", "--simulation", str(simulated[0])) as said:
        page.goto(said.split()[-1])
        expect(page.locator(".sum")).to_contain_text("5 nodes, 8 pods scheduled, 0 pending")
        page.get_by_role("link", name="Time").click()
        sums = page.locator(".one-head")
        expect(sums).to_contain_text("5 nodes, 8 pods scheduled, 0 pending")
        page.get_by_role("slider", name="Moment").focus()
        page.keyboard.press("Home")
        expect(sums).to_contain_text("4 nodes, 1 pod scheduled, 0 pending")
        page.get_by_label("Speed").select_option("500 ×")
        page.get_by_role("button", name="Play").click()
        expect(sums).to_contain_text("5 nodes, 8 pods scheduled, 0 pending")
        expect(page.get_by_role("img", name="95th percentile of waits: 0s")).to_be_visible()
        expect(page.get_by_role("row", name="node added")).to_be_visible()
        page.get_by_role("link", name="Configuration").click()
        expect(page.locator(".points")).to_contain_text("NodeResourcesFit")


def test_questions_about_a_pod_at_a_moment_of_a_simulation(at_pair):
    """With the keyboard only: a node, a pod on it, and why it is there."""
    page = at_pair
    page.locator(".picture").last.focus()
    page.keyboard.press("Home")
    chosen = page.get_by_role("region", name="Selection")
    chosen.get_by_role("button", name="default/web").first.click()
    expect(chosen).to_contain_text("spread: on ")
    key = chosen.locator("strong").inner_text()
    chosen.locator(".place", has_text="packed").get_by_role("link", name="Why this node?").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(key.partition("/")[2])
    expect(page.locator(".crumbs")).to_contain_text("packed, ")
    expect(page.locator(".verdict")).to_contain_text("nodes feasible")
    expect(page.get_by_role("region", name="Points")).to_contain_text("NodeResourcesFit")
    page.locator(".crumbs").get_by_role("link").click()
    expect(page.get_by_role("slider", name="Moment")).to_be_visible()


def test_questions_and_trials_at_the_end_of_a_simulation(pair, page):
    page.goto(pair)
    page.locator(".sum").wait_for()
    page.goto(f"{pair.partition('#')[0]}#/workbench")
    page.locator(".adding select").first.select_option("Remove a node")
    page.get_by_role("button", name="Add to the trial").click()
    expect(page.locator(".figures").get_by_role("row", name="Nodes")).to_contain_text("−1")


def test_the_reason_why_questions_are_unavailable_is_shown(tmp_path, page):
    scenario = load_scenario(
        {"cluster": {"groups": [{"name": "a", "count": 1, "capacity": {"cpu": 4}}]}, "duration": 9}
    )
    simulate_scenario(scenario.scenario, folder=tmp_path / "out")
    with run("ui", "--simulation", str(tmp_path / "out")) as said:
        page.goto(said.split()[-1])
        page.locator(".sum").wait_for()
        expect(page.get_by_role("navigation", name="Views")).not_to_contain_text("Queue")
        page.goto(f"{said.split()[-1].partition('#')[0]}#/pod/default/web-0")
        expect(page.get_by_role("main")).to_contain_text("the scenario was built in Python")


def test_two_timelines_are_synchronized_and_differences_listed(at_pair):
    spread, packed = at_pair.get_by_role("region", name="spread"), at_pair.get_by_role("region", name="packed")
    expect(spread).to_contain_text("5 nodes, 8 pods scheduled")
    expect(packed).to_contain_text("5 nodes, 8 pods scheduled")
    differ = at_pair.locator(".time [role=status]")
    expect(differ).to_contain_text("pods differ at this moment")
    slider = at_pair.get_by_role("slider", name="Moment")
    slider.focus()
    at_pair.keyboard.press("Home")
    expect(spread).to_contain_text("4 nodes, 1 pod scheduled")
    expect(packed).to_contain_text("4 nodes, 1 pod scheduled")
    expect(differ).to_have_text("Both are the same at this moment")
    at_pair.keyboard.press("End")
    at_pair.get_by_text("placed differently, as a table").click()
    table = at_pair.locator(".table", has=at_pair.get_by_role("region", name="Pods that are placed differently"))
    with at_pair.expect_download() as download:
        table.get_by_role("button", name="Save as CSV").click()
    rows = list(csv.DictReader(download.value.path().read_text().splitlines()))
    assert {row["Pod"].partition("/")[0] for row in rows} == {"default"}
    assert all(row["spread"] != row["packed"] for row in rows)
    # Packed, eight pods of two CPUs are on two nodes of eight.
    expect(at_pair.get_by_role("img", name="CPU requested: 40.0 % and 40.0 %")).to_be_visible()


def test_differences_can_be_hidden_and_one_timeline_selected(at_pair):
    mark = at_pair.get_by_role("button", name="Highlight differences")
    expect(mark).to_have_attribute("aria-pressed", "true")
    mark.click()
    expect(mark).to_have_attribute("aria-pressed", "false")
    at_pair.get_by_role("group", name="Timelines").get_by_role("button", name="packed").click()
    expect(at_pair.locator(".one")).to_have_count(1)
    assert "timeline=packed" in at_pair.url
    at_pair.reload()
    expect(at_pair.locator(".one")).to_have_count(1)
    at_pair.get_by_role("button", name="Side by side").click()
    expect(at_pair.locator(".one")).to_have_count(2)


def test_the_colour_of_pods_is_chosen(at_pair):
    legend = at_pair.get_by_role("region", name="packed").get_by_role("list", name="Legend")
    expect(legend).to_contain_text("default/web 8")
    at_pair.get_by_role("combobox", name="Colour").select_option(label="Age")
    expect(legend).to_contain_text("under 5m 8")
    assert "colour=age" in at_pair.url


def test_plans_and_figures_as_pictures_and_figures_as_a_table(at_pair):
    for name, begins in (
        ("The plan of packed as SVG", b"<svg"),
        ("The plan of spread as PNG", b"\x89PNG"),
        ("CPU requested as SVG", b"<svg"),
        ("CPU requested as PNG", b"\x89PNG"),
    ):
        with at_pair.expect_download() as download:
            at_pair.get_by_role("button", name=name).click()
        assert download.value.path().read_bytes().startswith(begins), name
    at_pair.get_by_text("Figures as a table").click()
    table = at_pair.get_by_role("region", name="Figures over time").get_by_role("table")
    expect(table.get_by_role("columnheader", name="Pending pods: packed")).to_be_visible()


def test_a_recording_beside_another_configuration(recorded_file, tmp_path, page):
    (tmp_path / "packing.yaml").write_text(PACKING)
    with run("ui", "--recording", str(recorded_file), "--config", str(tmp_path / "packing.yaml")) as said:
        page.goto(said.split()[-1])
        page.locator(".sum").wait_for()
        page.get_by_role("link", name="Time").click()
        for name in ("recorded", "with packing.yaml"):
            expect(page.get_by_role("region", name=name)).to_contain_text("2 nodes, 1 pod scheduled, 1 pending")
