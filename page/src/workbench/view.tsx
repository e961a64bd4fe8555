/** The workbench: choose changes, see the plan before and after them, and copy them as commands. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { byName, count, grouped } from "../parts/format";
import { PictureButtons } from "../parts/pictures";
import { useRequest } from "../parts/request";
import { saveText } from "../parts/save";
import { type Column, CsvButton, Table } from "../parts/table";
import type { Canvas } from "../plan/canvas";
import { useNodesVersion } from "../plan/changes";
import { COLOURS_BY, type ColourBy, Colours } from "../plan/colours";
import type { PlanModel, PodItem } from "../plan/model";
import { Picture } from "../plan/picture";
import { Choice, Legend, resourcesOf, totalsOf } from "../plan/view";
import type {
  ConfigurationRecord,
  KeptRecord,
  PlannedMoveRecord,
  SourceRecord,
  WhatIfChange,
  WorkbenchRecord,
} from "../protocol";
import { costsOf } from "../room/heat";
import { amend, podHref } from "../shell/address";
import type { ViewProps } from "../shell/views";
import { changeOf, isEmpty, items, textOf } from "./change";
import { Form } from "./form";

/** Milliseconds that a slider must rest before its change is requested. */
const REST = 250;
const ZONE = "topology.kubernetes.io/zone";

export function WorkbenchView({ source, plan, address }: ViewProps) {
  const text = address.query.get("change");
  const change = useMemo(() => changeOf(text), [text]);
  const set = (next: WhatIfChange) => amend(address, { change: textOf(next) });
  const request = useRequest((unwanted) => trial(source.whatIf, change, unwanted), [source, text]);
  const configuration = useRequest(
    () => (source.can("configuration") ? source.configuration() : Promise.reject(new Error("none"))),
    [source],
  );
  return (
    <div class="bench">
      <div class="bench-form">
        <h1>Workbench</h1>
        <p class="muted">Changes are evaluated in memory; nothing is written to the cluster.</p>
        <ul class="staged" aria-label="Changes">
          {items(change).map((item) => (
            <li key={item.text}>
              {item.text}
              <button
                type="button"
                class="quiet"
                aria-label={`Remove: ${item.text}`}
                onClick={() => set(item.without())}
              >
                ✕
              </button>
            </li>
          ))}
        </ul>
        <Form plan={plan} change={change} onChange={set} />
        {configuration.answer && <Weights configuration={configuration.answer} change={change} onChange={set} />}
        <Paste
          label="Manifests to apply"
          value={change.manifests ?? ""}
          onTry={(manifests) => set({ ...change, manifests })}
        />
        <Paste
          label="Another configuration"
          value={change.config ?? ""}
          onTry={(config) => set({ ...change, config })}
        />
        {!isEmpty(change) && (
          <button type="button" onClick={() => set({})}>
            Start over
          </button>
        )}
      </div>
      <div class="bench-result" data-busy={request.busy && !isEmpty(change) ? true : undefined}>
        <p class="busy" role="status">
          {request.busy && !isEmpty(change) && "Evaluating …"}
        </p>
        {request.error && (
          <p class="note" role="alert">
            {request.error}
          </p>
        )}
        {request.answer && !request.error ? (
          <Result plan={plan} record={request.answer} prices={source.about.prices} />
        ) : (
          !request.error && isEmpty(change) && <p class="empty">Add a change to see its effect on the plan.</p>
        )}
      </div>
    </div>
  );
}

async function trial(
  whatIf: (change: WhatIfChange) => Promise<WorkbenchRecord>,
  change: WhatIfChange,
  unwanted: AbortSignal,
): Promise<WorkbenchRecord | undefined> {
  if (isEmpty(change)) return undefined;
  await new Promise((done) => setTimeout(done, REST));
  // The slider has moved meanwhile.
  return unwanted.aborted ? undefined : whatIf(change);
}

// -- the request ----------------------------------------------------------------------------------------------------

interface Part {
  change: WhatIfChange;
  onChange: (change: WhatIfChange) => void;
}

