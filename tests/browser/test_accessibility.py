"""The accessibility checker axe finds no problem in any view, in light and dark mode."""

import pytest

from support.browser.accessibility import violations
from support.browser.pages import served
from support.page.gangs import preempting

VIEWS = {
    "plan": "#/plan",
    "a node": "#/node/node-0",
    "table": "#/plan?as=table",
    "a pod": "#/pod/default/small",
    "a pod that waits": "#/pod/default/big",
    "room": "#/room",
    "queue": "#/queue",
    "workbench": '#/workbench?change={"remove":["node-0"]}',
    "configuration": "#/configuration",
}
TIMELINES = {"two timelines": "#/time", "one timeline": "#/time?timeline=packed", "a pod of one": "#/pod/default/web-3"}
GROUPS = {"a group": "#/group/default/train"}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_views(open_tab, address, scheme):
    with open_tab(color_scheme=scheme, bypass_csp=True) as tab:
        check(tab.page, address, VIEWS)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_timelines(open_tab, pair, scheme):
    with open_tab(color_scheme=scheme, bypass_csp=True) as tab:
        check(tab.page, pair, TIMELINES)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_groups(open_tab, scheme, tmp_path):
    with served(tmp_path, preempting()) as address, open_tab(color_scheme=scheme, bypass_csp=True) as tab:
        check(tab.page, address, GROUPS)


def check(page, address, views):
    page.goto(address)
    page.locator(".sum").wait_for()
    for name, place in views.items():
        page.goto(f"{address.partition('#')[0]}{place}")
        page.locator(".sea, .table, .verdict, .lanes, .figures, .points").first.wait_for()
        assert violations(page) == [], name
