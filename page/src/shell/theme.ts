/** Light, dark, or the system's theme, as a class of the root element. */
import { useEffect, useState } from "preact/hooks";

export type Theme = "system" | "light" | "dark";
const KEY = "stowplan-theme";
const ORDER: Theme[] = ["system", "light", "dark"];

export function useTheme(): [Theme, () => void] {
  const [theme, set] = useState<Theme>(stored);
  useEffect(() => {
    const root = document.documentElement;
    if (theme === "system") root.removeAttribute("data-theme");
    else root.dataset.theme = theme;
    window.dispatchEvent(new Event("themechange"));
  }, [theme]);
  return [
    theme,
    () => {
      const next = ORDER[(ORDER.indexOf(theme) + 1) % ORDER.length]!;
      try {
        localStorage.setItem(KEY, next);
      } catch {
        // Storage may be disabled; the choice then lasts as long as the page.
      }
      set(next);
    },
  ];
}

function stored(): Theme {
  try {
    const found = localStorage.getItem(KEY) as Theme | null;
    return found && ORDER.includes(found) ? found : "system";
  } catch {
    return "system";
  }
}

export function isDark(): boolean {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

/** Calls back when the theme changes. */
export function onThemeChange(listener: () => void): () => void {
  const query = matchMedia("(prefers-color-scheme: dark)");
  window.addEventListener("themechange", listener);
  query.addEventListener("change", listener);
  return () => {
    window.removeEventListener("themechange", listener);
    query.removeEventListener("change", listener);
  };
}
