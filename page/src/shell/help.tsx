/** The key of symbols, and the shortcuts. */
import { useRef } from "preact/hooks";
import { useClock } from "./clock";

const SYMBOLS: [string, string][] = [
  ["⊘", "a cordoned node: it takes no pods"],
  ["✕", "a node that has failed: not ready, unreachable or out of service"],
  ["◆", "a node with taints: it takes only pods that tolerate them"],
  ["the level of a bay", "how much of the node's resource is requested"],
  ["a bay without its white", "the node has nothing of the resource"],
  ["the size of a box", "the pod's share of the node"],
  ["■ ◪ □", "a device: held, shared, free; ⊘: blocked by other parts of it"],
  ["grey stripes", "devices that are tainted, blocked, or held without a pod of the node"],
  ["dashed outline", "where a pod would fit"],
];
const SHORTCUTS: [string, string][] = [
  ["/", "search pods, nodes and workloads"],
  ["← ↑ → ↓", "from node to node; with Shift, closer"],
  ["+  −  0", "zoom, show everything"],
  ["Home, Esc", "select the first node, none"],
];

export function Help() {
  const dialog = useRef<HTMLDialogElement>(null);
  const [isLocal, toggle] = useClock();
  return (
    <>
      <button type="button" class="quiet" aria-label="Times: change between UTC and local" onClick={toggle}>
        {isLocal ? "local" : "UTC"}
      </button>
      <button type="button" class="quiet" aria-label="Help" onClick={() => dialog.current?.showModal()}>
        ?
      </button>
      <dialog ref={dialog} class="help-box" aria-label="Symbols and shortcuts">
        <form method="dialog">
          <button type="submit" class="quiet close" aria-label="Close">
            ✕
          </button>
        </form>
        <Pairs title="Symbols" pairs={SYMBOLS} />
        <Pairs title="Shortcuts" pairs={SHORTCUTS} />
      </dialog>
    </>
  );
}

function Pairs({ title, pairs }: { title: string; pairs: [string, string][] }) {
  return (
    <>
      <h2>{title}</h2>
      <dl class="facts">
        {pairs.map(([name, text]) => (
          <>
            <dt key={name}>{name}</dt>
            <dd>{text}</dd>
          </>
        ))}
      </dl>
    </>
  );
}
