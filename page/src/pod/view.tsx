import type { ViewProps } from "../shell/views";

export function PodView(_: ViewProps) {
  return <p class="empty">A pod is not built yet.</p>;
}
