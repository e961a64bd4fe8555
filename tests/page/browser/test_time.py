"""Time in a browser: a recording's moments, back and forth, and played."""

import asyncio
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from support.browser.pages import run
from support.live.recordings import a_short_run


@pytest.fixture(scope="session")
def recorded(tmp_path_factory):
    """The address; made before there is a browser, which has an event loop of its own run in this thread."""
    path = tmp_path_factory.mktemp("recorded") / "run.recording"
    asyncio.run(a_short_run(path))
    with run("ui", "--recording", str(path)) as said:
        yield said.split()[-1]


@pytest.fixture
def at_time(recorded, page):
    page.goto(recorded)
    page.locator(".sum").wait_for()
    page.get_by_role("link", name="Time").click()
    page.get_by_role("slider", name="Moment").wait_for()
    return page


def test_it_begins_at_the_end_and_goes_back_to_the_beginning(at_time):
    tools = at_time.locator(".time .tools")
    expect(tools).to_contain_text("2 nodes, 1 pod stowed, 1 pending")
    at_time.get_by_role("slider", name="Moment").focus()
    at_time.keyboard.press("Home")
    expect(tools).to_contain_text("2 nodes, 0 pods stowed, 0 pending")
    expect(at_time.get_by_role("img", name="Pending pods: 0 at this moment")).to_be_visible()
    at_time.get_by_role("button", name="One step on").click()
    expect(tools).not_to_contain_text("0 pods stowed, 0 pending")
    at_time.keyboard.press("End")


def test_it_plays_to_the_end(at_time):
    at_time.get_by_label("Speed").select_option("500 ×")
    at_time.get_by_role("button", name="Play").click()
    expect(at_time.locator(".time .tools")).to_contain_text("1 pod stowed, 1 pending")
    expect(at_time.get_by_role("button", name="Play")).to_be_visible()


def test_a_moment_has_an_address(at_time, recorded):
    slider = at_time.get_by_role("slider", name="Moment")
    slider.focus()
    at_time.keyboard.press("Home")
    expect(slider).to_have_value("0")
    moment = slider.get_attribute("aria-valuetext")
    at_time.wait_for_url(lambda url: url.endswith(f"#/time?at={quote(moment, safe='')}"))
    at_time.reload()
    expect(at_time.locator(".time .tools")).to_contain_text("0 pods stowed, 0 pending")


def test_a_chart_leads_to_its_moment(at_time):
    at_time.get_by_role("img", name="CPU requested").click(position={"x": 2, "y": 20})
    expect(at_time.locator(".time .tools")).to_contain_text("0 pods stowed")
