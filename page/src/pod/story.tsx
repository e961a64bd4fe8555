/** What happened to a pod or a group so far, as a timeline. */
import { span } from "../parts/format";
import type { StepRecord, StoryRecord } from "../protocol";
import { stamp } from "../shell/clock";

export function Story({ story }: { story: StoryRecord }) {
  const first = Date.parse(story.steps[0]?.time ?? "");
  return (
    <section class="card" aria-labelledby="story">
      <h2 id="story">Story</h2>
      <ol class="story">
        {story.steps.map((step, i) => (
          <li key={i} data-kind={kindOf(step)}>
            <time dateTime={step.time} title={step.time}>
              {stamp(step.time, 3)}
            </time>
            <span class="muted">+{span((Date.parse(step.time) - first) / 1000)}</span>
            <span>{words(step)}</span>
            {story.forgotten && i + 1 === story.stepsBeforeGap ? (
              <em class="muted">{story.forgotten} steps are no longer kept here</em>
            ) : null}
          </li>
        ))}
      </ol>
    </section>
  );
}

function kindOf(step: StepRecord): string {
  if (step.milliseconds === undefined) return "news";
  return step.node ? "placed" : "refused";
}

export function words(step: StepRecord): string {
  if (step.milliseconds === undefined)
    return `${step.what}${step.cause ? `: ${step.cause}` : ""}${step.detail ? ` (${step.detail})` : ""}`;
  const head = `attempt ${step.attempt ?? 0} (${step.milliseconds.toFixed(1)} ms)`;
  if (step.node) return `${head}: selected ${step.node}`;
  const refused = Object.entries(step.refused ?? {}).map(([plugin, nodes]) => `${plugin} (${nodes})`);
  const evicts = step.victimsTotal ?? step.victims?.length ?? 0;
  return [
    `${head}: no node. ${step.message ?? step.code ?? ""}`,
    refused.length ? `refused by ${refused.join(", ")}` : "",
    step.nominatedNode ? `nominated to ${step.nominatedNode}${evicts ? `, evicting ${evicts}` : ""}` : "",
  ]
    .filter(Boolean)
    .join("; ");
}
