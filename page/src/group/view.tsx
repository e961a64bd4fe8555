/** A pod group: who has a node, who waits, and what happened to it. */
import { Answer, useAsked } from "../parts/asked";
import { count } from "../parts/format";
import { type Column, Table } from "../parts/table";
import type { GroupDomain, GroupStateRecord, GroupVerdict } from "../protocol";
import { useVersion } from "../plan/changes";
import { Story } from "../pod/story";
import { reasonOf } from "../plan/quay";
import { nodeHref, podHref } from "../shell/address";
import type { ViewProps } from "../shell/views";

/** A running scheduler judges a group in the time that it has for pods. */
const INTERVAL = 5000;

/** Each group has a view of its own, as pods have. */
export function GroupView(props: ViewProps) {
  return <OneGroup key={props.address.parts.join("/")} {...props} />;
}

function OneGroup({ source, plan, address }: ViewProps) {
  const key = address.parts.join("/");
  const version = useVersion(plan, INTERVAL);
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

/** Pod, its node, why it has none. */
type Member = [string, string, string];

const MEMBERS: Column<Member>[] = [
  { title: "Pod", value: ([pod]) => pod, show: ([pod]) => <a href={podHref(pod)}>{pod}</a> },
  { title: "Node", value: ([, node]) => node, show: ([, node]) => (node ? <a href={nodeHref(node)}>{node}</a> : <span class="muted">none</span>) },
  { title: "Why it waits", value: ([, , why]) => why },
];

function Group({ group }: { group: GroupStateRecord }) {
  const placed = Object.entries(group.haveNode ?? {});
  const waiting = group.waiting ?? [];
  const members: Member[] = [...placed.map(([pod, node]): Member => [pod, node, ""]), ...waiting.map((pod): Member => [pod.pod, "", reasonOf(pod)])];
  return (
    <>
      <p class={`verdict ${waiting.length ? "waits" : "good"}`}>
        {count(placed.length, "pod")} with a node, {waiting.length} waiting{group.minCount ? `; a gang of ${group.minCount}` : ""}
        {group.condition?.message && `. ${group.condition.message}`}
      </p>
      {group.note && <p class="note">{group.note}</p>}
      {group.verdict && <Verdict verdict={group.verdict} />}
      <section class="card">
        <h2>Members</h2>
        <Table caption="Pods of the group" columns={MEMBERS} rows={members} rowKey={([pod]) => pod} file="members" />
      </section>
      {group.story && <Story story={group.story} />}
    </>
  );
}

/** Whether the group fits as a whole, and how far from it each domain is. */
function Verdict({ verdict }: { verdict: GroupVerdict }) {
  const domains = verdict.domains ?? [];
  const columns: Column<GroupDomain>[] = [
    { title: verdict.topologyKey || "Domain", value: (domain) => domain.name || "all nodes" },
    { title: "Nodes", value: (domain) => domain.nodes },
    { title: "Pods placed", value: (domain) => domain.placed?.length ?? 0 },
    { title: "Pods lacking", value: (domain) => domain.lacking ?? 0 },
    { title: "What is lacking", value: (domain) => Object.entries(domain.lackingResources ?? {}).map(([name, amount]) => `${amount} ${name}`).join(", ") },
    { title: "Why", value: (domain) => (domain.refused ?? []).map(({ message }) => message).join("; ") },
  ];
  return (
    <section class="card" aria-labelledby="whole">
      <h2 id="whole">As a whole</h2>
      <p>
        {verdict.fits ? `It fits${verdict.domain ? ` in ${verdict.domain}` : ""}.` : verdict.waitsForPreemption ? "It fits once pods have been evicted." : `It does not fit. ${verdict.message ?? verdict.code}`}
      </p>
      {domains.length > 0 && <Table caption="Where the group was tried" columns={columns} rows={domains} rowKey={(domain) => domain.name ?? ""} file="domains" selected={verdict.domain} />}
    </section>
  );
}
