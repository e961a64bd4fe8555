/** Drawing primitives with two implementations: a canvas and an SVG file. */
import { escaped } from "../parts/save";
import type { Paint, Pattern } from "./colours";

export interface Pen {
  rect(x: number, y: number, width: number, height: number, fill: string, radius?: number): void;
  frame(
    x: number,
    y: number,
    width: number,
    height: number,
    stroke: string,
    width_: number,
    radius?: number,
    dash?: boolean,
  ): void;
  box(x: number, y: number, width: number, height: number, paint: Paint, alpha: number): void;
  text(x: number, y: number, text: string, size: number, fill: string, options?: TextOptions): void;
}

export interface TextOptions {
  bold?: boolean;
  /** Maximum width; longer text is truncated. */
  room?: number;
  /** The colour of an outline that separates text from a pattern. */
  halo?: string;
}

const FONT = "system-ui, 'Segoe UI', 'Noto Sans', sans-serif";
const TILE = 6;
const HALO = 4;

export class CanvasPen implements Pen {
  readonly #patterns = new Map<string, CanvasPattern | string>();

  constructor(
    readonly context: CanvasRenderingContext2D,
    private readonly dark: boolean,
  ) {}

  rect(x: number, y: number, width: number, height: number, fill: string, radius = 0): void {
    this.context.fillStyle = fill;
    if (radius) {
      this.context.beginPath();
      this.context.roundRect(x, y, width, height, radius);
      this.context.fill();
    } else this.context.fillRect(x, y, width, height);
  }

  frame(
    x: number,
    y: number,
    width: number,
    height: number,
    stroke: string,
    thick: number,
    radius = 0,
    dash = false,
  ): void {
    const context = this.context;
    context.strokeStyle = stroke;
    context.lineWidth = thick;
    context.setLineDash(dash ? [4, 3] : []);
    context.beginPath();
    context.roundRect(x, y, width, height, radius);
    context.stroke();
    context.setLineDash([]);
  }

  box(x: number, y: number, width: number, height: number, paint: Paint, alpha: number): void {
    if (alpha !== 1) this.context.globalAlpha = alpha;
    this.context.fillStyle = width > 5 && height > 5 ? this.#filling(paint) : paint[this.dark ? "dark" : "light"];
    this.context.fillRect(x, y, width, height);
    if (alpha !== 1) this.context.globalAlpha = 1;
  }

  text(
    x: number,
    y: number,
    text: string,
    size: number,
    fill: string,
    { bold = false, room = Infinity, halo }: TextOptions = {},
  ): void {
    const context = this.context;
    context.font = `${bold ? "600 " : ""}${size}px ${FONT}`;
    context.fillStyle = fill;
    const shown = room === Infinity ? text : fitted(text, room, (part) => context.measureText(part).width);
    if (!shown) return;
    if (halo) {
      context.strokeStyle = halo;
      context.lineWidth = HALO;
      context.lineJoin = "round";
      context.strokeText(shown, x, y);
    }
    context.fillText(shown, x, y);
  }

  #filling(paint: Paint): CanvasPattern | string {
    const colour = paint[this.dark ? "dark" : "light"];
    if (paint.pattern === "plain") return colour;
    const key = `${colour} ${paint.pattern}`;
    let found = this.#patterns.get(key);
    if (found === undefined) {
      found = pattern(this.context, colour, paint.pattern) ?? colour;
      this.#patterns.set(key, found);
    }
    return found;
  }
}

function pattern(target: CanvasRenderingContext2D, colour: string, kind: Pattern): CanvasPattern | null {
  const tile = document.createElement("canvas");
  tile.width = tile.height = TILE;
  const context = tile.getContext("2d")!;
  context.fillStyle = colour;
  context.fillRect(0, 0, TILE, TILE);
  context.strokeStyle = context.fillStyle = "#ffffffa6";
  context.lineWidth = 1.4;
  context.beginPath();
  if (kind === "stripes") {
    for (const at of [-TILE, 0, TILE]) {
      context.moveTo(at, TILE);
      context.lineTo(at + TILE, 0);
    }
    context.stroke();
  } else {
    context.arc(TILE / 2, TILE / 2, 1.3, 0, 7);
    context.fill();
  }
  return target.createPattern(tile, "repeat");
}

