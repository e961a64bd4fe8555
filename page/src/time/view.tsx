/** Time: the plan of a recording or a simulation at any of its moments; two of them side by side, in step. */
import { Answer, useAsked } from "../parts/asked";
import { amend } from "../shell/address";
import type { ViewProps } from "../shell/views";
import { Player, type Told } from "./player";

export function TimeView({ source, address }: ViewProps) {
  const tracks = source.about.tracks ?? ["recorded"];
  const only = address.query.get("track");
  const chosen = only && tracks.includes(only) ? [only] : tracks;
  const asked = useAsked(
    () => Promise.all(chosen.map(async (name): Promise<Told> => ({ name, time: await source.time(name), frames: await source.frames(name) }))),
    [source, chosen.join("\n")],
  );
  return (
    <div class="time">
      <h1 class="visually-hidden">Time</h1>
      {tracks.length > 1 && (
        <div class="tools" role="group" aria-label="Timelines">
          <button type="button" aria-pressed={chosen.length > 1} onClick={() => amend(address, { track: undefined })}>
            Side by side
          </button>
          {tracks.map((name) => (
            <button key={name} type="button" aria-pressed={chosen.length === 1 && chosen[0] === name} onClick={() => amend(address, { track: name })}>
              {name}
            </button>
          ))}
        </div>
      )}
      <Answer asked={asked} what="the timeline by replaying it">
        {(told) => (told.every(({ time }) => time.series.time.length) ? <Player key={told.map(({ name }) => name).join("\n")} told={told} address={address} asks={source.can("moments")} /> : <p class="empty">Nothing was recorded.</p>)}
      </Answer>
    </div>
  );
}
