"""Self-contained HTML pages with charts as inline SVG: no scripts, nothing loaded, light and dark, readable on a phone.

Charts are lines, stacked areas, bars, scatter plots and heat maps, each as wide as its column. Colors are CSS classes
(`s0`…`s7` for series), which the page defines for light and dark mode. Each chart has a `title` with its content, for
accessibility.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape
from math import ceil, floor, log10

from stowplan.kube.structs import PlainStruct

_LIGHT = ("#2f6fde", "#d9822b", "#2f9e68", "#b4459b", "#7a5bd0", "#0f8b9d", "#c0392b", "#7f7f7f")
_DARK = ("#7aa7ff", "#f0a95b", "#6fd3a0", "#e48fd0", "#b09cf5", "#5cc9da", "#f08a7e", "#b0b0b0")


def standing_page(title: str, body: str) -> str:
    """`body` is HTML, with pictures of `pictures` in it."""
    meta = '<meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
    head = f"<head>{meta}{_style()}<title>{escape(title)}</title></head>"
    return f'<!doctype html><html lang="en">{head}<body>{body}</body></html>\n'


def figure(title: str, caption: str, picture: str, name: str, series: Sequence[Series] = ()) -> str:
    """A chart with its caption and legend."""
    figcaption = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f'<figure id="{name}"><h2>{escape(title)}</h2>{figcaption}{legend(series)}{picture}</figure>'


def _style() -> str:
    light = "".join(f"--c{i}:{colour};" for i, colour in enumerate(_LIGHT))
    dark = "".join(f"--c{i}:{colour};" for i, colour in enumerate(_DARK))
    series = "".join(
        f".s{i}{{stroke:var(--c{i})}}.a{i}{{fill:var(--c{i})}}.b{i}{{background:var(--c{i})}}" for i in range(COLOURS)
    )
    levels = "".join(f".h{i}{{fill:var(--c0);fill-opacity:{0.06 + 0.094 * i:.2f}}}" for i in range(LEVELS))
    return (
        f"<style>:root{{color-scheme:light dark;--fg:#1b1f24;--dim:#59636e;--bg:#fff;--line:#d8dee4;{light}}}"
        f"@media(prefers-color-scheme:dark){{:root{{--fg:#e6edf3;--dim:#9aa4af;--bg:#0d1117;--line:#30363d;{dark}}}}}"
        "body{font:15px/1.5 system-ui,sans-serif;color:var(--fg);background:var(--bg);max-width:56rem;margin:0 auto;"
        "padding:1rem;overflow-wrap:anywhere}"
        "h1{font-size:1.5rem;margin:.5rem 0}h2{font-size:1.1rem;margin:2rem 0 .3rem}"
        "p,figcaption{color:var(--dim);margin:.2rem 0}figure{margin:0}svg{width:100%;height:auto;display:block}"
        "svg text{fill:var(--dim);font-size:13px}svg .value{text-anchor:end}svg .name{fill:var(--fg)}"
        "polyline{fill:none;stroke-width:2;stroke-linejoin:round}.dashed{stroke-dasharray:5 4}"
        "polygon{fill-opacity:.75}.grid{stroke:var(--line)}.tick{stroke:var(--dim)}"
        ".legend{list-style:none;display:flex;flex-wrap:wrap;gap:.2rem 1rem;padding:0;margin:.4rem 0}"
        ".legend i{display:inline-block;width:1rem;height:.6rem;margin-right:.4rem}.legend i.dashed{opacity:.5}"
        "dl{display:grid;grid-template-columns:repeat(auto-fill,minmax(9rem,1fr));gap:.6rem 1rem;margin:1rem 0}"
        "table{border-collapse:collapse;font-size:.93rem}td,th{padding:.15rem .9rem .15rem 0;text-align:right}"
        "td,th{white-space:nowrap}td:first-child,th:first-child{text-align:left}.wide{overflow-x:auto}.open{fill:none;stroke-width:2}.whisker{stroke:var(--fg);stroke-width:2}"
        "dt{color:var(--dim);font-size:.85rem}dd{margin:0;font-size:1.15rem}"
        f"@media(max-width:32rem){{svg text{{font-size:22px}}svg .row{{display:none}}}}{series}{levels}</style>"
    )


WIDTH, HEIGHT = 720, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 12, 12, 34
#: Characters left of the plot.
_NAME_LENGTH = 9
#: Number of series colors of a page.
COLOURS = 8
#: Height of a bar, and of the name above it, which is larger on a phone.
_BAR, _LABEL = 12, 24
_TICKS = 5
#: Height of a scatter plot, and of the name of an axis.
_PLOT, _NAME = 400, 30


class Series(PlainStruct, frozen=True):
    """Values over time, parallel to the times of the chart."""

    name: str
    values: Sequence[float]
    dashed: bool = False
    colour: int = 0


class Bar(PlainStruct, frozen=True):
    name: str
    value: float
    #: The label next to it.
    text: str


def legend(series: Sequence[Series]) -> str:
    items = "".join(
        f'<li><i class="b{one.colour % COLOURS}{" dashed" if one.dashed else ""}"></i>{escape(one.name)}</li>'
        for one in series
    )
    return f'<ul class="legend">{items}</ul>' if items else ""


class _Axes:
    """Coordinates of values."""

    def __init__(self, last: float, top: float) -> None:
        self._last = last or 1.0
        self.step = round_step(top)
        self.top = self.step * max(1, ceil(top / self.step - 1e-9))

    def x(self, time: float) -> float:
        return round(_LEFT + (WIDTH - _LEFT - _RIGHT) * time / self._last, 1)

    def y(self, value: float) -> float:
        return round(HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * value / self.top, 1)

    def drawn(self, time_text: Callable[[float], str], value_text: Callable[[float], str]) -> Iterator[str]:
        value = 0.0
        while value <= self.top + self.step / 2:
            y = self.y(value)
            yield f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y}" y2="{y}"/>'
            yield f'<text class="value" x="{_LEFT - 8}" y="{y + 4}">{escape(value_text(value))}</text>'
            value += self.step
        step = time_step(self._last)
        for number in range(floor(self._last / step + 1e-9) + 1):
            x = self.x(number * step)
            yield f'<line class="tick" x1="{x}" x2="{x}" y1="{HEIGHT - _BOTTOM}" y2="{HEIGHT - _BOTTOM + 5}"/>'
            anchor = ' text-anchor="end"' if x > WIDTH - 40 else ""
            yield f'<text class="time"{anchor} x="{x}" y="{HEIGHT - 10}">{escape(time_text(number * step))}</text>'


def round_step(top: float) -> float:
    """The distance of grid lines: 1, 2 or 5 times a power of ten."""
    if top <= 0:
        return 1.0
    rough = top / (_TICKS - 1)
    power = 10.0 ** floor(log10(rough))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))


def time_step(last: float) -> float:
    """The distance of time ticks."""
    steps = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800)
    return float(next((step for step in steps if last / step <= _TICKS), steps[-1] * ceil(last / steps[-1] / _TICKS)))


def _svg(title: str, height: float, parts: Sequence[str]) -> str:
    head = f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img"><title>{escape(title)}</title>'
    return f"{head}{''.join(parts)}</svg>"


def lines(
    title: str,
    times: Sequence[float],
    series: Sequence[Series],
    time_text: Callable[[float], str],
    value_text: Callable[[float], str],
) -> str:
    top = max((max(one.values, default=0.0) for one in series), default=0.0)
    axes = _Axes(times[-1] if times else 0.0, top)
    parts = list(axes.drawn(time_text, value_text))
    for one in series:
        points = " ".join(f"{axes.x(t)},{axes.y(v)}" for t, v in zip(times, one.values, strict=True))
        dashed = " dashed" if one.dashed else ""
        parts.append(f'<polyline class="s{one.colour % COLOURS}{dashed}" points="{points}"/>')
    return _svg(title, HEIGHT, parts)


def areas(
    title: str,
    times: Sequence[float],
    series: Sequence[Series],
    time_text: Callable[[float], str],
    value_text: Callable[[float], str],
) -> str:
    """Stacked areas, the first one at the bottom."""
    below = [0.0] * len(times)
    sums = [sum(values) for values in zip(*(one.values for one in series), strict=True)] if series else [0.0]
    axes = _Axes(times[-1] if times else 0.0, max(sums, default=0.0))
    parts = list(axes.drawn(time_text, value_text))
    for one in series:
        above = [low + value for low, value in zip(below, one.values, strict=True)]
        up = [f"{axes.x(t)},{axes.y(v)}" for t, v in zip(times, above, strict=True)]
        down = [f"{axes.x(t)},{axes.y(v)}" for t, v in zip(reversed(times), reversed(below), strict=True)]
        parts.append(f'<polygon class="a{one.colour % COLOURS}" points="{" ".join(up + down)}"/>')
        below = above
    return _svg(title, HEIGHT, parts)


def bars(title: str, given: Sequence[Bar]) -> str:
    """Horizontal bars, with the name above each so that long names fit."""
    most = max((bar.value for bar in given), default=0.0) or 1.0
    parts, y = [], 4.0
    for bar in given:
        width = round((WIDTH - 2) * bar.value / most, 1)
        parts.append(f'<text class="name" x="0" y="{y + 18:g}">{escape(bar.name)}</text>')
        parts.append(f'<text class="value" x="{WIDTH}" y="{y + 18:g}">{escape(bar.text)}</text>')
        parts.append(f'<rect class="a0" x="0" y="{y + _LABEL:g}" width="{width}" height="{_BAR}"/>')
        y += _LABEL + _BAR + 6
    return _svg(title, y, parts)


class Dot(PlainStruct, frozen=True):
    """A point of a scatter plot."""

    x: float
    y: float
    name: str
    colour: int = 0
    #: Drawn as a ring, and larger.
    marked: bool = False
    #: Connected to the other joined ones, in order.
    joined: bool = False


def scatter(title: str, names: tuple[str, str], dots: Sequence[Dot], number_text: Callable[[float], str]) -> str:
    """A scatter plot whose axes start at the lowest values; `names` are those of the x and y axes."""
    across = _Scale([dot.x for dot in dots], _LEFT, WIDTH - _RIGHT)
    up = _Scale([dot.y for dot in dots], _PLOT - _BOTTOM - _NAME, _TOP + _NAME)
    bottom = _PLOT - _BOTTOM - _NAME
    parts = []
    for value in up.ticks():
        y = up.at(value)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y}" y2="{y}"/>')
        parts.append(f'<text class="value" x="{_LEFT - 8}" y="{y + 4}">{escape(number_text(value))}</text>')
    for value in across.ticks():
        x = across.at(value)
        parts.append(f'<line class="grid across" x1="{x}" x2="{x}" y1="{_TOP + _NAME}" y2="{bottom}"/>')
        anchor = "end" if x > WIDTH - 40 else "middle"
        parts.append(f'<text class="across" text-anchor="{anchor}" x="{x}" y="{bottom + 24}">')
        parts.append(f"{escape(number_text(value))}</text>")
    parts.append(f'<text class="name" x="0" y="{_TOP + 6}">{escape(names[1])}</text>')
    parts.append(f'<text class="name" text-anchor="end" x="{WIDTH}" y="{_PLOT - 8}">{escape(names[0])}</text>')
    line = " ".join(f"{across.at(dot.x)},{up.at(dot.y)}" for dot in dots if dot.joined)
    if line:
        parts.append(f'<polyline class="s0" points="{line}"/>')
    for dot in dots:
        kind, radius = (f"s{dot.colour} open", 8) if dot.marked else (f"a{dot.colour}", 4)
        place = f'cx="{across.at(dot.x)}" cy="{up.at(dot.y)}" r="{radius}"'
        parts.append(f'<circle class="{kind}" {place}><title>{escape(dot.name)}</title></circle>')
    return _svg(title, _PLOT, parts)


class _Scale:
    """A linear scale between two ends of a chart."""

    def __init__(self, values: Sequence[float], start: float, end: float) -> None:
        low, high = min(values, default=0.0), max(values, default=1.0)
        self._step = round_step((high - low) or abs(high) or 1.0)
        self._low = self._step * floor(low / self._step)
        self._high = self._step * ceil(high / self._step)
        if self._high <= self._low:
            self._high = self._low + self._step
        self._start, self._end = start, end

    def at(self, value: float) -> float:
        share = (value - self._low) / (self._high - self._low)
        return round(self._start + share * (self._end - self._start), 1)

    def ticks(self) -> Iterator[float]:
        for number in range(round((self._high - self._low) / self._step) + 1):
            yield self._low + number * self._step


def _end_of(name: str) -> str:
    """What fits beside a row: names of nodes differ at their ends."""
    return name if len(name) <= _NAME_LENGTH else f"…{name[1 - _NAME_LENGTH :]}"


def heat(
    title: str, last: float, rows: Sequence[tuple[str, Sequence[int | None]]], time_text: Callable[[float], str]
) -> str:
    """Percentages by row, in as many columns of equal width as the rows have; None: empty."""
    columns = max((len(values) for _, values in rows), default=1) or 1
    width, height = (WIDTH - _LEFT - _RIGHT) / columns, max(3.0, min(14.0, 320 / max(1, len(rows))))
    parts = []
    for number, (name, values) in enumerate(rows):
        y = 4 + number * height
        for start, end, level in _runs(values):
            x = _LEFT + start * width
            parts.append(
                f'<rect class="h{level}" x="{x:.1f}" y="{y:.1f}" width="{(end - start) * width + 0.3:.1f}" '
                f'height="{height + 0.3:.1f}"><title>{escape(name)}</title></rect>'
            )
    bottom = 4 + len(rows) * height
    step = time_step(last)
    for number in range(floor(last / step + 1e-9) + 1 if last else 0):
        x = _LEFT + (WIDTH - _LEFT - _RIGHT) * number * step / last
        anchor = ' text-anchor="end"' if x > WIDTH - 40 else ""
        text = escape(time_text(number * step))
        parts.append(f'<text class="time"{anchor} x="{x:.1f}" y="{bottom + 20:g}">{text}</text>')
    for name, y in ((rows[0][0], 14.0), (rows[-1][0], bottom)) if len(rows) > 1 else ():
        parts.append(f'<text class="row" x="0" y="{y:g}">{escape(_end_of(name))}</text>')
    return _svg(title, bottom + 28, parts)


#: Levels of a heat map: tenths, and full.
LEVELS = 11


def _runs(values: Sequence[int | None]) -> Iterator[tuple[int, int, int]]:
    """(first column, end column, level) of runs of equal levels."""
    start = 0
    levels = [None if value is None else min(LEVELS - 1, value // 10) for value in values]
    for at in range(1, len(levels) + 1):
        if at == len(levels) or levels[at] != levels[start]:
            level = levels[start]
            if level is not None:
                yield start, at, level
            start = at
