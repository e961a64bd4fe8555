/** Requests of a view to its source: the answer, or why there is none. */
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";

export interface RequestState<T> {
  answer?: T;
  error?: string;
  /** Whether a request is in progress. */
  busy: boolean;
  /** Repeats the request. */
  again: () => void;
}

/** Requests anew when a dependency has changed; the last answer stays until the next one arrives. */
export function useRequest<T>(ask: (unwanted: AbortSignal) => Promise<T>, depends: unknown[]): RequestState<T> {
  const [found, setFound] = useState<{ answer?: T; error?: string; busy: boolean }>({ busy: true });
  const [round, setRound] = useState(0);
  useEffect(() => {
    const stop = new AbortController();
    const update = (more: (before: { answer?: T }) => { answer?: T; error?: string }) =>
      stop.signal.aborted || setFound((before) => ({ ...more(before), busy: false }));
    setFound((before) => (before.busy ? before : { ...before, busy: true }));
    ask(stop.signal).then(
      (answer) => update(() => ({ answer })),
      (error: unknown) =>
        update((before) => ({ ...before, error: error instanceof Error ? error.message : String(error) })),
    );
    return () => stop.abort();
  }, [...depends, round]);
  return { ...found, again: () => setRound(round + 1) };
}

export function RequestResult<T>({
  request,
  children,
  what,
}: {
  request: RequestState<T>;
  what: string;
  children: (answer: T) => ComponentChildren;
}) {
  const { answer, error, again } = request;
  return (
    <>
      {error && (
        <p class="note" role="alert">
          {error}{" "}
          <button type="button" onClick={again}>
            Retry
          </button>
        </p>
      )}
      {answer !== undefined
        ? children(answer)
        : !error && (
            <p class="empty" role="status">
              Loading {what} …
            </p>
          )}
    </>
  );
}
