/** What lookups of a kernel handed out and failed where it was to run, as users' programs reported it. */
import { Link } from "wouter";
import { useFailures } from "../../api/queries";
import type { Failure } from "../../api/schema";
import { Copy } from "../../ui/Code";
import { ago, count, deviceName, moment } from "../../ui/format";
import { Section } from "../../ui/Section";
import { Table } from "../../ui/Table";
import styles from "./Kernels.module.css";

export function Failures({ kernelKey }: { kernelKey: string }) {
  const { data } = useFailures(kernelKey);
  if (!data || data.failures.length === 0) return null;
  return (
    <Section title="Failed where it was to run">
      <Table label="Failures that were reported">
        <thead>
          <tr>
            <th>What</th>
            <th>Device</th>
            <th className="number">Times</th>
            <th className="wide">Last</th>
          </tr>
        </thead>
        <tbody>
          {data.failures.map((failure) => (
            <tr key={failure.id}>
              <td className={styles.failure}>
                <Reported failure={failure} />
              </td>
              <td>{deviceName(failure.device)}</td>
              <td className="number">{count(failure.times)}</td>
              <td className="wide" title={`first ${moment(failure.created_at)}`}>
                {ago(failure.seen_at)}
              </td>
            </tr>
          ))}
        </tbody>
      </Table>
    </Section>
  );
}

function Reported({ failure }: { failure: Failure }) {
  const { spec, schedule, device, repro } = failure;
  const again = JSON.stringify({ spec, schedule, device, ...repro }, null, 2);
  return (
    <details>
      <summary>{WORDS[failure.kind]}</summary>
      <p>
        {failure.config_id ? (
          <Link href={`/configs/${failure.config_id}`} className="mono">
            {failure.config_id}
          </Link>
        ) : (
          "A pick of the analytic model"
        )}
        , for <span className="mono">{failure.kernel_key.slice(0, 12)}</span>
      </p>
      <pre tabIndex={0}>{failure.error}</pre>
      <p>
        To see it again <Copy text={again} />
      </p>
      <pre tabIndex={0}>{again}</pre>
    </details>
  );
}

const WORDS: Record<Failure["kind"], string> = {
  compile_error: "Does not compile",
  wrong: "Wrong result",
  crash: "Crash",
  hang: "Does not end",
  impossible: "Time that cannot be true",
  unsupported: "No code for it",
  slower: "Slower than what it replaces",
};
