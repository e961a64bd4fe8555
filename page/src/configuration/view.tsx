import type { ViewProps } from "../shell/views";

export function ConfigurationView(_: ViewProps) {
  return <p class="empty">The configuration is not built yet.</p>;
}