function Weights({ configuration, change, onChange }: Part & { configuration: ConfigurationRecord }) {
  return (
    <details open={!!change.weights}>
      <summary>Weights of plugins</summary>
      {change.config && <p class="muted">The configuration below sets its own weights.</p>}
      {configuration.profiles.map((profile) => {
        const plugins = profile.points.find(({ point }) => point === "score")?.plugins ?? [];
        const chosen = change.weights?.[profile.schedulerName] ?? {};
        const weigh = (plugin: string, weight: number, usual: number) => {
          const { [plugin]: _, ...others } = chosen;
          const mine = weight === usual ? others : { ...others, [plugin]: weight };
          const { [profile.schedulerName]: __, ...profiles } = change.weights ?? {};
          onChange({
            ...change,
            weights: Object.keys(mine).length ? { ...profiles, [profile.schedulerName]: mine } : profiles,
          });
        };
        return (
          <fieldset key={profile.schedulerName} disabled={!!change.config}>
            <legend>{profile.schedulerName}</legend>
            {plugins.map(({ name, weight }) => (
              <label key={name} class="slider">
                <span>{name}</span>
                <input
                  type="range"
                  min={0}
                  max={20}
                  value={chosen[name] ?? weight}
                  onInput={(event) => weigh(name, event.currentTarget.valueAsNumber, weight)}
                />
                <output>{chosen[name] ?? weight}</output>
              </label>
            ))}
          </fieldset>
        );
      })}
    </details>
  );
}

function Paste({ label, value, onTry }: { label: string; value: string; onTry: (text: string) => void }) {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  return (
    <details open={!!value}>
      <summary>{label}</summary>
      <textarea
        rows={7}
        class="mono"
        aria-label={label}
        spellcheck={false}
        value={text}
        placeholder="YAML or JSON"
        onInput={(event) => setText(event.currentTarget.value)}
      />
      <button type="button" disabled={text === value} onClick={() => onTry(text)}>
        Try
      </button>
    </details>
  );
}

// -- the result -----------------------------------------------------------------------------------------------------

const SIDES = ["before", "after", "difference"] as const;
type Side = (typeof SIDES)[number];
const TITLES: Record<Side, string> = { before: "Before", after: "After", difference: "Moved pods" };

interface ResultProps {
  plan: PlanModel;
  record: WorkbenchRecord;
  prices: SourceRecord["prices"];
}

function Result({ plan, record, prices }: ResultProps) {
  const [side, setSide] = useState<Side>("difference");
  const [chosen, select] = useState<[string, string]>(["", ""]);
  const canvas = useRef<Canvas | null>(null);
  const nodesVersion = useNodesVersion(plan);
  const models = useMemo(
    () => ({ before: changed(plan, record.settled), after: changed(plan, record.plan) }),
    [plan, record],
  );
  const moved = useMemo(
    () => new Set([...Object.keys(record.placed), ...Object.keys(record.displaced), ...Object.keys(record.elsewhere)]),
    [record],
  );
  const [by, colour] = useState<ColourBy>("workload");
  const model = side === "before" ? models.before : models.after;
  const colours = useMemo(
    () => new Colours(by, [...models.before.pods.values(), ...models.after.pods.values()], Date.now()),
    [models, by],
  );
  const shown = useMemo(() => (pod: PodItem) => side !== "difference" || moved.has(pod.key), [side, moved]);
  const group = [...model.nodes.values()].some((node) => node.labels[ZONE]) ? ZONE : "";
  const usual = [...model.pods.values()].some((pod) => pod.requests.cpu) ? "cpu" : "pods";
  const [wanted, fill] = useState("");
  const resource = wanted || usual;
  const resources = useMemo(() => resourcesOf(models.after), [models]);
  const counts = useMemo(() => colours.counts(model.pods.values()), [colours, model]);
  return (
    <>
      <Figures record={record} models={models} resources={resources} prices={prices} />
      <div class="tools">
        <span class="buttons" role="group" aria-label="Which plan">
          {SIDES.map((one) => (
            <button key={one} type="button" aria-pressed={one === side} onClick={() => setSide(one)}>
              {TITLES[one]}
            </button>
          ))}
        </span>
        <Choice label="Fill" value={resource} onChange={fill} options={resources.map((one) => [one, one])} />
        <Choice
          label="Colour"
          value={by}
          onChange={(next) => colour(next as ColourBy)}
          options={Object.entries(COLOURS_BY)}
        />
        <span class="muted grow">{chosen[1] || chosen[0]}</span>
        <span class="buttons">
          <PictureButtons
            file={`what-if-${side}`}
            of="The plan"
            small
            draw={() =>
              canvas.current!.drawn({
                title: record.changes.join("; "),
                lines: [`${TITLES[side]}; the higher a bay is filled, the more ${resource} is requested`],
                legend: colours.keys(colours.counts(model.pods.values())),
              })
            }
          />
        </span>
      </div>
      <div class="sea">
        <Picture
          key={side === "before" ? "before" : "after"}
          plan={model}
          settings={{ group, resource, colour: by }}
          label={group}
          colours={colours}
          nodesVersion={nodesVersion}
          shown={shown}
          selectedNode={chosen[0]}
          selectedPod={chosen[1]}
          onSelect={(node, pod) => select([node, pod])}
          handle={canvas}
        />
      </div>
      <Legend colours={colours} counts={counts} chosen="" onChoose={() => {}} pick={false} />
      <Moves record={record} before={models.before} />
      <Kept kept={record.rebalance?.kept ?? []} />
      {noted(record).map((note) => (
        <p key={note} class="note">
          {note}
        </p>
      ))}
      <Reasons record={record} />
      <Take record={record} />
    </>
  );
}

