/** Label selectors in kubectl's syntax: a=b, a==b, a!=b, a in (b,c), a notin (b,c), a, !a, joined by commas. */

export type Matches = (labels: Record<string, string>) => boolean;

const TERM = /^\s*(?:(!)\s*([^\s,!=()]+)|([^\s,!=()]+)\s*(?:(==|!=|=)\s*([^\s,()]*)|\s+(in|notin)\s*\(([^)]*)\))?)\s*$/;

/** The predicate of a selector, or why it is invalid. */
export function parseSelector(text: string): Matches | string {
  const terms: Matches[] = [];
  for (const part of text.trim() ? split(text) : []) {
    const found = TERM.exec(part);
    if (!found)
      return part.trim()
        ? `“${part.trim()}” is not one of: key=value, key!=value, key in (a,b), key notin (a,b), key, !key`
        : "a term between commas is empty";
    terms.push(term(found));
  }
  return (labels) => terms.every((matches) => matches(labels));
}

function split(text: string): string[] {
  return text.split(/,(?![^(]*\))/);
}

function term([, not, absent, key = "", sign, value = "", word, list = ""]: RegExpExecArray): Matches {
  if (not) return (labels) => !Object.hasOwn(labels, absent!);
  const values = sign ? [value] : list.split(",").map((one) => one.trim());
  if (sign === "!=" || word === "notin")
    return (labels) => !Object.hasOwn(labels, key) || !values.includes(labels[key]!);
  if (sign || word) return (labels) => Object.hasOwn(labels, key) && values.includes(labels[key]!);
  return (labels) => Object.hasOwn(labels, key);
}
