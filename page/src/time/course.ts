/** The plan at any moment of a recording: frames are applied forwards, and from the beginning to go back. */
import { PlanModel } from "../plan/model";
import type { FramesRecord } from "../protocol";

export class Course {
  readonly model = new PlanModel();
  #at = 0;

  constructor(private readonly record: FramesRecord) {
    this.model.apply(record.start);
  }

  get last(): number {
    return this.record.frames.length;
  }

  /** 0 is the beginning, `last` the end. */
  go(index: number): void {
    const wanted = Math.max(0, Math.min(this.last, index));
    if (wanted < this.#at) {
      this.model.apply(this.record.start);
      this.#at = 0;
    }
    while (this.#at < wanted) this.model.change(this.record.frames[this.#at++]!);
  }
}
