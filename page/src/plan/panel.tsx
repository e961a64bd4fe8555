/** Details of the selected node, pod or workload. */
import { amount, byName, count, percent, span } from "../parts/format";
import { Swatch } from "../parts/swatch";
import type { QueuedPodRecord } from "../protocol";
import { groupHref, nodeHref, podHref } from "../shell/address";
import type { Source } from "../source/source";
import { trialHref } from "../workbench/change";
import type { Colours } from "./colours";
import { DevicesOf } from "./devices";
import { need, used } from "./layout";
import { isBroken, type NodeItem, type PlanModel, type PodItem } from "./model";
import { reasonOf } from "./pending";

interface Props {
  source: Source;
  plan: PlanModel;
  colours: Colours;
  queue: ReadonlyMap<string, QueuedPodRecord>;
  resource: string;
  node: string;
  pod: string;
  onSelect: (node: string, pod: string) => void;
  onGroup: (label: string) => void;
  /** Whether changes can be tried. */
  tries: boolean;
}

export function Panel(props: Props) {
  const pod = props.plan.pods.get(props.pod);
  const node = props.plan.nodes.get(pod ? pod.node : props.node);
  return (
    <aside class="panel" aria-label="Selection">
      <button type="button" class="quiet close" aria-label="Close" onClick={() => props.onSelect("", "")}>
        ✕
      </button>
      {pod ? <AboutPod {...props} item={pod} /> : props.pod ? <p class="muted">{props.pod} is gone.</p> : null}
      {node ? (
        <AboutNode {...props} item={node} />
      ) : !pod && props.node ? (
        <p class="muted">Node {props.node} does not exist.</p>
      ) : null}
    </aside>
  );
}

function AboutPod({ item: pod, colours, queue, onSelect }: Props & { item: PodItem }) {
  return (
    <section>
      <h2 class="name">
        <Swatch paint={colours.paint(pod)} /> {pod.name}
      </h2>
      <dl class="facts">
        <dt>Namespace</dt>
        <dd>{pod.namespace}</dd>
        <dt>Workload</dt>
        <dd>{pod.workload || "none"}</dd>
        {pod.group && (
          <>
            <dt>Pod group</dt>
            <dd>
              <a href={groupHref(pod.group)}>{pod.group}</a>
            </dd>
          </>
        )}
        <dt>Node</dt>
        <dd>
          {pod.node ? (
            <button type="button" class="link" onClick={() => onSelect(pod.node, "")}>
              {pod.node}
            </button>
          ) : (
            `none: ${reasonOf(queue.get(pod.key))}`
          )}
          {pod.terminating && " (terminating)"}
        </dd>
        {pod.nominatedNode && (
          <>
            <dt>Nominated</dt>
            <dd>{pod.nominatedNode}</dd>
          </>
        )}
        <dt>Priority</dt>
        <dd>{pod.priority.toLocaleString("en")}</dd>
        {pod.created > 0 && (
          <>
            <dt>Age</dt>
            <dd>{span((Date.now() - pod.created) / 1000)}</dd>
          </>
        )}
        {Object.entries(pod.requests).map(([resource, value]) => (
          <FactOf key={resource} name={resource} value={amount(resource, value)} />
        ))}
      </dl>
      <p>
        <a class="button" href={podHref(pod.key)}>
          {pod.node ? "Why this node?" : "Why pending?"}
        </a>
      </p>
      <Labels labels={pod.labels} />
    </section>
  );
}

function FactOf({ name, value }: { name: string; value: string }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </>
  );
}

function AboutNode({
  source,
  item,
  plan,
  colours,
  resource,
  pod: chosen,
  tries,
  onSelect,
  onGroup,
}: Props & { item: NodeItem }) {
  const pods = [...plan.podsOn(item.name)].sort(
    (one, other) => need(other, resource) - need(one, resource) || byName(one.key, other.key),
  );
  return (
    <section>
      <h2 class="name">
        <a href={nodeHref(item.name)}>{item.name}</a>
      </h2>
      {isBroken(item) && <p class="note">Failed: it does not report to the cluster, or is out of service.</p>}
      {item.unschedulable && <p class="note">Cordoned: it takes no pods.</p>}
      <table class="usage">
        <caption class="visually-hidden">Requested resources of node {item.name}</caption>
        <tbody>
          {Object.entries(item.allocatable).map(([name, whole]) => {
            const requested = used(pods, name);
            return (
              <tr key={name}>
                <th scope="row">{name}</th>
                <td class="number">
                  {amount(name, requested)} of {amount(name, whole)}
                </td>
                <td>
                  <meter
                    min={0}
                    max={whole || 1}
                    value={Math.min(requested, whole)}
                    high={0.9 * whole}
                    aria-label={`${name}: ${percent(requested, whole)}`}
                  />
                </td>
                <td class="number">{percent(requested, whole)}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
      {item.taints.length > 0 && (
        <ul class="chips" aria-label="Taints">
          {item.taints.map(([key, value, effect]) => (
            <li key={`${key}${effect}`} class="chip taint">
              {key}
              {value && `=${value}`}:{effect}
            </li>
          ))}
        </ul>
      )}
      <Labels labels={item.labels} onPick={onGroup} />
      {tries && (
        <p class="what-if">
          What if{" "}
          <a class="button small" href={trialHref({ drain: [item.name] })}>
            it is drained
          </a>{" "}
          <a class="button small" href={trialHref({ remove: [item.name] })}>
            it is gone
          </a>{" "}
          <a class="button small" href={trialHref({ addNodes: [{ count: 1, like: item.name }] })}>
            there is one more
          </a>
        </p>
      )}
      {source.can("devices") && (
        <DevicesOf source={source} plan={plan} node={item.name} onSelect={(pod) => onSelect(item.name, pod)} />
      )}
      <h3>
        {count(pods.length, "pod")} <span class="muted">and their {resource}</span>
      </h3>
      <ul class="pods">
        {pods.slice(0, 250).map((one) => (
          <li key={one.key}>
            <button
              type="button"
              class="row"
              aria-pressed={one.key === chosen}
              onClick={() => onSelect(item.name, one.key)}
              title={one.family}
            >
              <Swatch paint={colours.paint(one)} />
              <span class="grow">{one.key}</span>
              <span class="muted">{amount(resource, need(one, resource))}</span>
            </button>
          </li>
        ))}
      </ul>
      {pods.length > 250 && <p class="muted">and {pods.length - 250} more</p>}
    </section>
  );
}

function Labels({ labels, onPick }: { labels: Record<string, string>; onPick?: (label: string) => void }) {
  const names = Object.keys(labels).sort(byName);
  if (!names.length) return null;
  return (
    <ul class="chips" aria-label="Labels">
      {names.map((name) => (
        <li key={name}>
          {onPick ? (
            <button type="button" class="chip" title={`Group the plan by ${name}`} onClick={() => onPick(name)}>
              {name}={labels[name]}
            </button>
          ) : (
            <span class="chip">
              {name}={labels[name]}
            </span>
          )}
        </li>
      ))}
    </ul>
  );
}