function changed(plan: PlanModel, changes: WorkbenchRecord["plan"]): PlanModel {
  const copy = plan.copy();
  copy.change(changes);
  return copy;
}

type Line = [string, number, number];

/** How much of all nodes' resource is requested, in percent. */
function requested(model: PlanModel, resource: string): number {
  const { requested: part, whole } = totalsOf(model, resource);
  return whole ? Math.round((1000 * part) / whole) / 10 : 0;
}

function cents(cost: number): number {
  return Math.round(100 * cost) / 100;
}

interface FiguresProps {
  record: WorkbenchRecord;
  models: { before: PlanModel; after: PlanModel };
  resources: string[];
  prices: SourceRecord["prices"];
}

function Figures({ record, models, resources, prices }: FiguresProps) {
  const { before, after, rebalance } = record;
  const [costs, next] = [costsOf(models.before, prices), costsOf(models.after, prices)];
  const lines: Line[] = [
    ["Nodes", before.nodes, after.nodes],
    ...(rebalance
      ? [
          ["Nodes without pods", rebalance.before.emptyNodes, rebalance.after.emptyNodes] satisfies Line,
          [
            "Standard deviation of the nodes' use, %",
            rebalance.before.unevenness,
            rebalance.after.unevenness,
          ] satisfies Line,
        ]
      : []),
    ["Pods with a node, except DaemonSet pods", before.pods, after.pods],
    ["Pending", before.pending.length, after.pending.length],
    ...resources
      .filter((name) => name !== "pods" && name !== "ephemeral-storage")
      .map((name): Line => [`${name} requested, %`, requested(models.before, name), requested(models.after, name)]),
    ...(costs.whole || next.whole
      ? [
          ["Cost of an hour", cents(costs.whole), cents(next.whole)] satisfies Line,
          ["… of it idle", cents(costs.idle), cents(next.idle)] satisfies Line,
        ]
      : []),
  ];
  return (
    <Compared
      lines={lines}
      caption={`Before and after: ${record.changes.join("; ")}`}
      file="what-if-figures"
      of="Figures"
    />
  );
}

/** Why pods are pending, before and after. */
function Reasons({ record }: { record: WorkbenchRecord }) {
  const [was, is] = [shortened(record.before.reasons), shortened(record.after.reasons)];
  const lines = [...new Set([...was.keys(), ...is.keys()])].map(
    (reason): Line => [reason, was.get(reason) ?? 0, is.get(reason) ?? 0],
  );
  if (!lines.length) return null;
  return (
    <section class="card">
      <h2>Why pods are pending</h2>
      <Compared lines={lines} caption="Pending pods by reason, before and after" file="what-if-reasons" of="Reasons" />
    </section>
  );
}

