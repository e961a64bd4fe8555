/** The buttons by which a picture is saved. */
import { savePng, saveText } from "./save";

export interface Drawn {
  svg: string;
  width: number;
  height: number;
}

/** `file` is the name without its ending; `of` says of which picture, where there are several. */
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
