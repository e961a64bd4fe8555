"""Self-contained HTML pages: no scripts, nothing loaded, light and dark, readable on a phone."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from stowplan_lab.simulation.report.pictures import COLOURS, LEVELS, legend

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stowplan_lab.simulation.report.pictures import Series

_LIGHT = ("#2f6fde", "#d9822b", "#2f9e68", "#b4459b", "#7a5bd0", "#0f8b9d", "#c0392b", "#7f7f7f")
_DARK = ("#7aa7ff", "#f0a95b", "#6fd3a0", "#e48fd0", "#b09cf5", "#5cc9da", "#f08a7e", "#b0b0b0")


def standing_page(title: str, body: str) -> str:
    """`body` is HTML, with pictures of `pictures` in it."""
    meta = '<meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
    head = f"<head>{meta}{_style()}<title>{escape(title)}</title></head>"
    return f'<!doctype html><html lang="en">{head}<body>{body}</body></html>\n'


def figure(title: str, caption: str, picture: str, series: Sequence[Series], name: str) -> str:
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
