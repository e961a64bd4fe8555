/** A pod group: who has a node, who waits, and what happened to it. */
import { Answer, useAsked } from "../parts/asked";
import { count } from "../parts/format";
import type { GroupStateRecord } from "../protocol";
import { useVersion } from "../plan/changes";
import { Story } from "../pod/story";
import { reasonOf } from "../plan/quay";
import { nodeHref, podHref } from "../shell/address";
import type { ViewProps } from "../shell/views";

/** Each group has a view of its own, as pods have. */
export function GroupView(props: ViewProps) {
  return <OneGroup key={props.address.parts.join("/")} {...props} />;
}

function OneGroup({ source, plan, address }: ViewProps) {
  const key = address.parts.join("/");
  const version = useVersion(plan, 3000);
  const asked = useAsked(() => source.group(key), [source, key, source.about.mode === "live" ? version : 0]);
  return (
    <div class="page">
      <h1>Group {key}</h1>
      <Answer asked={asked} what="the group">
        {(group) => <Group group={group} />}
      </Answer>
    </div>
  );
}

function Group({ group }: { group: GroupStateRecord }) {
  const placed = Object.entries(group.haveNode ?? {});
  const waiting = group.waiting ?? [];
  return (
    <>
      <p class={`verdict ${waiting.length ? "waits" : "good"}`}>
        {count(placed.length, "pod")} with a node, {waiting.length} waiting{group.minCount ? `; a gang of ${group.minCount}` : ""}
        {group.condition?.message && `. ${group.condition.message}`}
      </p>
      <section class="card">
        <h2>Members</h2>
        <ul>
          {placed.map(([pod, node]) => (
            <li key={pod}>
              <a href={podHref(pod)}>{pod}</a> on <a href={nodeHref(node)}>{node}</a>
            </li>
          ))}
          {waiting.map((pod) => (
            <li key={pod.pod}>
              <a href={podHref(pod.pod)}>{pod.pod}</a> <span class="muted">{reasonOf(pod)}</span>
            </li>
          ))}
        </ul>
      </section>
      {group.story && <Story story={group.story} />}
    </>
  );
}
