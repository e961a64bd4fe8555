import type { ViewProps } from "../shell/views";

export function GroupView(_: ViewProps) {
  return <p class="empty">A group is not built yet.</p>;
}
