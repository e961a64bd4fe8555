/** Devices: their counts for the plan, and those that a node reaches: who holds each, and which cannot be had. */
import { useEffect } from "preact/hooks";
import { count } from "../parts/format";
import { useRequest } from "../parts/request";
import type { DeviceRecord } from "../protocol";
import type { Source } from "../source/source";
import { useVersion } from "./changes";
import type { PlanModel } from "./model";

/** Milliseconds between two requests for counts. */
const PAUSE = 2000;

/** Keeps the plan's counts of devices. */
export function useDevices(source: Source, plan: PlanModel): void {
  const turn = useVersion(plan, PAUSE);
  // Not by useRequest, whose state would render the view once more.
  useEffect(() => {
    if (!source.can("devices") || !plan.nodes.size) return;
    let wanted = true;
    source.devices().then(
      (found) => wanted && plan.takeDevices(found),
      () => {},
    );
    return () => {
      wanted = false;
    };
  }, [source, plan, turn]);
}

const MARKS: Record<DeviceRecord["status"], string> = { free: "□", held: "■", shared: "◪", blocked: "⊘" };
const MEANINGS: Record<DeviceRecord["status"], string> = {
  free: "free",
  held: "held",
  shared: "shared",
  blocked: "blocked by other parts",
};

export function DevicesOf({
  source,
  plan,
  node,
  onSelect,
}: {
  source: Source;
  plan: PlanModel;
  node: string;
  onSelect: (pod: string) => void;
}) {
  const { answer, error } = useRequest(() => source.devicesOn(node), [source, node, plan.version]);
  if (error) return <p class="note">{error}</p>;
  // The last answer may be about the node that was selected before.
  if (answer?.node !== node || !answer.devices.length) return null;
  const held = answer.devices.filter(({ status }) => status === "held" || status === "shared").length;
  return (
    <>
      <h3>
        {count(answer.devices.length, "device")} <span class="muted">{held} held</span>
      </h3>
      <ul class="devices" aria-label={`Devices of node ${node}`}>
        {answer.devices.flatMap((one, i) => [
          poolOf(one) !== poolOf(answer.devices[i - 1]) && (
            <li key={poolOf(one)} class="muted">
              {poolOf(one)}
            </li>
          ),
          <li key={`${poolOf(one)} ${one.name}`}>
            <span aria-hidden="true">{MARKS[one.status]}</span>
            <span class="grow">
              {one.name}
              {one.part && <span class="muted"> part</span>}
              {one.taints?.map((taint) => (
                <span key={taint} class="chip taint">
                  {taint}
                </span>
              ))}
            </span>
            <Holders one={one} onSelect={onSelect} />
          </li>,
        ])}
      </ul>
    </>
  );
}

function poolOf(one: DeviceRecord | undefined): string {
  return one ? `${one.driver}, pool ${one.pool}` : "";
}

function Holders({ one, onSelect }: { one: DeviceRecord; onSelect: (pod: string) => void }) {
  if (one.pods?.length)
    return (
      <span>
        {one.pods.map((pod) => (
          <button
            key={pod}
            type="button"
            class="link"
            title={one.claims?.join(", ") ?? ""}
            onClick={() => onSelect(pod)}
          >
            {pod}
          </button>
        ))}
      </span>
    );
  return <span class="muted">{one.claims?.length ? `claim ${one.claims.join(", ")}` : MEANINGS[one.status]}</span>;
}
