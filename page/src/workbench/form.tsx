/** The form that adds one kind of change at a time. */
import { useMemo, useState } from "preact/hooks";
import { byName, sortedNames } from "../parts/format";
import { useVersion } from "../plan/changes";
import type { PlanModel } from "../plan/model";
import type { WhatIfChange } from "../protocol";
import { type Workload, workloadOf } from "./change";

const KINDS = {
  addNodes: "Add nodes",
  remove: "Remove a node",
  drain: "Drain a node",
  label: "Label a node",
  taint: "Taint a node",
  scale: "Scale a workload",
  rebalance: "Move pods",
};
const GOALS = {
  mend: "off nodes that reject them",
  spread: "until nodes are used evenly",
  pack: "onto as few nodes as possible",
  "free-nodes": "until so many nodes are empty",
  "room-for": "to fit the manifests below",
};
type Kind = keyof typeof KINDS;
const EFFECTS = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/** Milliseconds between updates of the suggested names. */
const INTERVAL = 2000;

interface Props {
  plan: PlanModel;
  change: WhatIfChange;
  onChange: (change: WhatIfChange) => void;
}

export function Form({ plan, change, onChange }: Props) {
  const [kind, setKind] = useState<Kind>("addNodes");
  const version = useVersion(plan, INTERVAL);
  // Until the user types, the first name is the value.
  const [node, setNode] = useState<string>();
  const [number, setNumber] = useState(1);
  const [key, setKey] = useState("");
  const [value, setValue] = useState("");
  const [effect, setEffect] = useState(EFFECTS[0]!);
  const [remove, setRemove] = useState(false);
  const [workload, setWorkload] = useState("");
  const [goal, setGoal] = useState("mend");
  const nodes = useMemo(() => sortedNames([...plan.nodes.keys()]), [plan, version]);
  const workloads = useMemo(() => workloadsOf(plan), [plan, version]);
  const at = node ?? nodes[0] ?? "";
  const scaled = workloads.has(workload) ? workload : ([...workloads.keys()][0] ?? "");
  const add = (event: Event) => {
    event.preventDefault();
    const extended = <K extends Exclude<Kind, "rebalance">>(which: K, one: NonNullable<WhatIfChange[K]>[number]) => ({
      ...change,
      [which]: [...((change[which] as unknown[] | undefined) ?? []), one],
    });
    switch (kind) {
      case "addNodes":
        return onChange(extended("addNodes", { count: number, like: at }));
      case "remove":
      case "drain":
        return onChange(extended(kind, at));
      case "label":
        return onChange(extended("label", { node: at, key, value: remove ? null : value }));
      case "taint":
        return onChange(extended("taint", remove ? { node: at, key, remove } : { node: at, key, value, effect }));
      case "scale":
        return onChange(extended("scale", { ...workloads.get(scaled)!.workload, replicas: number }));
      case "rebalance":
        return onChange({ ...change, rebalance: counted ? `${goal}=${number}` : goal });
    }
  };
  const keyed = kind === "label" || kind === "taint";
  const counted = kind === "addNodes" || kind === "scale" || (kind === "rebalance" && goal === "free-nodes");
  return (
    <form class="adding" onSubmit={add}>
      <label>
        <span>Change</span>
        <select value={kind} onChange={(event) => setKind(event.currentTarget.value as Kind)}>
          {Object.entries(KINDS).map(([one, title]) => (
            <option key={one} value={one}>
              {title}
            </option>
          ))}
        </select>
      </label>
      {kind === "rebalance" ? (
        <label>
          <span>Goal</span>
          <select value={goal} onChange={(event) => setGoal(event.currentTarget.value)}>
            {Object.entries(GOALS).map(([one, title]) => (
              <option key={one} value={one}>
                {title}
              </option>
            ))}
          </select>
        </label>
      ) : kind === "scale" ? (
        <label>
          <span>Workload</span>
          <select value={scaled} onChange={(event) => setWorkload(event.currentTarget.value)}>
            {[...workloads.keys()].map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
      ) : (
        <label>
          <span>{kind === "addNodes" ? "Like" : "Node"}</span>
          <input
            list="nodes"
            required
            value={at}
            ref={(input) => input?.setCustomValidity(plan.nodes.has(at) ? "" : `There is no node ${at}.`)}
            onInput={(event) => setNode(event.currentTarget.value)}
          />
          <datalist id="nodes">
            {nodes.slice(0, 500).map((name) => (
              <option key={name} value={name} />
            ))}
          </datalist>
        </label>
      )}
      {counted && (
        <label>
          <span>{kind === "scale" ? `Replicas, now ${workloads.get(scaled)?.pods ?? 0}` : "How many"}</span>
          <input
            type="number"
            required
            min={kind === "scale" ? 0 : 1}
            max={10000}
            value={number}
            onInput={(event) => setNumber(event.currentTarget.valueAsNumber || 0)}
          />
        </label>
      )}
      {keyed && (
        <label>
          <span>Key</span>
          <input value={key} required spellcheck={false} onInput={(event) => setKey(event.currentTarget.value)} />
        </label>
      )}
      {keyed && !remove && (
        <label>
          <span>Value</span>
          <input value={value} spellcheck={false} onInput={(event) => setValue(event.currentTarget.value)} />
        </label>
      )}
      {kind === "taint" && !remove && (
        <label>
          <span>Effect</span>
          <select value={effect} onChange={(event) => setEffect(event.currentTarget.value)}>
            {EFFECTS.map((one) => (
              <option key={one}>{one}</option>
            ))}
          </select>
        </label>
      )}
      {keyed && (
        <label class="check">
          <input type="checkbox" checked={remove} onChange={(event) => setRemove(event.currentTarget.checked)} /> take
          it away
        </label>
      )}
      <button type="submit" class="primary" disabled={kind === "rebalance" ? false : kind === "scale" ? !scaled : !at}>
        Add to the trial
      </button>
    </form>
  );
}

/** By the name that is shown; with the number of their pods. */
function workloadsOf(plan: PlanModel): Map<string, { workload: Workload; pods: number }> {
  const found = new Map<string, { workload: Workload; pods: number }>();
  for (const pod of plan.pods.values()) {
    const workload = workloadOf(pod);
    if (!workload) continue;
    const name = `${workload.kind} ${workload.namespace}/${workload.name}`;
    const known = found.get(name);
    if (known) known.pods++;
    else found.set(name, { workload, pods: 1 });
  }
  return new Map([...found].sort(([one], [other]) => byName(one, other)));
}
