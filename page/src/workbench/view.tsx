import type { ViewProps } from "../shell/views";

export function WorkbenchView(_: ViewProps) {
  return <p class="empty">The workbench is not built yet.</p>;
}
