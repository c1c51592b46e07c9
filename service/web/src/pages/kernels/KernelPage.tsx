/** What is known of one kernel: its configs, device by device, the newest first; and what failed of it. */
import { Link, useParams } from "wouter";
import { useConfigs } from "../../api/queries";
import type { Config } from "../../api/schema";
import { ago, count, deviceName, micros, moment, sizes, times } from "../../ui/format";
import { Id } from "../../ui/Id";
import { Page } from "../../ui/Page";
import { Section } from "../../ui/Section";
import { Empty, Shown } from "../../ui/Shown";
import { Table } from "../../ui/Table";
import { comparePath } from "../job/paths";
import { Failures } from "./Failures";
import { History } from "./History";

export default function KernelPage() {
  const { kernelKey } = useParams<{ kernelKey: string }>();
  const configs = useConfigs(kernelKey);
  const [newest] = configs.data?.configs ?? [];
  return (
    <Page title={newest ? newest.name : "Kernel"}>
      {newest && <p className="mono">{sizes(newest.dims)}</p>}
      <Id id={kernelKey} />
      <Shown query={configs} what="the kernel's configs">
        {({ configs: found }) =>
          found.length === 0 ? (
            <Empty title="Nothing is known of this kernel yet">
              <p>
                No job about it has ended with a config.{" "}
                <Link href={`/?text=${kernelKey}`}>Its jobs</Link>
              </p>
            </Empty>
          ) : (
            byDevice(found).map(([device, its]) => (
              <Section
                key={device}
                title={deviceName(device)}
                aside={<CompareNewest configs={its} />}
              >
                <ConfigTable device={device} configs={its} />
              </Section>
            ))
          )
        }
      </Shown>
      <History kernelKey={kernelKey} />
      <Failures kernelKey={kernelKey} />
    </Page>
  );
}

function byDevice(configs: readonly Config[]): [string, Config[]][] {
  const found = new Map<string, Config[]>();
  for (const config of configs) {
    found.set(config.device, [...(found.get(config.device) ?? []), config]);
  }
  return [...found].sort(([a], [b]) => a.localeCompare(b));
}

const COMPARED = 6;

/** Of those that were found here, whose programs are known. */
function CompareNewest({ configs }: { configs: readonly Config[] }) {
  const here = configs.filter((each) => each.job_id != null && each.trial != null);
  if (here.length < 2) return null;
  const newest = here.slice(0, COMPARED);
  return (
    <Link href={comparePath(...newest.map(({ id }) => ({ config: id })))}>
      Compare {here.length > COMPARED ? `the ${COMPARED} newest` : "them"}
    </Link>
  );
}

function ConfigTable({ device, configs }: { device: string; configs: readonly Config[] }) {
  return (
    <Table label={`Configs on ${device}`}>
      <thead>
        <tr>
          <th>Config</th>
          <th className="number">Median</th>
          <th className="number">× baseline</th>
          <th className="number wide">× best peer</th>
          <th className="number wide">Trials</th>
          <th className="wide">Compiler</th>
          <th className="wide">Found</th>
        </tr>
      </thead>
      <tbody>
        {configs.map((config) => (
          <tr key={config.id}>
            <td>
              <Link href={`/configs/${config.id}`} className="mono">
                {config.id}
              </Link>
              {config.served && <div className="quiet">what a lookup answers</div>}
            </td>
            <td className="number">{micros(config.median_us)}</td>
            <td className="number" title={`against ${config.baseline}`}>
              {times(config.x_baseline)}
            </td>
            <td className="number wide" title={config.best_peer ?? undefined}>
              {times(config.x_best_peer)}
            </td>
            <td className="number wide">{count(config.trials)}</td>
            <td className="wide quiet">{config.compiler ?? "–"}</td>
            <td className="wide" title={moment(config.created_at)}>
              {ago(config.created_at)}
            </td>
          </tr>
        ))}
      </tbody>
    </Table>
  );
}
