import { render } from "preact";
import { useState } from "preact/hooks";
import { setHome } from "./shell/address";
import { Shell } from "./shell/shell";
import { keepToken, takeToken } from "./source/access";
import { serverSource } from "./source/server";
import { Refused, type Source } from "./source/source";
import { StaticSource, savedData } from "./source/static";
import "./style/page.css";

const root = document.getElementById("page")!;

async function start(): Promise<void> {
  takeToken();
  try {
    const data = await savedData();
    const source: Source = data ? new StaticSource(data) : await serverSource();
    if (source.report) setHome("report");
    render(<Shell source={source} />, root);
  } catch (error) {
    render(<Closed error={error} />, root);
  }
}

/** Shown without a source: the server requires a token, or does not respond. */
function Closed({ error }: { error: unknown }) {
  const [held, hold] = useState("");
  const wantsToken = error instanceof Refused && error.status === 401;
  const again = (event: Event) => {
    event.preventDefault();
    if (held) keepToken(held.trim());
    render(null, root);
    void start();
  };
  return (
    <main class="closed">
      <h1>Stowplan</h1>
      <p role="alert">{error instanceof Error ? error.message : String(error)}</p>
      <form onSubmit={again}>
        {wantsToken && (
          <label>
            The token at the end of the address that the command printed
            <input
              type="password"
              value={held}
              onInput={(event) => hold(event.currentTarget.value)}
              autocomplete="off"
            />
          </label>
        )}
        <button type="submit">{wantsToken ? "Open" : "Try again"}</button>
      </form>
    </main>
  );
}

// A URL with a token was opened in this tab.
window.addEventListener("hashchange", () => {
  if (location.hash.startsWith("#token=")) {
    render(null, root);
    void start();
  }
});

void start();
