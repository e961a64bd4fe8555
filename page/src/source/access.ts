/**
 * The token that the server's printed address carries in its fragment, which never leaves the browser. It is kept for
 * the tab's life and taken out of the address, so that an address can be shared without it.
 */
const KEY = "stowplan-token";

export function takeToken(): void {
  const found = inAddress();
  if (!found) return;
  keepToken(found.token);
  history.replaceState(null, "", location.pathname + location.search + (found.rest ? `#${found.rest}` : ""));
}

function inAddress(): { token: string; rest: string } | undefined {
  const found = /^#token=([^&]*)&?(.*)$/.exec(location.hash);
  return found ? { token: decodeURIComponent(found[1] ?? ""), rest: found[2] ?? "" } : undefined;
}

export function keepToken(value: string): void {
  memory = value;
  try {
    sessionStorage.setItem(KEY, value);
  } catch {
    // Storage may be disabled; the token then lives as long as the page.
  }
}

let memory = "";

function token(): string {
  const found = inAddress();
  if (found) return found.token;
  try {
    return sessionStorage.getItem(KEY) ?? memory;
  } catch {
    return memory;
  }
}

/** The headers of every request. */
export function headers(): HeadersInit {
  const held = token();
  return held ? { Authorization: `Bearer ${held}` } : {};
}
