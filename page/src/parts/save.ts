/** Files created in the browser: tables as CSV, pictures as SVG or PNG. */

export type Cell = string | number;

/** Cells that a spreadsheet would evaluate as formulas are escaped: names are untrusted. */
export function csv(rows: readonly (readonly Cell[])[]): string {
  return rows.map((row) => `${row.map(quoted).join(",")}\r\n`).join("");
}

function quoted(cell: Cell): string {
  if (typeof cell === "number") return String(cell);
  const text = /^[=+\-@\t\r]/.test(cell) ? `'${cell}` : cell;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export function saveText(name: string, text: string, type: string): void {
  save(name, new Blob([text], { type }));
}

export function save(name: string, blob: Blob): void {
  const address = URL.createObjectURL(blob);
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** The SVG as PNG, at twice its size. */
export function savePng(name: string, { svg, width, height }: { svg: string; width: number; height: number }): void {
  const image = new Image();
  image.onload = () => {
    const target = document.createElement("canvas");
    target.width = 2 * width;
    target.height = 2 * height;
    target.getContext("2d")!.drawImage(image, 0, 0, target.width, target.height);
    target.toBlob((blob) => blob && save(name, blob), "image/png");
  };
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
}

export function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`);
}
