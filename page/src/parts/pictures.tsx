/** Buttons that save a picture. */
import { savePng, saveText } from "./save";

export interface Drawn {
  svg: string;
  width: number;
  height: number;
}

/** `file`: name without extension; `of`: which of several pictures, for the accessible name. */
export function PictureButtons({
  file,
  draw,
  of,
  small,
}: {
  file: string;
  draw: () => Drawn;
  of?: string;
  small?: boolean;
}) {
  const label = (kind: string) => (of ? `${of} as ${kind}` : undefined);
  const size = small ? "small" : undefined;
  return (
    <>
      <button
        type="button"
        class={size}
        aria-label={label("SVG")}
        onClick={() => saveText(`${file}.svg`, draw().svg, "image/svg+xml")}
      >
        SVG
      </button>
      <button type="button" class={size} aria-label={label("PNG")} onClick={() => savePng(`${file}.png`, draw())}>
        PNG
      </button>
    </>
  );
}
