import type { ViewProps } from "../shell/views";

export function TimeView(_: ViewProps) {
  return <p class="empty">Time is not built yet.</p>;
}
