"""An accessibility checker (axe) finds nothing, in any view, by day and by night."""

from pathlib import Path

import pytest

AXE = Path(__file__).parents[3] / "page" / "node_modules" / "axe-core" / "axe.min.js"
VIEWS = {
    "plan": "#/plan",
    "a node": "#/node/node-0",
    "table": "#/plan?as=table",
    "a pod": "#/pod/default/small",
    "a pod that waits": "#/pod/default/big",
    "queue": "#/queue",
    "workbench": '#/workbench?change={"remove":["node-0"]}',
    "configuration": "#/configuration",
}
COURSES = {"two courses": "#/time", "one course": "#/time?track=packed"}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_found(open_tab, address, scheme):
    if not AXE.exists():
        pytest.skip("axe-core is not installed: `make page` installs it")
    with open_tab(color_scheme=scheme, bypass_csp=True) as tab:
        check(tab.page, address, VIEWS)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_found_of_courses(open_tab, pair, scheme):
    if not AXE.exists():
        pytest.skip("axe-core is not installed: `make page` installs it")
    with open_tab(color_scheme=scheme, bypass_csp=True) as tab:
        check(tab.page, pair, COURSES)


def check(page, address, views):
    page.goto(address)
    page.locator(".sum").wait_for()
    for name, place in views.items():
        page.goto(f"{address.partition('#')[0]}{place}")
        page.locator(".sea, .table, .verdict, .lanes, .figures, .points").first.wait_for()
        page.add_script_tag(path=AXE)
        found = page.evaluate("axe.run()")["violations"]
        told = [f"{one['id']}: {one['help']}: {one['nodes'][0]['html']}" for one in found]
        assert told == [], name
