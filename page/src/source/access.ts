/**
 * The token that the server's printed address carries in its fragment, which never leaves the browser. It is kept for
 * the tab's life and taken out of the address, so that an address can be shared without it.
 */
const KEY = "stowplan-token";

export function takeToken(): string {
  const found = /^#token=([^&]*)&?(.*)$/.exec(location.hash);
  if (found) {
    keepToken(decodeURIComponent(found[1] ?? ""));
    const rest = found[2] ?? "";
    history.replaceState(null, "", location.pathname + location.search + (rest ? `#${rest}` : ""));
  }
  return token();
}

export function keepToken(value: string): void {
  memory = value;
  try {
    sessionStorage.setItem(KEY, value);
  } catch {
    // Storage may be forbidden; the token then lives as long as the page.
  }
}

let memory = "";

export function token(): string {
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
