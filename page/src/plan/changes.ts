/** Hooks that rerender views of a plan at a limited rate. */
import { useLayoutEffect, useState } from "preact/hooks";
import type { Change, PlanModel } from "./model";

const INTERVAL = 300;

/** Increments when the plan has changed, at most once per interval. */
export function useVersion(plan: PlanModel, interval = INTERVAL): number {
  return useCounter(plan, interval, () => true);
}

/** Increments when nodes are added, deleted or changed. */
export function useNodesVersion(plan: PlanModel): number {
  return useCounter(plan, INTERVAL, (change) => (change.whole ? change.nodes : change.nodes.size > 0));
}

function useCounter(plan: PlanModel, interval: number, counts: (change: Change) => boolean): number {
  const [version, grow] = useState(0);
  // A layout effect: changes between rendering and a later effect would be missed.
  useLayoutEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const stop = plan.subscribe((change) => {
      if (!counts(change)) return;
      // A new plan is shown at once.
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
