"""Reports as data: what the page's report view shows of a simulation, a comparison or a search.

Whoever reports chooses words, tables and charts; the page draws them. A chart is a stack of layers over two axes, or
beside rows (`bands`), such as bars with their names.
"""

from __future__ import annotations

from typing import Literal

from stowplan.scheduler.inspection.records import Record

Unit = Literal["ratio", "seconds", "count", ""]
LayerKind = Literal["line", "step", "area", "bar", "dot", "cells"]


class AxisRecord(Record, frozen=True, kw_only=True):
    name: str = ""
    unit: Unit = ""


class LayerRecord(Record, frozen=True, kw_only=True):
    """Values of one kind. Areas stand on the area before; bars and dots of a chart with bands have a row each."""

    kind: LayerKind
    #: Its entry in the legend, if there are several.
    name: str = ""
    x: tuple[float, ...] = ()
    y: tuple[float, ...] = ()
    #: The ends of intervals in x.
    low: tuple[float | None, ...] = ()
    high: tuple[float | None, ...] = ()
    labels: tuple[str, ...] = ()
    #: Shares by band and column; `x` are the columns' limits.
    rows: tuple[tuple[float | None, ...], ...] = ()
    colour: int = 0
    dashed: bool = False
    #: Dots as rings.
    marked: bool = False


class ChartRecord(Record, frozen=True, kw_only=True):
    x: AxisRecord = AxisRecord()
    y: AxisRecord = AxisRecord()
    bands: tuple[str, ...] = ()
    layers: tuple[LayerRecord, ...]
    #: Events, by their x.
    marks: tuple[tuple[float, str], ...] = ()


class TableRecord(Record, frozen=True, kw_only=True):
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class SectionRecord(Record, frozen=True, kw_only=True):
    #: In addresses and file names.
    name: str = ""
    title: str
    caption: str = ""
    chart: ChartRecord | None = None
    table: TableRecord | None = None
    #: Whether readers have to open it.
    folded: bool = False


class ReportRecord(Record, frozen=True, kw_only=True):
    title: str
    lines: tuple[str, ...] = ()
    #: What it comes to, in a sentence.
    headline: str = ""
    #: (name, value)
    facts: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    sections: tuple[SectionRecord, ...] = ()
