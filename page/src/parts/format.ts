/** Formats amounts, ages and names. */

const BINARY = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
const BYTES = /^(memory|ephemeral-storage|hugepages-.*)$/;

/** Formats milli-CPU, bytes or counts of a resource as kubectl does. */
export function amount(resource: string, value: number): string {
  if (resource === "cpu")
    return value % 1000 === 0 ? grouped(value / 1000) : value < 1000 ? `${value}m` : trimmed(value / 1000);
  if (!BYTES.test(resource)) return grouped(value);
  let unit = 0;
  let left = value;
  while (Math.abs(left) >= 1024 && unit < BINARY.length - 1) {
    left /= 1024;
    unit++;
  }
  return `${trimmed(left)}${BINARY[unit]}`;
}

/** The unit of a resource's amounts in files; "" for counts. */
export function unitOf(resource: string): string {
  return resource === "cpu" ? "millicores" : BYTES.test(resource) ? "bytes" : "";
}

/** With commas between thousands. Not by Intl, whose loading would delay the first picture. */
export function grouped(value: number): string {
  return Number.isInteger(value) ? String(value).replace(/\B(?=(?:\d{3})+$)/g, ",") : value.toLocaleString("en");
}

function trimmed(value: number): string {
  return value.toLocaleString("en", { maximumFractionDigits: value < 10 ? 2 : 1 });
}

/** "36 %", with a no-break space. */
export function percent(part: number, whole: number): string {
  return whole > 0 ? `${Math.round((100 * part) / whole)}\u00a0%` : "–";
}

/** "1 pod", "3 pods". */
export function count(number: number, what: string): string {
  return `${grouped(number)} ${what}${number === 1 ? "" : "s"}`;
}

/** A duration in its two largest units, like kubectl's AGE. */
export function span(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  const units: [string, number][] = [
    ["d", 86400],
    ["h", 3600],
    ["m", 60],
    ["s", 1],
  ];
  const at = units.findIndex(([, size]) => whole >= size);
  if (at < 0) return "0s";
  const [name, size] = units[at]!;
  const first = Math.floor(whole / size);
  const next = units[at + 1];
  const second = next && first < 10 ? Math.floor((whole % size) / next[1]) : 0;
  return `${first}${name}${second && next ? `${second}${next[0]}` : ""}`;
}

/** Names for which the order of `byName` is that of their characters, except for numbers. */
const PLAIN = /^[a-z0-9./-]+$/;
const DIGITS = 20;

/** In the order of `byName`. Plain names are compared by padded keys, in a tenth of the time. */
export function sortedNames(names: readonly string[]): string[] {
  if (!names.every((name) => PLAIN.test(name))) return [...names].sort(byName);
  const keyed = names.map((name): [string, string] => [
    name.replace(/\d+/g, (digits) => digits.padStart(DIGITS, "0")),
    name,
  ]);
  return keyed.sort(([one], [other]) => (one < other ? -1 : one > other ? 1 : 0)).map(([, name]) => name);
}

let names: Intl.Collator | undefined;
/** Natural order: node-2 before node-10. */
export function byName(one: string, other: string): number {
  names ??= new Intl.Collator("en", { numeric: true });
  return names.compare(one, other);
}
