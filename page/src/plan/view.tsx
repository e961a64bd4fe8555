import type { ViewProps } from "../shell/views";

export function PlanView(_: ViewProps) {
  return <p class="empty">The plan is not built yet.</p>;
}
