/** Finds pods, nodes and workloads by parts of their names. The key "/" focuses it. */
import { useEffect, useRef, useState } from "preact/hooks";
import type { PlanModel } from "../plan/model";
import { go, href, nodeHref, podHref } from "./address";

const MOST = 12;

interface Found {
  kind: "node" | "pod" | "workload";
  name: string;
  href: string;
}

export function Search({ plan }: { plan: PlanModel }) {
  const [text, setText] = useState("");
  const [found, setFound] = useState<Found[]>([]);
  const [at, setAt] = useState(0);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    const typed = (event: KeyboardEvent) => {
      if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || isField(event.target)) return;
      event.preventDefault();
      field.current?.focus();
    };
    window.addEventListener("keydown", typed);
    return () => window.removeEventListener("keydown", typed);
  }, []);

  const written = (value: string) => (value.trim() ? search(plan, value.trim()) : []);
  const look = (value: string) => {
    setText(value);
    setFound(written(value));
    setAt(0);
  };
  const take = (chosen: Found | undefined) => {
    if (!chosen) return;
    go(chosen.href, { push: true });
    look("");
    field.current?.blur();
  };
  const key = (event: KeyboardEvent & { currentTarget: HTMLInputElement }) => {
    if (event.key === "ArrowDown") setAt(Math.min(at + 1, found.length - 1));
    else if (event.key === "ArrowUp") setAt(Math.max(at - 1, 0));
    // Uses the current input, which can be newer than the shown results.
    else if (event.key === "Enter") take(written(event.currentTarget.value)[at]);
    else if (event.key === "Escape") look("");
    else return;
    event.preventDefault();
  };
  const open = found.length > 0;
  return (
    <div class="search" role="search">
      <input
        ref={field}
        type="search"
        role="combobox"
        aria-label="Search pods, nodes and workloads"
        aria-expanded={open}
        aria-controls="found"
        aria-autocomplete="list"
        aria-activedescendant={open ? `found-${at}` : undefined}
        placeholder="Search  /"
        value={text}
        spellcheck={false}
        autocomplete="off"
        onInput={(event) => look(event.currentTarget.value)}
        onKeyDown={key}
        onBlur={() => setFound([])}
      />
      <ul id="found" role="listbox" aria-label="Search results" hidden={!open}>
        {found.map((item, i) => (
          <li
            key={`${item.kind} ${item.name}`}
            id={`found-${i}`}
            role="option"
            aria-selected={i === at}
            onMouseDown={() => take(item)}
          >
            <span class="kind">{item.kind}</span> {item.name}
          </li>
        ))}
      </ul>
    </div>
  );
}

export function isField(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
  );
}

/** Nodes, workloads, then pods; names that start with the text come first. */
function search(plan: PlanModel, text: string): Found[] {
  const wanted = text.toLowerCase();
  const workloads = new Set<string>();
  const nodes = matches(plan.nodes.keys(), wanted).map((name): Found => ({ kind: "node", name, href: nodeHref(name) }));
  const pods: Found[] = [];
  for (const pod of plan.pods.values()) {
    if (pod.workload && workloads.size < MOST && pod.workload.toLowerCase().includes(wanted))
      workloads.add(`${pod.namespace}/${pod.workload}`);
    if (pods.length < MOST && pod.key.toLowerCase().includes(wanted))
      pods.push({ kind: "pod", name: pod.key, href: podHref(pod.key) });
  }
  const found = [...workloads].map(
    (name): Found => ({ kind: "workload", name, href: href("plan", [], { select: `workload:${name}` }) }),
  );
  return [...nodes.slice(0, 4), ...found.slice(0, 3), ...pods].slice(0, MOST);
}

function matches(names: Iterable<string>, wanted: string): string[] {
  const first: string[] = [];
  const other: string[] = [];
  for (const name of names) {
    const at = name.toLowerCase().indexOf(wanted);
    if (at === 0) first.push(name);
    else if (at > 0 && other.length < MOST) other.push(name);
    if (first.length === MOST) break;
  }
  return [...first, ...other].slice(0, MOST);
}