/** The text truncated to a width, with an ellipsis; empty if too little is left to read. */
export function fitted(text: string, room: number, width: (text: string) => number): string {
  if (width(text) <= room) return text;
  let low = 0;
  let high = text.length;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (width(`${text.slice(0, middle)}…`) <= room) low = middle;
    else high = middle - 1;
  }
  return low < 3 ? "" : `${text.slice(0, low)}…`;
}

export class SvgPen implements Pen {
  readonly #parts: string[] = [];
  readonly #patterns = new Map<string, string>();

  constructor(private readonly dark: boolean) {}

  rect(x: number, y: number, width: number, height: number, fill: string, radius = 0): void {
    this.#parts.push(`<rect ${at(x, y, width, height)}${radius ? ` rx="${radius}"` : ""} fill="${fill}"/>`);
  }

  frame(
    x: number,
    y: number,
    width: number,
    height: number,
    stroke: string,
    thick: number,
    radius = 0,
    dash = false,
  ): void {
    const dashes = dash ? ' stroke-dasharray="4 3"' : "";
    this.#parts.push(
      `<rect ${at(x, y, width, height)} rx="${radius}" fill="none" stroke="${stroke}" stroke-width="${round(thick)}"${dashes}/>`,
    );
  }

  box(x: number, y: number, width: number, height: number, paint: Paint, alpha: number): void {
    const colour = paint[this.dark ? "dark" : "light"];
    let fill = colour;
    if (paint.pattern !== "plain") {
      const key = `${paint.pattern}-${colour.slice(1)}`;
      fill = `url(#${key})`;
      if (!this.#patterns.has(key)) this.#patterns.set(key, svgPattern(key, colour, paint.pattern));
    }
    this.#parts.push(`<rect ${at(x, y, width, height)} fill="${fill}"${alpha < 1 ? ` opacity="${alpha}"` : ""}/>`);
  }

  text(
    x: number,
    y: number,
    text: string,
    size: number,
    fill: string,
    { bold = false, room = Infinity, halo }: TextOptions = {},
  ): void {
    const shown = room === Infinity ? text : fitted(text, room, (part) => part.length * size * 0.56);
    if (!shown) return;
    const outline = halo ? ` stroke="${halo}" stroke-width="${HALO}" stroke-linejoin="round" paint-order="stroke"` : "";
    this.#parts.push(
      `<text x="${round(x)}" y="${round(y)}" font-size="${round(size)}"${bold ? ' font-weight="600"' : ""} fill="${fill}"${outline}>${escaped(shown)}</text>`,
    );
  }

  /** What is drawn is moved to a rectangle, and cut off at its edges. */
  within(x: number, y: number, width: number, height: number, draw: () => void): void {
    this.#parts.push(`<svg ${at(x, y, width, height)}>`);
    draw();
    this.#parts.push("</svg>");
  }

  /** A part of another picture. */
  markup(text: string): void {
    this.#parts.push(text);
  }

  svg(width: number, height: number, title: string): string {
    const defs = this.#patterns.size ? `<defs>${[...this.#patterns.values()].join("")}</defs>` : "";
    return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${round(width)} ${round(height)}" width="${round(width)}" height="${round(height)}" font-family="${FONT}" role="img"><title>${escaped(title)}</title>${defs}${this.#parts.join("")}</svg>`;
  }
}

function svgPattern(id: string, colour: string, kind: Pattern): string {
  const mark =
    kind === "stripes"
      ? `<path d="M-1 7L7 -1M-4 4L4 -4M2 10L10 2" stroke="#fff" stroke-opacity=".65" stroke-width="1.4"/>`
      : `<circle cx="3" cy="3" r="1.3" fill="#fff" fill-opacity=".65"/>`;
  return `<pattern id="${id}" width="${TILE}" height="${TILE}" patternUnits="userSpaceOnUse"><rect width="${TILE}" height="${TILE}" fill="${colour}"/>${mark}</pattern>`;
}

function at(x: number, y: number, width: number, height: number): string {
  return `x="${round(x)}" y="${round(y)}" width="${round(width)}" height="${round(height)}"`;
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}
