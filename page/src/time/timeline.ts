/** The plan at any moment of a timeline. To go back, frames are applied again from the start. */
import { PlanModel, type PodItem } from "../plan/model";
import type { DevicesRecord, FramesRecord } from "../protocol";

export class Timeline {
  readonly model = new PlanModel();
  /** All pods of the timeline, for stable colours. */
  readonly pods: ReadonlyMap<string, PodItem>;
  #at = 0;
  /** Of nodes and pods at this moment. */
  #devices: DevicesRecord = { kind: "Devices", nodes: {}, pods: {} };

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
    const changes: (DevicesRecord | null | undefined)[] = [];
    if (wanted < this.#at) {
      this.model.apply(this.record.start);
      this.#at = 0;
    }
    if (!this.#at) {
      this.#devices = { kind: "Devices", nodes: {}, pods: {} };
      changes.push(this.record.devices);
    }
    while (this.#at < wanted) {
      const frame = this.record.frames[this.#at++]!;
      this.model.change(frame);
      changes.push(frame.devices);
    }
    const real = changes.filter((one) => !!one);
    if (!real.length) return;
    const { kind, nodes, pods } = this.#devices;
    this.#devices = {
      kind,
      nodes: Object.assign({}, nodes, ...real.map((one) => one.nodes)),
      pods: Object.assign({}, pods, ...real.map((one) => one.pods)),
    };
    this.model.takeDevices(this.#devices);
  }
}
