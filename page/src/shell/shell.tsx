/** The frame of every view: header, navigation, connection state and search. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { PlanModel } from "../plan/model";
import { PlanView } from "../plan/view";
import type { SourceRecord } from "../protocol";
import type { Connection, Source } from "../source/source";
import { type Address, homeHref, href, useAddress } from "./address";
import { stamp, useClock } from "./clock";
import { Help } from "./help";
import { Search } from "./search";
import { useTheme } from "./theme";
import { VIEWS } from "./views";

const KINDS: Record<SourceRecord["mode"], string> = {
  live: "live cluster",
  files: "from files",
  recording: "recording",
  simulation: "simulation",
  static: "saved copy",
};
const STATES: Record<Connection, string> = {
  connecting: "connecting",
  live: "live",
  lost: "connection lost",
  static: "saved copy",
};

export function Shell({ source }: { source: Source }) {
  const address = useAddress();
  const plan = useMemo(() => new PlanModel(), []);
  const [connection, setConnection] = useState<[Connection, string]>(["connecting", ""]);
  // The plan's view only needs the first part of a snapshot.
  const [arrived, setArrived] = useState<"nothing" | "a part" | "all">("nothing");
  const main = useRef<HTMLElement>(null);
  const [clock] = useClock();
  const lostAt = useMemo(() => (connection[0] === "lost" ? Date.now() : 0), [connection[0] === "lost"]);

  useEffect(
    () =>
      follow(
        source,
        plan,
        (state, why) => setConnection([state, why]),
        () => setArrived((before) => (before === "all" || !plan.loading ? "all" : "a part")),
      ),
    [source],
  );
  const view = VIEWS[address.view];
  useEffect(() => {
    document.title = [...address.parts.slice(-1), view?.title ?? "Nothing here", source.about.title, "Stowplan"].join(
      " · ",
    );
  }, [address, source]);

  return (
    <>
      <a
        class="skip"
        href="#main"
        onClick={(event) => {
          event.preventDefault();
          main.current?.focus();
        }}
      >
        Skip to the view
      </a>
      <Header source={source} plan={plan} address={address} connection={connection} />
      {lostAt > 0 && arrived !== "nothing" && (
        <p class="note lost" role="alert">
          The server has not answered since {stamp(lostAt)}: what is shown is from then. Trying again.
        </p>
      )}
      <main
        id="main"
        key={String(clock)}
        ref={main}
        tabIndex={-1}
        class={`view view-${address.view}`}
        data-stale={lostAt > 0 || undefined}
      >
        {!view ? (
          <p class="empty">
            There is no view of this name. <a href={homeHref()}>Back to the start</a>
          </p>
        ) : !source.can(view.needs) ? (
          <p class="empty">
            {view.title}: not to be had from {source.about.title} ({KINDS[source.about.mode]}).{" "}
            {source.about.whyNot?.[view.needs] ?? WHY_NOT[view.needs] ?? ""}
          </p>
        ) : arrived === "all" || (arrived === "a part" && view.component === PlanView) ? (
          <view.component source={source} plan={plan} address={address} />
        ) : (
          <p class="empty" role="status">
            {connection[0] === "lost" ? `No plan yet: ${connection[1]} Trying again.` : "Loading the plan …"}
          </p>
        )}
      </main>
    </>
  );
}

const WHY_NOT: Record<string, string> = {
  time: "A timeline requires a recording: stowplan ui --recording FILE, without --at.",
  whatIf: "The workbench requires a scheduler in this process: run stowplan ui with files, a dump or a cluster.",
  podgroups: "This scheduler provides no pod groups.",
};

/** Updates the plan; reconnects after a missed message. */
function follow(source: Source, plan: PlanModel, state: (state: Connection, why: string) => void, arrived: () => void) {
  let stop: () => void = () => {};
  let last: Connection | undefined;
  const start = () => {
    stop = source.follow({
      message(message) {
        if (!plan.apply(message)) {
          stop();
          start();
          return;
        }
        arrived();
      },
      connection(next, why = "") {
        if (next !== last || why) state(next, why);
        last = next;
      },
    });
  };
  start();
  return () => stop();
}

interface HeaderProps {
  source: Source;
  plan: PlanModel;
  address: Address;
  connection: [Connection, string];
}

function Header({ source, plan, address, connection: [state, why] }: HeaderProps) {
  const [theme, nextTheme] = useTheme();
  const about = source.about;
  return (
    <header class="top">
      <a class="brand" href={homeHref()} aria-label="Stowplan: the start">
        <Plimsoll /> <span>Stowplan</span>
      </a>
      <nav aria-label="Views">
        {Object.entries(VIEWS)
          .filter(([, view]) => view.listed && source.can(view.needs))
          .map(([name, view]) => (
            <a key={name} href={href(name)} aria-current={name === address.view ? "page" : undefined}>
              {view.title}
            </a>
          ))}
      </nav>
      {source.can("plan") ? <Search plan={plan} /> : <span class="grow" />}
      <span class={`state state-${state}`} role="status" title={why || `${about.title}: ${STATES[state]}`}>
        <span class="source">{about.title}</span> <span class="dot" aria-hidden="true" />
        <span class="state-text">{state === "live" && about.mode !== "live" ? KINDS[about.mode] : STATES[state]}</span>
      </span>
      <Help />
      <button
        type="button"
        class="quiet theme"
        onClick={nextTheme}
        aria-label={`Colours: ${theme}. Change`}
        title={`Colours: ${theme}`}
      >
        <ThemeSign theme={theme} />
      </button>
    </header>
  );
}

/** The logo: a ship's load line. */
function Plimsoll() {
  return (
    <svg viewBox="0 0 32 32" width="26" height="26" aria-hidden="true">
      <circle cx="16" cy="16" r="9.5" fill="none" stroke="currentColor" stroke-width="3" />
      <path d="M1 16h30" stroke="var(--signal)" stroke-width="3.4" />
    </svg>
  );
}

function ThemeSign({ theme }: { theme: string }) {
  return (
    <svg
      viewBox="0 0 20 20"
      width="18"
      height="18"
      aria-hidden="true"
      fill="none"
      stroke="currentColor"
      stroke-width="1.6"
    >
      <circle cx="10" cy="10" r="6.5" />
      {theme === "dark" && <path d="M10 3.5a6.5 6.5 0 0 1 0 13 9 9 0 0 0 0-13z" fill="currentColor" />}
      {theme === "system" && <path d="M10 3.5a6.5 6.5 0 0 1 0 13z" fill="currentColor" stroke="none" />}
    </svg>
  );
}
