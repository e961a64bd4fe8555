/** A chart as a picture of its own: what style sheets say is written into it. */
import { framed } from "../parts/framed";
import type { Drawn } from "../parts/pictures";
import { kindPaint } from "../plan/colours";
import type { ChartRecord } from "../protocol";
import { cellOpacity } from "./layers";

const STYLES = [
  ...["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "paint-order", "opacity"],
  ...["font-size", "font-weight", "text-anchor"],
];
const SHARES = [0, 0.25, 0.5, 0.75, 1];

export function drawn(chart: SVGSVGElement, title: string, caption: string, { layers }: ChartRecord): Drawn {
  const named = layers.filter(({ name }) => name);
  const keys = named.map(({ name = "", colour = 0 }) => ({ name, paint: kindPaint(colour) }));
  const scale = layers.some(({ kind }) => kind === "cells")
    ? SHARES.map((share) => ({ name: `${100 * share} %`, paint: kindPaint(0), alpha: cellOpacity(share) }))
    : [];
  const head = { title, lines: caption ? [caption] : [], legend: [...(keys.length > 1 ? keys : []), ...scale] };
  const { width, height } = chart.getBoundingClientRect();
  return framed(head, width, height, (pen) => pen.markup(standing(chart)));
}

/** The chart's markup with its computed styles as attributes. */
function standing(chart: SVGSVGElement): string {
  const copy = chart.cloneNode(true) as SVGSVGElement;
  const originals = [...chart.querySelectorAll<SVGElement>("*")];
  [...copy.querySelectorAll<SVGElement>("*")].forEach((element, i) => {
    const computed = getComputedStyle(originals[i]!);
    element.removeAttribute("style");
    element.removeAttribute("class");
    for (const name of STYLES) element.setAttribute(name, computed.getPropertyValue(name));
  });
  // Not innerHTML, which is no XML.
  const writer = new XMLSerializer();
  return [...copy.childNodes].map((child) => writer.serializeToString(child)).join("");
}
