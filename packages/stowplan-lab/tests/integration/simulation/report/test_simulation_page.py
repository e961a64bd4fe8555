"""The page of a simulation in a real browser: known numbers are read from each chart as drawn."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest

from stowplan_lab.simulation.simulate import simulate_scenario

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SCENARIO = {
    "name": "a <b> & c",
    "duration": 600,
    "cluster": {"groups": [{"name": "a", "count": 4, "capacity": {"cpu": 4}, "zones": ["x", "y"], "price": 1}]},
    "workloads": [
        {
            "name": "w",
            "manifest": {
                "kind": "Pod",
                "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}]},
            },
            "each": 6,
            "lifetime": 300,
        }
    ],
    "models": {"startup": 0},
}

#: What a reader sees: heights relative to the grid, relative widths, and how many cells have which shade.
READ = """
<script>
const grid = (id) => {
  const lines = [...document.querySelectorAll(`#${id} .grid`)].map((l) => l.getBoundingClientRect().top);
  const texts = [...document.querySelectorAll(`#${id} text.value`)].map((t) => parseFloat(t.textContent));
  return (y) => texts[0] + (texts[1] - texts[0]) * (y - lines[0]) / (lines[1] - lines[0]);
};
const highest = (id, selector) => grid(id)(document.querySelector(`#${id} ${selector}`).getBoundingClientRect().top);
const widths = (id) => [...document.querySelectorAll(`#${id} rect`)].map((r) => r.getBoundingClientRect().width);
const colour = (selector, property) => getComputedStyle(document.querySelector(selector))[property];
const read = {
  use: highest('use', 'polyline:not(.dashed)'),
  pending: highest('pending', 'polygon'),
  waits: widths('waits'),
  why: widths('why'),
  nodes: highest('nodes', 'polyline'),
  heat: [...document.querySelectorAll('#heat rect')].filter((r) => r.matches('.h7')).length,
  fragmentation: highest('fragmentation', 'polyline'),
  wide: document.documentElement.scrollWidth,
  text: [colour('body', 'color'), colour('body', 'backgroundColor')],
  title: document.querySelector('h1').textContent,
};
document.documentElement.dataset.read = JSON.stringify(read);
</script>
"""


@pytest.fixture(scope="module")
def result():
    return simulate_scenario(SCENARIO)


def read_in_a_browser(page, folder, *, width, dark):
    assert CHROMIUM is not None
    file = folder / "page.html"
    file.write_text(page.replace("</body>", f"{READ}</body>"), encoding="utf-8")
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    command += [f"--user-data-dir={folder}/profile", f"--window-size={width},2000"]
    command += [f"--blink-settings=preferredColorScheme={0 if dark else 1}", "--dump-dom", file.as_uri()]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    found = re.search(r'data-read="([^"]*)"', shown)
    assert found is not None, shown[:500]
    return json.loads(found[1].replace("&quot;", '"').replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">"))


@pytest.mark.skipif(CHROMIUM is None, reason="no browser is installed")
@pytest.mark.parametrize(("width", "dark"), [(1000, False), (500, True)], ids=["wide and light", "narrow and dark"])
def test_a_browser_shows_what_was_simulated(result, tmp_path, width, dark):
    read = read_in_a_browser(result.page, tmp_path, width=width, dark=dark)
    assert read["title"] == "a <b> & c"
    assert read["use"] == pytest.approx(75, abs=1), "3 of 4 CPUs of each node, in percent"
    assert read["pending"] == pytest.approx(2, abs=0.05)
    # Waits: "none" is the longest bar, twice as long as that of the two pods that waited.
    waits = [one for one in read["waits"] if one]
    assert waits[0] / waits[-1] == pytest.approx(2, rel=0.01)
    assert read["why"][0] > 0
    assert read["nodes"] == pytest.approx(4, abs=0.05)
    assert read["heat"] >= 4, "all four nodes are three quarters full for a while"
    assert read["fragmentation"] == pytest.approx(100, abs=1), "what is free is too small for every pod"
    assert read["wide"] <= width, "the page scrolls sideways"
    brightness = [sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in read["text"]]
    assert (brightness[0] > brightness[1]) is dark


class Loads(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.found += [f"{tag} {name}" for name, _ in attrs if name in ("src", "href", "onload")]
        self.found += [tag] if tag in ("script", "link", "img", "iframe") else []


def test_the_page_is_self_contained(result):
    loads = Loads()
    loads.feed(result.page)
    assert not loads.found
    assert "url(" not in result.page
    assert "@import" not in result.page


def test_the_page_of_an_empty_simulation():
    empty = simulate_scenario({"cluster": {"groups": [{"name": "a", "capacity": {"cpu": 1}}]}, "duration": 5})
    assert "<svg" in empty.page
    assert empty.summary.ends == {}
