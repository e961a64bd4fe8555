import { render, screen } from '@testing-library/react';
import { describe, expect, it, vi } from 'vitest';

/** The calls, and what is answered. */
const proxy = vi.hoisted(() => ({ calls: [] as unknown[][], answer: async (): Promise<unknown> => ({}) }));
vi.mock('@kinvolk/headlamp-plugin/lib', () => ({
  ApiProxy: {
    clusterRequest: (...given: unknown[]) => {
      proxy.calls.push(given);
      return proxy.answer();
    },
  },
}));
vi.mock('@kinvolk/headlamp-plugin/lib/CommonComponents', () => ({
  SectionBox: ({ title, children }: any) => <section aria-label={title}>{children}</section>,
  Link: ({ params, children }: any) => <a href={`#${params.name}`}>{children}</a>,
  NameValueTable: ({ rows }: any) =>
    rows
      .filter((row: any) => !row.hide)
      .map((row: any) => (
        <p key={row.name}>
          {row.name}: {row.value}
        </p>
      )),
}));

import { headline, pathOf, Verdict } from './verdict';

const HOSTILE = '<img src=x onerror="document.title=1">';

async function shown() {
  const { container } = render(<Verdict namespace="shop" name="web-0" cluster="c" />);
  await vi.waitFor(() => expect(container.textContent).not.toContain('Asking'));
  return container;
}

describe('the panel', () => {
  it('shows reasons with their nodes, and what would help', async () => {
    proxy.answer = async () => ({
      message: '0/3 nodes are available: 2 Insufficient cpu.',
      feasibleNodes: 0,
      refusals: [
        { plugin: 'NodeResourcesFit', reasons: ['Insufficient cpu'], nodes: 2 },
        { plugin: 'TaintToleration', reasons: [HOSTILE], nodes: 1 },
      ],
      suggestions: [{ text: 'request 1 cpu instead of 2', gain: 2 }],
      obstacles: [HOSTILE],
    });
    const panel = await shown();
    expect(panel.textContent).toContain('0/3 nodes are available');
    expect(panel.textContent).toContain('2 nodes: Insufficient cpu (NodeResourcesFit)');
    expect(panel.textContent).toContain(`1 node: ${HOSTILE} (TaintToleration)`);
    expect(panel.textContent).toContain('request 1 cpu instead of 2');
    expect(panel.textContent).toContain(HOSTILE);
    expect(panel.querySelector('img, a')).toBeNull();
    expect(proxy.calls).toEqual([[pathOf('shop', 'web-0'), { cluster: 'c', autoLogoutOnAuthError: false }]]);
  });

  it('links to the node of a pod that has one', async () => {
    proxy.answer = async () => ({ node: 'n1', currentNode: 'n1', feasibleNodes: 2 });
    expect((await shown()).querySelector('a')?.textContent).toBe('n1');
  });

  it.each([
    [403, 'Forbidden', /Not allowed: Forbidden\. It takes the roles of headlamp\/rbac\.yaml/],
    [404, 'Not Found', /No such service or pod/],
    [503, 'no endpoints available', /The scheduler cannot be asked: no endpoints available/],
    [undefined, HOSTILE, /The scheduler cannot be asked: <img/],
  ])('says why there is no verdict: %s', async (status, message, said) => {
    proxy.answer = async () => {
      throw Object.assign(new Error(message), { status });
    };
    await shown();
    expect(screen.getByRole('alert').textContent).toMatch(said);
  });
});

it('asks with names that are data', () => {
  expect(pathOf('a/b', 'x?y#z')).toContain('/explain/a%2Fb/x%3Fy%23z?');
});

it.each([
  [{ node: 'n1' }, 'Would go to n1'],
  [{ node: 'n1', currentNode: 'n1' }, 'On n1; it would go there again'],
  [{ node: 'n2', currentNode: 'n1' }, 'On n1; now: it would go to n2'],
  [{ currentNode: 'n1' }, 'On n1; now: no node would take it'],
  [{ error: 'gated', absentNodesStatus: { plugin: 'SchedulingGates', reasons: ['waiting for gates'] } }, 'waiting for gates'],
  [{}, 'No node takes it'],
])('has a headline', (verdict, said) => {
  expect(headline(verdict)).toBe(said);
});
