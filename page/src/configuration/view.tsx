/** The active configuration: plugins in call order by extension point, their weights, and where each comes from. */
import { RequestResult, useRequest } from "../parts/request";
import { saveText } from "../parts/save";
import { CsvButton } from "../parts/table";
import type { ConfigurationRecord, ProfileRecord } from "../protocol";
import type { ViewProps } from "../shell/views";

const ORIGINS: Record<string, string> = {
  explicit: "named at this point",
  multiPoint: "named at multiPoint",
  default: "by default",
};

export function ConfigurationView({ source }: ViewProps) {
  const request = useRequest(() => source.configuration(), [source]);
  return (
    <div class="page">
      <h1>Configuration</h1>
      <RequestResult request={request} what="the configuration">
        {(record) => <Configuration record={record} />}
      </RequestResult>
    </div>
  );
}

function Configuration({ record }: { record: ConfigurationRecord }) {
  return (
    <>
      <p class="muted">
        <span class="origin origin-explicit">named at a point</span>{" "}
        <span class="origin origin-multiPoint">named at multiPoint</span>{" "}
        <span class="origin origin-default">by default</span>
      </p>
      {record.profiles.map((profile) => (
        <Profile key={profile.schedulerName} profile={profile} />
      ))}
      {record.extenders.length > 0 && (
        <section class="card">
          <h2>Extenders</h2>
          {record.extenders.map((extender, i) => (
            <pre key={i}>{JSON.stringify(extender, null, 2)}</pre>
          ))}
        </section>
      )}
      {record.yaml && (
        <details>
          <summary>As a file</summary>
          <p>
            <button type="button" onClick={() => saveText("scheduler.yaml", record.yaml, "application/yaml")}>
              Save
            </button>
          </p>
          <pre class="file" tabIndex={0} aria-label="The configuration as YAML">
            {record.yaml}
          </pre>
        </details>
      )}
    </>
  );
}

function rowsOf(profile: ProfileRecord): (string | number)[][] {
  const rows = profile.points.flatMap(({ point, plugins }) =>
    plugins.map((plugin, i) => [point, i + 1, plugin.name, plugin.weight, ORIGINS[plugin.from] ?? plugin.from]),
  );
  return [["Extension point", "Order", "Plugin", "Weight", "From"], ...rows];
}

function Profile({ profile }: { profile: ProfileRecord }) {
  return (
    <section class="card">
      <h2>
        Profile {profile.schedulerName}
        {profile.percentageOfNodesToScore > 0 && (
          <span class="muted"> · looks at {profile.percentageOfNodesToScore} % of the nodes</span>
        )}
        <CsvButton
          file={`plugins-${profile.schedulerName}`}
          of={`Plugins of ${profile.schedulerName}`}
          rows={() => rowsOf(profile)}
        />
      </h2>
      <table class="points">
        <caption class="visually-hidden">Plugins of profile {profile.schedulerName}</caption>
        <thead>
          <tr>
            <th scope="col">Extension point</th>
            <th scope="col">Plugins in their order</th>
          </tr>
        </thead>
        <tbody>
          {profile.points.map(({ point, plugins }) => (
            <tr key={point}>
              <th scope="row">{point}</th>
              <td>
                <ol class="chips">
                  {plugins.map((plugin) => (
                    <li key={plugin.name} class={`origin origin-${plugin.from}`} title={ORIGINS[plugin.from]}>
                      {plugin.name}
                      {plugin.weight > 0 && <b> × {plugin.weight}</b>}
                      <span class="visually-hidden"> {ORIGINS[plugin.from]}</span>
                    </li>
                  ))}
                </ol>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {profile.leftOut.length > 0 && (
        <>
          <h3>Default plugins that do not run</h3>
          <ul>
            {profile.leftOut.map(({ name, why }) => (
              <li key={name}>
                {name} <span class="muted">{why}</span>
              </li>
            ))}
          </ul>
        </>
      )}
      {profile.args.length > 0 && (
        <details>
          <summary>Arguments of plugins</summary>
          <dl class="args">
            {profile.args.map(({ name, value }) => (
              <div key={name}>
                <dt>{name}</dt>
                <dd>
                  <pre>{JSON.stringify(value, null, 2)}</pre>
                </dd>
              </div>
            ))}
          </dl>
        </details>
      )}
    </section>
  );
}
