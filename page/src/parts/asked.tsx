/** What a view asks the source for: the answer, or why there is none. */
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";

export interface Asked<T> {
  answer?: T;
  error?: string;
  /** Whether the next answer is waited for. */
  busy: boolean;
  /** Asks again. */
  again: () => void;
}

/** Asks when something it depends on has changed; the last answer stays until the next one is there, and is wanted. */
export function useAsked<T>(ask: (unwanted: AbortSignal) => Promise<T>, depends: unknown[]): Asked<T> {
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

export function Answer<T>({
  asked,
  children,
  what,
}: {
  asked: Asked<T>;
  what: string;
  children: (answer: T) => ComponentChildren;
}) {
  const { answer, error, again } = asked;
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
