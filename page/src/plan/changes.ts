/** Views of a plan that changes many times a second: how often they look. */
import { useLayoutEffect, useState } from "preact/hooks";
import type { Change, PlanModel } from "./model";

const INTERVAL = 300;

/** Grows when the plan has changed, at most every so many milliseconds. */
export function useVersion(plan: PlanModel, interval = INTERVAL): number {
  return useCounter(plan, interval, () => true);
}

/** Grows when nodes have come, gone or changed. */
export function useNodesVersion(plan: PlanModel): number {
  return useCounter(plan, INTERVAL, (change) => (change.whole ? change.nodes : change.nodes.size > 0));
}

function useCounter(plan: PlanModel, interval: number, counts: (change: Change) => boolean): number {
  const [version, grow] = useState(0);
  // At once: what came between the rendering and a later effect would be missed.
  useLayoutEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const stop = plan.subscribe((change) => {
      if (!counts(change)) return;
      // Another plan altogether is shown at once.
      if (change.whole) return grow((before) => before + 1);
      if (timer !== undefined) return;
      timer = setTimeout(() => {
        timer = undefined;
        grow((before) => before + 1);
      }, interval);
    });
    return () => {
      stop();
      clearTimeout(timer);
    };
  }, [plan]);
  return version;
}
