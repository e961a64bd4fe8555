/**
 * A pod's verdict, as the scheduler answers below /stowplan/, through the API server's proxy of services.
 *
 * Everything that a cluster named or wrote is text of React nodes, never markup. The fields are those of VerdictRecord
 * (docs/reference/inspection.md).
 */

import { ApiProxy } from '@kinvolk/headlamp-plugin/lib';
import { Link, NameValueTable, SectionBox } from '@kinvolk/headlamp-plugin/lib/CommonComponents';
import { Typography } from '@mui/material';
import { useEffect, useState } from 'react';

export interface VerdictRecord {
  node?: string;
  currentNode?: string;
  error?: string;
  message?: string;
  feasibleNodes?: number;
  absentNodesStatus?: { plugin: string; reasons: string[] };
  refusals?: { plugin: string; reasons: string[]; nodes: number }[];
  suggestions?: { text: string; gain: number }[];
  obstacles?: string[];
  relief?: { text: string }[];
}

/** The service of the scheduler's secure port, which the chart and the manifests make. */
export const SERVICE = { namespace: 'kube-system', name: 'https:stowplan:https' };

export function pathOf(namespace: string, name: string): string {
  const [place, service, pod, of] = [SERVICE.namespace, SERVICE.name, name, namespace].map(encodeURIComponent);
  return `/api/v1/namespaces/${place}/services/${service}/proxy/stowplan/explain/${of}/${pod}?suggestions=true`;
}

export function headline(verdict: VerdictRecord): string {
  if (verdict.currentNode) {
    const again = verdict.node === verdict.currentNode ? 'it would go there again' : `now: ${elsewhere(verdict)}`;
    return `On ${verdict.currentNode}; ${again}`;
  }
  if (verdict.node) return `Would go to ${verdict.node}`;
  return verdict.message || verdict.absentNodesStatus?.reasons.join(', ') || verdict.error || 'No node takes it';
}

function elsewhere(verdict: VerdictRecord): string {
  return verdict.node ? `it would go to ${verdict.node}` : 'no node would take it';
}

/** What the panel says where there is no verdict. */
export function refusal(status: number | undefined, message: string): string {
  if (status === 401 || status === 403) {
    return `Not allowed: ${message}. It takes the roles of headlamp/rbac.yaml.`;
  }
  if (status === 404) return `No such service or pod: ${message}`;
  return `The scheduler cannot be asked: ${message}`;
}

type State = { verdict: VerdictRecord } | { refused: string } | undefined;

export function Verdict(props: { namespace: string; name: string; cluster: string }) {
  const { namespace, name, cluster } = props;
  const [state, setState] = useState<State>();
  useEffect(() => {
    let shown = true;
    const set = (next: State) => shown && setState(next);
    ApiProxy.clusterRequest(pathOf(namespace, name), { cluster, autoLogoutOnAuthError: false }).then(
      (verdict: VerdictRecord) => set({ verdict }),
      (error: Error & { status?: number }) => set({ refused: refusal(error.status, error.message) })
    );
    return () => {
      shown = false;
    };
  }, [namespace, name, cluster]);
  return (
    <SectionBox title="Scheduling (Stowplan)">
      {state === undefined && <Typography>Asking the scheduler …</Typography>}
      {state && 'refused' in state && <Typography role="alert">{state.refused}</Typography>}
      {state && 'verdict' in state && <Answer verdict={state.verdict} />}
    </SectionBox>
  );
}

export function Answer({ verdict }: { verdict: VerdictRecord }) {
  // Names have a narrow column, and reasons may be long.
  const refused = (verdict.refusals ?? []).map(one => ({
    name: `${one.nodes} ${one.nodes === 1 ? 'node' : 'nodes'}`,
    value: one.reasons.length ? `${one.reasons.join(', ')} (${one.plugin})` : one.plugin,
  }));
  const taken = [
    { name: 'Nodes that take it', value: verdict.feasibleNodes, hide: verdict.feasibleNodes === undefined },
    { name: 'Goes to', value: <NodeLink name={verdict.node} />, hide: !verdict.node },
  ];
  const helps = [...(verdict.suggestions ?? []), ...(verdict.relief ?? [])].map(one => one.text);
  return (
    <>
      <Typography fontWeight="bold" mb={1}>
        {headline(verdict)}
      </Typography>
      <NameValueTable rows={[...taken, ...refused]} />
      <Texts title="Would help" texts={helps} />
      <Texts title="Rules out every node" texts={verdict.obstacles ?? []} />
    </>
  );
}

function NodeLink({ name }: { name?: string }) {
  return name ? (
    <Link routeName="node" params={{ name }}>
      {name}
    </Link>
  ) : null;
}

function Texts({ title, texts }: { title: string; texts: string[] }) {
  if (texts.length === 0) return null;
  return (
    <>
      <Typography variant="h6" mt={1}>
        {title}
      </Typography>
      <ul>
        {texts.map(text => (
          <Typography component="li" key={text}>
            {text}
          </Typography>
        ))}
      </ul>
    </>
  );
}
