"""Reports of simulate, compare and tune in a browser: light, dark and on a phone, with numbers read from charts."""

import pytest
from playwright.sync_api import expect

from stowplan.ui.one_file import report_file
from stowplan_lab.compare.comparison import ONE_RUN, ComparisonRecord, MeasureRecord, estimate
from stowplan_lab.compare.comparison_report import comparison_report
from stowplan_lab.simulation.simulate import simulate_scenario
from stowplan_lab.tuning.search_records import BETTER, JudgedRecord, TrialRecord, TuningRecord
from stowplan_lab.tuning.search_report import tuning_report
from support.browser.accessibility import violations

SCHEMES = ("light", "dark")
WIDTHS = {"desk": 1280, "phone": 390}
#: Mean waits and costs of trials; 0, 1 and 3 are on the front.
POINTS = [(12.0, 4.0), (20.0, 2.5), (26.0, 3.0), (45.0, 2.0)]
BASELINE = {"waits.mean": 30.0, "cost": 3.5}
COSTS = [[3.0, 3.4, 3.2], [2.0, 2.2, 2.7], [5.0, 5.5, 5.1]]
CONTAINER = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}
SCENARIO = {
    "name": "a <b> & c",
    "description": "Is <i>four</i> enough?",
    "currency": "EUR",
    "duration": 600,
    "cluster": {"groups": [{"name": "a", "count": 4, "capacity": {"cpu": 4}, "zones": ["x", "y"], "price": 1}]},
    "workloads": [{"name": "w", "manifest": {"kind": "Pod", "spec": {"containers": [CONTAINER]}}, "each": 6}],
    "events": [{"at": 300, "taint": {"group": "a", "key": "late"}}],
    "models": {"startup": 0},
}


def measures(point):
    return dict(zip(BASELINE, point, strict=True))


def tuned():
    trials = [
        TrialRecord(
            number=number,
            values={"default-scheduler/strategy": "MostAllocated"},
            score=float(10 * number - 20),
            measures=measures(point),
            compromise=number != 2,
        )
        for number, point in enumerate(POINTS)
    ]
    judged = [
        JudgedRecord(trial=trial, score=estimate(scores), measures={"cost": estimate([3.0, 3.1])}, differences={})
        for trial, scores in ((None, [0.0, 0.0]), (0, [-20.0, -22.0]))
    ]
    return TuningRecord(
        scenario="a week of <b>batch</b> & more",
        objective="waits.mean=1, cost=1",
        seed=1,
        split=3600,
        horizon=7200,
        seeds=(1, 2),
        judged_seeds=(3, 4),
        baseline=BASELINE,
        baseline_score=0.0,
        trials=tuple(trials),
        axes=("waits.mean", "cost"),
        best=0,
        judged=tuple(judged),
        verdict=BETTER,
        notes=("All pods come from traces.",),
    )


def compared():
    means = [estimate(column) for column in COSTS]
    less = [estimate([b - a for a, b in zip(COSTS[0], column, strict=True)]) for column in COSTS]
    return ComparisonRecord(
        scenario="week.yaml",
        configs=("today.yaml", "packing.yaml", "<spread>.yaml"),
        seeds=(1, 2, 3),
        measures=(MeasureRecord(name="cost", values=tuple(means), differences=tuple(less)),),
        placed_differently=tuple(estimate([share]) for share in (0.0, 40.0, 10.0)),
        notes=(ONE_RUN,),
        recording=True,
    )


@pytest.fixture(scope="module")
def reports():
    return {
        "simulation": simulate_scenario(SCENARIO).record,
        "comparison": comparison_report(compared()),
        "search": tuning_report(tuned()),
    }


@pytest.fixture(params=WIDTHS)
def width(request):
    return WIDTHS[request.param]


@pytest.fixture
def opened(page, tmp_path, reports):
    """A report in a tab of that width."""

    def opener(name, width=WIDTHS["desk"], page=page):
        file = tmp_path / "report.html"
        file.write_text(report_file(reports[name]))
        page.set_viewport_size({"width": width, "height": 850})
        page.goto(file.as_uri())
        page.locator("h1").wait_for()
        return page

    return opener


def centres(page, selector):
    script = (
        "all => all.map(one => one.getBoundingClientRect()).map(box => [box.x + box.width / 2, box.y + box.height / 2])"
    )
    return page.eval_on_selector_all(selector, script)


def reading(page, chart, axis):
    """Converts screen coordinates to values of the axis: 0 across, 1 up."""
    texts = page.locator(f"{chart} .axes text.{('across', 'value')[axis]}").all_text_contents()
    values = [float(text.replace(",", "").removesuffix(" %")) for text in texts]
    places = [place[axis] for place in centres(page, f"{chart} .axes text.{('across', 'value')[axis]}")]
    step = (values[-1] - values[0]) / (places[-1] - places[0])
    return lambda place: values[0] + (place - places[0]) * step


def top_of(page, selector):
    return page.locator(selector).first.evaluate("one => one.getBoundingClientRect().top")


def widths(page, selector):
    return page.eval_on_selector_all(selector, "all => all.map(one => one.getBoundingClientRect().width)")


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", ["simulation", "comparison", "search"])
def test_reports_are_accessible_and_fit(open_tab, opened, name, scheme, width):
    with open_tab(color_scheme=scheme, bypass_csp=True) as tab:
        page = opened(name, width, tab.page)
        assert page.evaluate("document.querySelector('main').scrollWidth") <= width
        assert violations(page) == []


