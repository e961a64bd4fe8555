"""Reports of compare and tune in a browser: light, dark and on a phone, with numbers read from their charts.

The report of a simulation is tested in packages/stowplan-lab/tests/integration/simulation/report.
"""

import pytest

from stowplan_lab.compare.comparison import ONE_RUN, ComparisonRecord, MeasureRecord, estimate
from stowplan_lab.compare.comparison_report import comparison_html
from stowplan_lab.tuning.search_records import BETTER, JudgedRecord, TrialRecord, TuningRecord
from stowplan_lab.tuning.search_report import tuning_html

SCHEMES = {"light": ("rgb(255, 255, 255)", 128, 0), "dark": ("rgb(13, 17, 23)", 255, 128)}
WIDTHS = {"desk": 1280, "phone": 390}
#: Mean waits and costs of trials; 0, 1 and 3 are on the front.
POINTS = [(12.0, 4.0), (20.0, 2.5), (26.0, 3.0), (45.0, 2.0)]
BASELINE = {"waits.mean": 30.0, "cost": 3.5}
COSTS = [[3.0, 3.4, 3.2], [2.0, 2.2, 2.7], [5.0, 5.5, 5.1]]


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


@pytest.fixture(params=WIDTHS)
def width(request):
    return WIDTHS[request.param]


@pytest.fixture(params=SCHEMES)
def scheme(request):
    return request.param


@pytest.fixture
def opened(open_tab, tmp_path, width, scheme):
    """A page in a tab of that width and color scheme."""

    def opener(html):
        file = tmp_path / "report.html"
        file.write_text(html)
        return _Opened(open_tab(color_scheme=scheme), file, width)

    return opener


class _Opened:
    def __init__(self, tab, file, width):
        self._tab, self._file, self._width = tab, file, width

    def __enter__(self):
        page = self._tab.__enter__().page
        page.set_viewport_size({"width": self._width, "height": 850})
        page.goto(self._file.as_uri())
        return page

    def __exit__(self, *error):
        return self._tab.__exit__(*error)


def centres(page, selector):
    script = (
        "all => all.map(one => one.getBoundingClientRect()).map(box => [box.x + box.width / 2, box.y + box.height / 2])"
    )
    return page.eval_on_selector_all(selector, script)


def reading(page, ticks, axis):
    """Converts screen coordinates to values of the axis."""
    texts = [float(text.replace(",", "")) for text in page.locator(ticks).all_text_contents()]
    # Labels of the x axis are beside their lines where there is no room below.
    places = [place[axis] for place in centres(page, "line.across" if axis == 0 else ticks)]
    step = (texts[-1] - texts[0]) / (places[-1] - places[0])
    return lambda place: texts[0] + (place - places[0]) * step


def fits(page, width, scheme):
    """Nothing is wider than the screen, and text has contrast to its background."""
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    darkest, lightest = SCHEMES[scheme][2], SCHEMES[scheme][1]
    colour = page.evaluate("getComputedStyle(document.querySelector('svg text')).fill")
    red = int(colour.partition("(")[2].partition(",")[0])
    assert darkest <= red <= lightest
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == SCHEMES[scheme][0]
    size = page.evaluate(
        "(() => { const one = document.querySelector('svg text');"
        " return parseFloat(getComputedStyle(one).fontSize) * one.getScreenCTM().a; })()"
    )
    assert size >= 8, "text is too small"


def test_positions_of_trials_in_the_front(opened, width, scheme):
    with opened(tuning_html(tuned())) as page:
        fits(page, width, scheme)
        assert page.locator("h1").text_content() == "Tuned: a week of <b>batch</b> & more"
        assert "Better than the baseline" in page.locator("#verdict").text_content()
        across = reading(page, "#front text.across", 0)
        up = reading(page, "#front text.value", 1)
        rings = centres(page, "#front circle.open")
        assert [(across(x), up(y)) for x, y in rings] == [
            pytest.approx((30.0, 3.5), abs=0.6),
            pytest.approx((12.0, 4.0), abs=0.6),
        ]
        dots = [(across(x), up(y)) for x, y in centres(page, "#front circle:not(.open)")]
        order = [2, 0, 1, 3]
        assert dots == [pytest.approx(POINTS[number], abs=0.6) for number in order]
        joined = page.eval_on_selector("#front polyline", "one => one.points.length")
        assert joined == 3


def test_the_timeline_of_a_search_ends_at_its_best_value(opened):
    with opened(tuning_html(tuned())) as page:
        up = reading(page, "#timeline text.value", 1)
        top = page.eval_on_selector("#timeline polyline", "one => one.getBoundingClientRect().top")
        assert up(top) == pytest.approx(20, abs=1)


def test_differences_of_configurations_in_a_comparison(opened, width, scheme):
    with opened(comparison_html(compared())) as page:
        fits(page, width, scheme)
        a, b, c = (x for x, _ in centres(page, "circle"))
        means = [sum(column) / 3 for column in COSTS]
        assert (b - a) / (c - a) == pytest.approx((means[1] - means[0]) / (means[2] - means[0]), abs=0.02)
        low, high = page.eval_on_selector(
            "line.whisker", "one => [one.getBoundingClientRect().left, one.getBoundingClientRect().right]"
        )
        interval = estimate(COSTS[0])
        per_pixel = (means[2] - means[0]) / (c - a)
        assert (high - low) * per_pixel == pytest.approx(interval.high - interval.low, abs=0.1)
        assert ONE_RUN in page.locator("body").text_content()
        assert "<spread>.yaml" in page.locator("ul").first.text_content()
