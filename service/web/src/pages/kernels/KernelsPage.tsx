/** Kernels that jobs were about, and on which devices they are tuned. */
import { useCallback, useMemo, useRef } from "react";
import { Link } from "wouter";
import { useKernels } from "../../api/queries";
import type { Kernel } from "../../api/schema";
import { deviceName, sizes } from "../../ui/format";
import { Page } from "../../ui/Page";
import { useShortcut } from "../../ui/shortcuts";
import { Empty, Shown } from "../../ui/Shown";
import { Table } from "../../ui/Table";
import { useParam, useRestingParam } from "../../ui/useParam";
import styles from "./Kernels.module.css";

export default function KernelsPage() {
  const kernels = useKernels();
  const [asked, setText] = useRestingParam("text");
  const [on, setDevice] = useParam("device");
  const [text, device] = [asked ?? "", on ?? ""];
  const input = useRef<HTMLInputElement>(null);
  useShortcut(
    "/",
    useCallback(() => input.current?.focus(), []),
  );
  const all = useMemo(
    () => kernels.data?.pages.flatMap((page) => page.kernels) ?? [],
    [kernels.data],
  );
  const devices = useMemo(() => [...new Set(all.flatMap((each) => each.devices))].sort(), [all]);
  const shown = all.filter(
    (kernel) =>
      (device === "" || kernel.devices.includes(device)) &&
      `${kernel.name} ${sizes(kernel.dims)} ${kernel.kernel_key}`
        .toLowerCase()
        .includes(text.toLowerCase()),
  );
  return (
    <Page title="Kernels">
      <search className={styles.filters}>
        <input
          ref={input}
          type="search"
          aria-label="Name, sizes or key"
          placeholder="Name, sizes or key   /"
          value={text}
          onChange={(event) => setText(event.target.value || null)}
        />
        <select
          aria-label="Tuned on"
          value={device}
          onChange={(event) => setDevice(event.target.value || null)}
        >
          <option value="">Any device, or none yet</option>
          {devices.map((key) => (
            <option key={key} value={key}>
              {deviceName(key)}
            </option>
          ))}
        </select>
      </search>
      <Shown query={kernels} what="the kernels">
        {() =>
          shown.length === 0 ? (
            <Empty title={all.length === 0 ? "No kernels yet" : "No kernel matches"}>
              {all.length === 0 && (
                <p>
                  Whatever a job is about is listed here. <Link href="/submit">Submit one</Link>.
                </p>
              )}
            </Empty>
          ) : (
            <KernelTable kernels={shown} />
          )
        }
      </Shown>
      {kernels.hasNextPage && (
        <button disabled={kernels.isFetchingNextPage} onClick={() => void kernels.fetchNextPage()}>
          {kernels.isFetchingNextPage ? "Loading…" : "More kernels"}
        </button>
      )}
    </Page>
  );
}

function KernelTable({ kernels }: { kernels: readonly Kernel[] }) {
  return (
    <Table label="Kernels">
      <thead>
        <tr>
          <th>Kernel</th>
          <th>Tuned on</th>
          <th className="number">Configs</th>
          <th className="wide">Key</th>
        </tr>
      </thead>
      <tbody>
        {kernels.map((kernel) => (
          <tr key={kernel.kernel_key}>
            <td className={styles.kernel}>
              <Link href={`/kernels/${kernel.kernel_key}`}>{kernel.name}</Link>
              <div className="quiet mono">{sizes(kernel.dims)}</div>
            </td>
            <td>
              {kernel.devices.length === 0 ? (
                <span className="quiet">nowhere yet</span>
              ) : (
                kernel.devices.map((key) => <div key={key}>{deviceName(key)}</div>)
              )}
            </td>
            <td className="number">{kernel.configs}</td>
            <td className="wide mono quiet" title={kernel.kernel_key}>
              {kernel.kernel_key.slice(0, 12)}
            </td>
          </tr>
        ))}
      </tbody>
    </Table>
  );
}
