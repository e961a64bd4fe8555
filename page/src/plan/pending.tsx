/** Pending pods, by reason. */
import { useEffect, useMemo, useState } from "preact/hooks";
import { count, grouped } from "../parts/format";
import { paintStyle } from "../parts/swatch";
import type { QueuedPodRecord } from "../protocol";
import { groupHref } from "../shell/address";
import type { Source } from "../source/source";
import type { Colours } from "./colours";
import type { PlanModel, PodItem } from "./model";

/** Maximum number of boxes per reason; further pods are only counted. */
const MOST = 80;
const LIMIT = 1000;
const MOST_GROUPS = 3;
const PAUSE = 2000;

export interface ReasonGroup {
  reason: string;
  pods: PodItem[];
}

/** Why a pod waits, in a few words. */
export function reasonOf(queued: QueuedPodRecord | undefined): string {
  if (!queued) return "waiting";
  if (queued.gatedBy) return `gated by ${queued.gatedBy}`;
  if (queued.reason) return queued.reason;
  if (queued.rejectedBy?.length) return `refused by ${queued.rejectedBy.join(", ")}`;
  if (queued.place === "placeable") return "a node would take it";
  return queued.place || "waiting";
}

export function byReason(pending: Iterable<PodItem>, queue: ReadonlyMap<string, QueuedPodRecord>): ReasonGroup[] {
  const found = new Map<string, PodItem[]>();
  for (const pod of pending) {
    const reason = pod.nominatedNode ? "waits for its victims to leave" : reasonOf(queue.get(pod.key));
    const there = found.get(reason);
    if (there) there.push(pod);
    else found.set(reason, [pod]);
  }
  return [...found]
    .map(([reason, pods]) => ({ reason, pods }))
    .sort((one, other) => other.pods.length - one.pods.length);
}

/** The first pod groups of these pods. */
function groupsOf(pods: readonly PodItem[]): string[] {
  return [...new Set(pods.map(({ group }) => group).filter(Boolean))].slice(0, MOST_GROUPS);
}

/** For a picture, which has no room for boxes. */
export function pendingText(groups: readonly ReasonGroup[]): string {
  return groups.length ? `; pending: ${groups.map(({ reason, pods }) => `${pods.length} ${reason}`).join(", ")}` : "";
}

/** The scheduling queue by pod, updated at a limited rate while pending pods change. */
export function useQueue(source: Source, plan: PlanModel, version: number): ReadonlyMap<string, QueuedPodRecord> {
  const [queue, setQueue] = useState<ReadonlyMap<string, QueuedPodRecord>>(new Map());
  const waiting = plan.pending.size;
  useEffect(() => {
    if (!source.can("pending") || !waiting) return;
    let over = false;
    const update = () =>
      source.pending(LIMIT).then(
        (record) => !over && setQueue(new Map(record.pods.map((pod) => [pod.pod, pod]))),
        () => {},
      );
    const timer = setTimeout(update, queue.size ? PAUSE : 0);
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, [source, plan, version, waiting]);
  return queue;
}

interface Props {
  plan: PlanModel;
  version: number;
  queue: ReadonlyMap<string, QueuedPodRecord>;
  colours: Colours;
  shown: (pod: PodItem) => boolean;
  selected: string;
  onSelect: (pod: string) => void;
}

export function PendingPods({ plan, version, queue, colours, shown, selected, onSelect }: Props) {
  const found = useMemo(() => byReason(plan.pending, queue), [plan, version, queue]);
  const total = plan.pending.size;
  return (
    <section class="pending-pods" aria-label="Pending pods">
      <h2>
        Pending{" "}
        <span class="muted">
          {total ? count(total, "pod") : plan.pods.size ? "none: every pod has a node" : "none: there are no pods"}
        </span>
      </h2>
      <div class="reasons">
        {found.map(({ reason, pods }) => (
          <section key={reason} class="pile" aria-label={`${reason}: ${count(pods.length, "pod")}`}>
            <h3>
              {reason} <span class="muted">{grouped(pods.length)}</span>
              {groupsOf(pods).map((group) => (
                <>
                  {" "}
                  <a key={group} href={groupHref(group)}>
                    {group}
                  </a>
                </>
              ))}
            </h3>
            <div class="boxes">
              {pods.slice(0, MOST).map((pod) => (
                <button
                  key={pod.key}
                  type="button"
                  class="box painted"
                  style={paintStyle(colours.paint(pod))}
                  aria-label={pod.key}
                  aria-pressed={pod.key === selected}
                  title={`${pod.key}: ${reason}`}
                  data-faint={!shown(pod) || undefined}
                  onClick={() => onSelect(pod.key)}
                />
              ))}
              {pods.length > MOST && <span class="muted">and {grouped(pods.length - MOST)} more</span>}
            </div>
          </section>
        ))}
      </div>
    </section>
  );
}
