/** Time: the plan of a recording or a simulation at any of its moments; two of them side by side, in step. */
import { RequestResult, useRequest } from "../parts/request";
import { amend } from "../shell/address";
import type { ViewProps } from "../shell/views";
import { Player, type TimelineData } from "./player";

export function TimeView({ source, address }: ViewProps) {
  const timelines = source.about.timelines ?? ["recorded"];
  const only = address.query.get("timeline");
  const chosen = only && timelines.includes(only) ? [only] : timelines;
  const request = useRequest(
    () =>
      Promise.all(
        chosen.map(
          async (name): Promise<TimelineData> => ({
            name,
            time: await source.time(name),
            frames: await source.frames(name),
          }),
        ),
      ),
    [source, chosen.join("\n")],
  );
  return (
    <div class="time">
      <h1 class="visually-hidden">Time</h1>
      {timelines.length > 1 && (
        <div class="tools" role="group" aria-label="Timelines">
          <button
            type="button"
            aria-pressed={chosen.length > 1}
            onClick={() => amend(address, { timeline: undefined })}
          >
            Side by side
          </button>
          {timelines.map((name) => (
            <button
              key={name}
              type="button"
              aria-pressed={chosen.length === 1 && chosen[0] === name}
              onClick={() => amend(address, { timeline: name })}
            >
              {name}
            </button>
          ))}
        </div>
      )}
      <RequestResult request={request} what="the timeline by replaying it">
        {(data) =>
          data.every(({ time }) => time.series.time.length) ? (
            <Player
              key={data.map(({ name }) => name).join("\n")}
              data={data}
              address={address}
              asks={source.can("moments")}
            />
          ) : (
            <p class="empty">Nothing was recorded.</p>
          )
        }
      </RequestResult>
    </div>
  );
}
