/** Times in UTC or of this machine, by one switch; always with the date. */
import { useEffect, useState } from "preact/hooks";

const KEY = "stowplan-clock";
const CHANGED = "clockchange";
let local = stored();

export function isLocal(): boolean {
  return local;
}

function stored(): boolean {
  try {
    return localStorage.getItem(KEY) === "local";
  } catch {
    return false;
  }
}

/** Whether times are local, and the switch. */
export function useClock(): [boolean, () => void] {
  const [found, set] = useState(local);
  useEffect(() => {
    const changed = () => set(local);
    window.addEventListener(CHANGED, changed);
    return () => window.removeEventListener(CHANGED, changed);
  }, []);
  return [found, toggle];
}

function toggle(): void {
  local = !local;
  try {
    localStorage.setItem(KEY, local ? "local" : "utc");
  } catch {
    // Storage may be disabled; the choice then lasts as long as the page.
  }
  window.dispatchEvent(new Event(CHANGED));
}

/** An ISO time or milliseconds since the epoch, as 2026-11-30 12:03:04 UTC; `digits` of the seconds' fraction. */
export function stamp(time: string | number, digits = 0): string {
  const date = new Date(time);
  if (Number.isNaN(date.getTime())) return String(time);
  const offset = local ? -date.getTimezoneOffset() : 0;
  const shown = new Date(date.getTime() + offset * 60_000).toISOString();
  return `${shown.slice(0, 10)} ${shown.slice(11, digits ? 20 + digits : 19)} ${zone(offset)}`;
}

function zone(offset: number): string {
  if (!local) return "UTC";
  const [sign, away] = [offset < 0 ? "−" : "+", Math.abs(offset)];
  return `UTC${sign}${Math.floor(away / 60)}${away % 60 ? `:${String(away % 60).padStart(2, "0")}` : ""}`;
}
