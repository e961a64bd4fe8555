"""The accessibility checker axe, run on a page."""

import pytest

from support.paths import ROOT

AXE = ROOT / "page" / "node_modules" / "axe-core" / "axe.min.js"


def violations(page):
    """Its violations, one per line. The tab has to be opened with `bypass_csp=True`."""
    if not AXE.exists():
        pytest.skip("axe-core is not installed: `make page` installs it")
    page.add_script_tag(path=AXE)
    found = page.evaluate("axe.run()")["violations"]
    return [f"{one['id']}: {one['help']}: {one['nodes'][0]['html']}" for one in found]
