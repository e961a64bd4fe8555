/** The plan at any moment of a timeline. To go back, frames are applied again from the start. */
import { PlanModel, type PodItem } from "../plan/model";
import type { FramesRecord } from "../protocol";

export class Timeline {
  readonly model = new PlanModel();
  /** All pods of the timeline, for stable colours. */
  readonly pods: ReadonlyMap<string, PodItem>;
  #at = 0;

  constructor(private readonly record: FramesRecord) {
    this.model.apply(record.start);
    const pods = new Map(this.model.pods);
    const stop = this.model.subscribe(
      (change) => change.whole || change.pods.forEach(({ after }) => after && pods.set(after.key, after)),
    );
    this.go(this.last);
    stop();
    this.pods = pods;
    this.go(0);
  }

  get last(): number {
    return this.record.frames.length;
  }

  /** From 0, the start, to `last`. */
  go(index: number): void {
    const wanted = Math.max(0, Math.min(this.last, index));
    if (wanted < this.#at) {
      this.model.apply(this.record.start);
      this.#at = 0;
    }
    while (this.#at < wanted) this.model.change(this.record.frames[this.#at++]!);
  }
}
