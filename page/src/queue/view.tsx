import type { ViewProps } from "../shell/views";

export function QueueView(_: ViewProps) {
  return <p class="empty">The queue is not built yet.</p>;
}
