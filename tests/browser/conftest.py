"""A browser for all tests, and the page of a small cluster from files."""

import pytest
from playwright.sync_api import expect

from support.browser.browsers import chromium, tab
from support.browser.pages import cluster, run, served
from support.browser.pages import simulated as simulated_in

# Timeouts allow for a busy machine.
expect.set_options(timeout=20_000)


@pytest.fixture(scope="module")
def browser():
    """Module-scoped: Playwright runs an event loop in this thread, and other tests have their own."""
    with chromium() as found:
        yield found


@pytest.fixture
def open_tab(browser):
    """`with open_tab() as tab`; options are those of a browser context."""
    return lambda **options: tab(browser, **options)


@pytest.fixture
def page(open_tab):
    with open_tab() as found:
        yield found.page


@pytest.fixture(scope="session")
def address(tmp_path_factory):
    """The address of the page of `cluster()`, with its token."""
    with served(tmp_path_factory.mktemp("cluster"), cluster()) as found:
        yield found


@pytest.fixture
def at(address, page):
    """`at("#/queue")`: the page once its data has been loaded."""

    def go(place=""):
        if page.url == "about:blank":
            page.goto(address)
            page.locator(".sum").first.wait_for()
        if place:
            page.goto(f"{address.partition('#')[0]}{place}")
        return page

    return go


@pytest.fixture(scope="session")
def simulated(tmp_path_factory):
    """Two folders of results: the same pods spread, and packed."""
    return simulated_in(tmp_path_factory.mktemp("simulated"))


@pytest.fixture(scope="session")
def pair(simulated):
    """The address of both, side by side."""
    with run("ui", *(word for folder in simulated for word in ("--simulation", str(folder)))) as said:
        yield said.split()[-1]