function Compared({ lines, caption, file, of }: { lines: Line[]; caption: string; file: string; of: string }) {
  return (
    <table class="figures">
      <caption class="visually-hidden">{caption}</caption>
      <thead>
        <tr>
          <th scope="col">
            <CsvButton file={file} of={of} rows={() => [["What", "before", "after"], ...lines]} />
          </th>
          {["before", "after", "difference"].map((title) => (
            <th key={title} scope="col" class="number">
              {title}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {lines.map(([name, one, other]) => (
          <tr key={name}>
            <th scope="row">{name}</th>
            <td class="number">{grouped(one)}</td>
            <td class="number">{grouped(other)}</td>
            <td class={`number ${one === other ? "" : "changed"}`}>
              {one === other ? "" : `${other > one ? "+" : "−"}${grouped(cents(Math.abs(other - one)))}`}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** Reasons without their numbers of nodes, so that both sides can be compared. */
export function shortened(reasons: Record<string, number>): Map<string, number> {
  const found = new Map<string, number>();
  for (const [reason, pods] of Object.entries(reasons)) {
    const short = reason
      .replace(/^0\/\d+ nodes are available: /, "")
      .replace(/ (no new claims to deallocate|preemption: ).*$/s, "")
      .replaceAll(/(^|, )\d+ /g, "$1");
    found.set(short, (found.get(short) ?? 0) + pods);
  }
  return found;
}

interface Move {
  pod: string;
  what: string;
  from: string;
  to: string;
  planned?: PlannedMoveRecord;
}

function Moves({ record, before }: { record: WorkbenchRecord; before: PlanModel }) {
  const plan = new Map(record.rebalance?.moves.map((move) => [move.pod, move]));
  const moves: Move[] = [
    ...Object.entries(record.placed).map(([pod, to]): Move => ({ pod, what: "gets a node", from: "", to })),
    ...Object.entries(record.displaced).map(
      ([pod, to]): Move => ({
        pod,
        what: to ? "moves" : "loses its node",
        from: before.pods.get(pod)?.node ?? "",
        to,
        planned: plan.get(pod),
      }),
    ),
    ...Object.entries(record.elsewhere).map(
      ([pod, [from, to]]): Move => ({ pod, what: "is placed elsewhere", from, to }),
    ),
  ].sort((one, other) => (one.planned?.step ?? 0) - (other.planned?.step ?? 0) || byName(one.pod, other.pod));
  if (!moves.length) return <p class="sum">No pod gets, loses or changes its node.</p>;
  const columns: Column<Move>[] = [
    { title: "Pod", value: (move) => move.pod, show: (move) => <a href={podHref(move.pod)}>{move.pod}</a> },
    { title: "What", value: (move) => move.what },
    { title: "Before", value: (move) => move.from },
    { title: "After", value: (move) => move.to },
  ];
  if (plan.size)
    columns.push(
      { title: "Step", value: (move) => move.planned?.step ?? "" },
      { title: "Why", value: (move) => move.planned?.reason ?? "", long: true },
    );
  return (
    <section class="card">
      <h2>{count(moves.length, "pod")} moved</h2>
      <Table
        caption="Pods that get, lose or change their node"
        columns={columns}
        rows={moves}
        rowKey={(move) => move.pod}
        file="what-if"
      />
    </section>
  );
}

function noted({ notes, rebalance }: WorkbenchRecord): string[] {
  const unmet = rebalance && !rebalance.met ? [`Not reached: ${rebalance.goal}.`] : [];
  return [...new Set([...unmet, ...(rebalance?.notes ?? []), ...notes])];
}

/** Pods that a plan of moves would have to move, and does not. */
function Kept({ kept }: { kept: KeptRecord[] }) {
  if (!kept.length) return null;
  const columns: Column<KeptRecord>[] = [
    { title: "Pod", value: (one) => one.pod, show: (one) => <a href={podHref(one.pod)}>{one.pod}</a> },
    { title: "Node", value: (one) => one.node },
    { title: "Should move", value: (one) => one.reason, long: true },
    { title: "Stays", value: (one) => one.kept, long: true },
  ];
  return (
    <section class="card">
      <h2>{count(kept.length, "pod")} would have to move, and stay</h2>
      <Table caption="Pods that stay" columns={columns} rows={kept} rowKey={(one) => one.pod} file="what-if-stays" />
    </section>
  );
}

function Take({ record }: { record: WorkbenchRecord }) {
  const files: [string, string, string][] = [
    ["Commands", record.commands.join("\n"), "change.sh"],
    ["Manifests", record.manifests, "manifests.yaml"],
    ["Configuration", record.config, "scheduler.yaml"],
  ];
  return (
    <section class="card">
      <h2>Export</h2>
      {files
        .filter(([, text]) => text.trim())
        .map(([title, text, file]) => (
          <Copied key={`${title} ${text}`} title={title} text={text} file={file} />
        ))}
    </section>
  );
}

function Copied({ title, text, file }: { title: string; text: string; file: string }) {
  const [done, setDone] = useState("Copy");
  const copy = () =>
    navigator.clipboard.writeText(text).then(
      () => setDone("Copied"),
      () => setDone("Blocked by the browser"),
    );
  return (
    <div>
      <h3>
        {title}{" "}
        <button type="button" class="small" onClick={copy}>
          {done}
        </button>{" "}
        <button type="button" class="small" onClick={() => saveText(file, `${text}\n`, "text/plain")}>
          Save
        </button>
      </h3>
      <pre tabIndex={0} aria-label={title}>
        {text}
      </pre>
    </div>
  );
}