def test_a_simulation_is_drawn_as_it_was(opened, width):
    page = opened("simulation", width)
    assert page.locator("h1").text_content() == "a <b> & c"
    expect(page.locator(".report > p").nth(1)).to_have_text("Is <i>four</i> enough?")
    expect(page.locator(".report-facts")).to_contain_text("0.67 EUR")
    use = reading(page, "#use", 1)
    assert use(top_of(page, "#use .line")) == pytest.approx(75, abs=1.5), "3 of 4 CPUs of each node, in percent"
    assert reading(page, "#pending", 1)(top_of(page, "#pending .area")) == pytest.approx(2, abs=0.05)
    waits = [one for one in widths(page, "#waits .bar") if one]
    assert waits[0] / waits[-1] == pytest.approx(2, rel=0.02), "four did not wait, two did"
    assert reading(page, "#nodes", 1)(top_of(page, "#nodes .line")) == pytest.approx(4, abs=0.1)
    assert page.locator("#heat .cell[style*='0.76']").count() == 4, "all four nodes are three quarters full"
    fragmentation = reading(page, "#fragmentation", 1)(top_of(page, "#fragmentation .line"))
    assert fragmentation == pytest.approx(100, abs=2), "what is free is too small for every pod"
    expect(page.locator("#use .event text")).to_have_text("taint: group a")


def test_an_empty_simulation(page, tmp_path):
    empty = simulate_scenario({"cluster": {"groups": [{"name": "a", "capacity": {"cpu": 1}}]}, "duration": 5})
    (tmp_path / "report.html").write_text(empty.report())
    page.goto((tmp_path / "report.html").as_uri())
    expect(page.locator("#use svg").first).to_be_visible()
    assert empty.summary.ends == {}


def test_values_are_shown_at_the_pointer_layers_chosen_and_ranges_enlarged(opened):
    page = opened("simulation")
    drawing = page.locator("#nodes .drawing > svg")
    box = drawing.bounding_box()
    drawing.hover(position={"x": box["width"] / 2, "y": 60})
    expect(page.locator("#nodes .tip")).to_contain_text("a 4")
    lines = page.locator("#use .line").count()
    page.locator("#use .keys button").first.click()
    expect(page.locator("#use .line")).to_have_count(lines - 1)
    last = page.locator("#nodes .across").last
    expect(last).to_have_text("10m")
    drawing.scroll_into_view_if_needed()
    box = drawing.bounding_box()
    for x, act in ((100, page.mouse.down), (300, page.mouse.up)):
        page.mouse.move(box["x"] + x, box["y"] + 60)
        act()
    expect(last).not_to_have_text("10m")
    page.locator("#nodes").get_by_role("button", name="Whole range").click()
    expect(last).to_have_text("10m")


def test_a_saved_chart_has_title_legend_and_colours(opened):
    page = opened("search")
    with page.expect_download() as download:
        page.get_by_role("button", name="The Pareto front as SVG").click()
    svg = download.value.path().read_text()
    for text in ("The Pareto front", "On the part that was searched", "baseline", "mean wait (s)", ">30<"):
        assert text in svg
    assert "var(" not in svg
    assert "class=" not in svg
    with page.expect_download() as download:
        page.get_by_role("button", name="The Pareto front as CSV").click()
    assert "trial 1: mean wait (s) 20.00, cost 2.50" in download.value.path().read_text()


def test_positions_of_trials_in_the_front(opened, width):
    page = opened("search", width)
    assert page.locator("h1").text_content() == "Tuned: a week of <b>batch</b> & more"
    expect(page.locator(".verdict")).to_contain_text("Better than the baseline")
    across, up = reading(page, "#front", 0), reading(page, "#front", 1)
    at = [(across(x), up(y)) for x, y in centres(page, "#front circle")]
    order = [POINTS[2], POINTS[0], POINTS[1], POINTS[3], (30.0, 3.5), POINTS[0]]
    assert at == [pytest.approx(point, abs=0.6) for point in order]
    up = reading(page, "#timeline", 1)
    assert up(top_of(page, "#timeline .line")) == pytest.approx(20, abs=1)


def test_differences_of_configurations_in_a_comparison(opened, width):
    page = opened("comparison", width)
    across = reading(page, "#cost", 0)
    means = [sum(column) / 3 for column in COSTS]
    assert [across(x) for x, _ in centres(page, "#cost circle")] == [
        pytest.approx(mean - means[0], abs=0.06) for mean in means
    ]
    packing = compared().measures[0].differences[1]
    low, high = (
        page.locator("#cost .whisker")
        .nth(1)
        .evaluate("one => [one.getBoundingClientRect().left, one.getBoundingClientRect().right]")
    )
    assert (across(low), across(high)) == (pytest.approx(packing.low, abs=0.06), pytest.approx(packing.high, abs=0.06))
    expect(page.locator("#cost .label").nth(1)).to_contain_text("2.30 ±0.90, -0.90")
    assert ONE_RUN in page.locator("main").text_content()
    assert "C: <spread>.yaml" in page.locator("main").text_content()
