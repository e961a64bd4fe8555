/** A pod group: whether it fits as a whole, its victims, its placed and waiting pods, and its story. */
import type { JSX } from "preact";
import { count } from "../parts/format";
import { RequestResult, useRequest } from "../parts/request";
import { type Column, Table } from "../parts/table";
import { useVersion } from "../plan/changes";
import { reasonOf } from "../plan/pending";
import { Story } from "../pod/story";
import type { GroupDomainRecord, GroupPodRecord, GroupStateRecord, GroupVerdictRecord } from "../protocol";
import { momentOf, momentQuery, nodeHref, podHref } from "../shell/address";
import type { ViewProps } from "../shell/views";

/** Milliseconds between requests: a verdict delays a running scheduler. */
const INTERVAL = 5000;

/** Keyed, so that no state of another group is shown. */
export function GroupView(props: ViewProps) {
  return <OneGroup key={`${props.address.parts.join("/")} ${props.address.query}`} {...props} />;
}

function OneGroup({ source, plan, address }: ViewProps) {
  const key = address.parts.join("/");
  const version = useVersion(plan, INTERVAL);
  const moment = momentOf(address);
  const request = useRequest(
    () => source.group(key, moment),
    [source, key, source.about.mode === "live" ? version : 0],
  );
  return (
    <div class="page">
      <h1>Group {key}</h1>
      <RequestResult request={request} what="the group">
        {(group) => <Group group={group} pod={(pod) => <a href={podHref(pod, momentQuery(moment))}>{pod} </a>} />}
      </RequestResult>
    </div>
  );
}

type ShowPod = (pod: string) => JSX.Element;

interface Member {
  pod: string;
  /** "" while it is pending. */
  node: string;
  why: string;
  /** The node that it would get, and the victims on it. */
  would?: GroupPodRecord;
}

function Group({ group, pod }: { group: GroupStateRecord; pod: ShowPod }) {
  const placed = Object.entries(group.haveNode ?? {});
  const waiting = group.waiting ?? [];
  const would = new Map((best(group.verdict)?.placed ?? []).map((one) => [one.pod, one]));
  const members: Member[] = [
    ...placed.map(([name, node]) => ({ pod: name, node, why: "" })),
    ...waiting.map((one) => ({ pod: one.pod, node: "", why: reasonOf(one), would: would.get(one.pod) })),
  ];
  return (
    <>
      <p class={`verdict ${waiting.length ? "waits" : "good"}`}>
        {count(placed.length, "pod")} with a node, {waiting.length} waiting
        {group.minCount ? `; a gang of ${group.minCount}` : ""}
        {group.condition?.message && `. ${group.condition.message}`}
      </p>
      {group.note && <p class="note">{group.note}</p>}
      {group.verdict && <Verdict verdict={group.verdict} pod={pod} />}
      <section class="card" aria-labelledby="members">
        <h2 id="members">Members</h2>
        <Table
          caption="Pods of the group"
          columns={columnsOf(members, pod)}
          rows={members}
          rowKey={(member) => member.pod}
          file="members"
        />
      </section>
      {group.story && <Story story={group.story} />}
    </>
  );
}

/** The selected domain, else the one that fits most of the group's pods. */
function best(verdict: GroupVerdictRecord | undefined): GroupDomainRecord | undefined {
  return verdict?.domains?.find(({ chosen }) => chosen) ?? verdict?.domains?.[0];
}

function columnsOf(members: Member[], pod: ShowPod): Column<Member>[] {
  const node = (name: string) => (name ? <a href={nodeHref(name)}>{name}</a> : <span class="muted">none</span>);
  const columns: Column<Member>[] = [
    { title: "Pod", value: (member) => member.pod, show: (member) => pod(member.pod) },
    { title: "Node", value: (member) => member.node, show: (member) => node(member.node) },
    { title: "Why it waits", value: (member) => member.why },
  ];
  if (members.some(({ would }) => would))
    columns.push({
      title: "Would fit on",
      value: ({ would }) => would?.node ?? "",
      show: ({ would }) => (would ? node(would.node) : ""),
    });
  if (members.some(({ would }) => would?.victims?.length))
    columns.push({
      title: "Victims",
      value: ({ would }) => (would?.victims ?? []).join(" "),
      show: ({ would }) => (would?.victims ?? []).map(pod),
    });
  return columns;
}

/** Whether the group fits as a whole, its victims, and what each domain lacks. */
function Verdict({ verdict, pod }: { verdict: GroupVerdictRecord; pod: ShowPod }) {
  const domains = verdict.domains ?? [];
  const victims = victimsOf(best(verdict));
  const columns: Column<GroupDomainRecord>[] = [
    { title: verdict.topologyKey || "Domain", value: (domain) => domain.name || "all nodes" },
    { title: "Nodes", value: (domain) => domain.nodes },
    { title: "Pods placed", value: (domain) => domain.placed?.length ?? 0 },
    { title: "Pods missing", value: (domain) => domain.lacking ?? 0 },
    {
      title: "Missing resources",
      value: (domain) =>
        Object.entries(domain.lackingResources ?? {})
          .map(([name, amount]) => `${amount} ${name}`)
          .join(", "),
    },
    { title: "Victims", value: (domain) => victimsOf(domain).length },
    { title: "Why", value: (domain) => (domain.refused ?? []).map(({ message }) => message).join("; ") },
  ];
  return (
    <section class="card" aria-labelledby="whole">
      <h2 id="whole">As a whole</h2>
      <p>
        {verdict.fits
          ? `It fits${verdict.domain ? ` in ${verdict.domain}` : ""}.`
          : verdict.waitsForPreemption
            ? "It fits once pods have been evicted."
            : `It does not fit. ${verdict.message ?? verdict.code}`}
      </p>
      {victims.length > 0 && (
        <p class="victims">
          {count(victims.length, "pod")} would be evicted for it:{" "}
          {victims.map((name) => (
            <span key={name}>{pod(name)}</span>
          ))}
        </p>
      )}
      {verdict.relief && verdict.relief.length > 0 && (
        <>
          <h3>What would help</h3>
          <ol class="help">
            {verdict.relief.map(({ text, note }) => (
              <li key={text}>
                {text}
                {note && <span class="muted"> · {note}</span>}
              </li>
            ))}
          </ol>
        </>
      )}
      {domains.length > 0 && (
        <Table
          caption="Where the group was tried"
          columns={columns}
          rows={domains}
          rowKey={(domain) => domain.name ?? ""}
          file="domains"
          selected={verdict.domain}
        />
      )}
    </section>
  );
}

/** Victims for the group as a whole, and for single pods of it. */
export function victimsOf(domain: GroupDomainRecord | undefined): string[] {
  return [...new Set([...(domain?.victims ?? []), ...(domain?.placed ?? []).flatMap(({ victims }) => victims ?? [])])];
}
