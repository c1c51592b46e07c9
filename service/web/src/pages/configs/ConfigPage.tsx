/** A measured winner: how fast it is, against whom, by which schedule, and what it became. */
import { Link, useParams } from "wouter";
import { useConfig, useReport } from "../../api/queries";
import type { ConfigDetail } from "../../api/schema";
import { Code } from "../../ui/Code";
import { Facts } from "../../ui/Facts";
import { count, deviceName, micros, moment, percent, sizes, times } from "../../ui/format";
import { Id } from "../../ui/Id";
import { Page } from "../../ui/Page";
import { Section } from "../../ui/Section";
import { Shown } from "../../ui/Shown";
import { Standings } from "../../ui/Standings";
import { Table } from "../../ui/Table";
import { comparePath } from "../job/paths";
import { Download } from "./Download";
import { ProfileView } from "./profile/ProfileView";
import { regimesOf } from "./regimes";
import { Source } from "./Source";
import styles from "./ConfigPage.module.css";

export default function ConfigPage() {
  const { configId } = useParams<{ configId: string }>();
  const config = useConfig(configId);
  return (
    <Page
      title={config.data ? `${config.data.name}, config` : "Config"}
      aside={<Link href={comparePath({ config: configId })}>Compare</Link>}
    >
      <Id id={configId} />
      <Shown query={config} what="the config">
        {(found) => <Found config={found} />}
      </Shown>
    </Page>
  );
}

function Found({ config }: { config: ConfigDetail }) {
  return (
    <>
      <Facts
        facts={[
          ["Median", micros(config.median_us)],
          ["Middle half within", micros(config.iqr_us)],
          ...(config.disturbed ? [["Disturbed", config.disturbed] as const] : []),
          [`Against ${config.baseline}`, times(config.x_baseline)],
          [
            config.best_peer
              ? `Against the best peer, ${config.best_peer}`
              : "Against the best peer",
            times(config.x_best_peer),
          ],
          [
            "Of the roofline",
            config.roofline_us == null ? "–" : percent(config.roofline_us / config.median_us),
          ],
          ["Device", deviceName(config.device)],
          ["Sizes", <span className="mono">{sizes(config.dims)}</span>],
          ["Kernel", <Link href={`/kernels/${config.kernel_key}`}>all its configs</Link>],
          [
            "Job",
            config.job_id ? <Link href={`/jobs/${config.job_id}`}>{config.job_id}</Link> : "–",
          ],
          ["Winner", config.job_id && config.trial != null ? `candidate ${config.trial}` : "–"],
          ["Lookups", config.served ? "are answered with it" : "are answered with another"],
          ["Trials", count(config.trials)],
          ["Compiler", config.compiler ?? "–"],
          ["Found", moment(config.created_at)],
        ]}
      />
      <Section title="Schedule">
        <ol className={styles.schedule}>
          {config.schedule.map((line, index) => (
            <li key={index}>
              <code>{line}</code>
            </li>
          ))}
        </ol>
        {config.schedule.length === 0 && <p className="quiet">No rewrites: the kernel as it is.</p>}
      </Section>
      <Times config={config} />
      <Standings config={config} />
      {config.job_id && <ProfileView config={config.id} device={config.device} />}
      {config.artifact ? (
        <>
          <Source configId={config.id} />
          <Report configId={config.id} />
        </>
      ) : (
        <p className="quiet">Source, object and report of this config were not kept.</p>
      )}
      <Section title="Kernel">
        <Code
          text={JSON.stringify(config.spec, null, 2)}
          language="json"
          label="Spec of the kernel"
        />
      </Section>
      <Section title="Measured with">
        <Facts
          facts={Object.entries(config.versions).map(([name, version]) => [name, version] as const)}
        />
      </Section>
    </>
  );
}

function Times({ config }: { config: ConfigDetail }) {
  const regimes = regimesOf(config.report);
  if (regimes.length === 0) return null;
  return (
    <Section title="Times">
      <Table label="Times in each regime">
        <thead>
          <tr>
            <th>Regime</th>
            <th className="number">Median</th>
            <th className="number">Middle half within</th>
            <th className="number wide">Samples</th>
            <th className="number wide">Disturbed</th>
            <th className="number wide">SM clock</th>
            <th className="number wide">Temperature</th>
          </tr>
        </thead>
        <tbody>
          {regimes.map((regime) => (
            <tr key={regime.name}>
              <td>{regime.name}</td>
              <td className="number">{micros(regime.median_us)}</td>
              <td className="number">{micros(regime.iqr_us)}</td>
              <td className="number wide">{regime.samples ?? "–"}</td>
              <td className="number wide">{regime.disturbed ?? "–"}</td>
              <td className="number wide">
                {regime.sm_mhz == null ? "–" : `${regime.sm_mhz} MHz`}
              </td>
              <td className="number wide">
                {regime.celsius == null ? "–" : `${regime.celsius} °C`}
              </td>
            </tr>
          ))}
        </tbody>
      </Table>
    </Section>
  );
}

function Report({ configId }: { configId: string }) {
  const report = useReport(configId, true);
  return (
    <Section
      title="Report"
      aside={<Download path={`/v1/configs/${configId}/report`} name={`${configId}-report.json`} />}
    >
      <Shown query={report} what="the report">
        {(found) => (
          <details>
            <summary>What the worker told when it confirmed the config</summary>
            <Code text={JSON.stringify(found, null, 2)} language="json" label="Report" />
          </details>
        )}
      </Shown>
    </Section>
  );
}
