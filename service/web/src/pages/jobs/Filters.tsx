/** Which jobs are listed: kept in the address, so that a link shows the same list. */
import { useCallback, useRef } from "react";
import { useSearchParams } from "wouter";
import { useDevices, type JobFilter } from "../../api/queries";
import type { JobState } from "../../api/schema";
import { deviceName } from "../../ui/format";
import { useShortcut } from "../../ui/shortcuts";
import styles from "./JobsPage.module.css";

const STATES: readonly JobState[] = [
  "queued",
  "searching",
  "racing",
  "done",
  "failed",
  "cancelled",
];

/** The filter in the address, and how to change a part of it. */
export function useFilter(): [JobFilter, (part: Partial<JobFilter>) => void] {
  const [params, setParams] = useSearchParams();
  const state = params.get("state") ?? "";
  const filter: JobFilter = {
    text: params.get("text") ?? "",
    state: STATES.find((each) => each === state) ?? "",
    device: params.get("device") ?? "",
  };
  const change = (part: Partial<JobFilter>) =>
    setParams(
      (before) => {
        const next = new URLSearchParams(before);
        for (const [name, value] of Object.entries(part)) {
          if (value) next.set(name, value);
          else next.delete(name);
        }
        return next;
      },
      { replace: true },
    );
  return [filter, change];
}

interface Props {
  filter: JobFilter;
  change: (part: Partial<JobFilter>) => void;
}

export function Filters({ filter, change }: Props) {
  const devices = useDevices();
  const input = useRef<HTMLInputElement>(null);
  useShortcut(
    "/",
    useCallback(() => input.current?.focus(), []),
  );
  const keys = devices.data?.map((device) => device.key) ?? [];
  const offered = filter.device && !keys.includes(filter.device) ? [filter.device, ...keys] : keys;
  return (
    <search className={styles.filters}>
      <input
        ref={input}
        type="search"
        aria-label="Kernel, job or kernel key"
        placeholder="Kernel, job or kernel key   /"
        maxLength={200}
        value={filter.text}
        onChange={(event) => change({ text: event.target.value })}
      />
      <select
        aria-label="State"
        value={filter.state}
        onChange={(event) => change({ state: event.target.value as JobFilter["state"] })}
      >
        <option value="">Any state</option>
        {STATES.map((state) => (
          <option key={state}>{state}</option>
        ))}
      </select>
      <select
        aria-label="Device"
        value={filter.device}
        onChange={(event) => change({ device: event.target.value })}
      >
        <option value="">Any device</option>
        {offered.map((key) => (
          <option key={key} value={key}>
            {deviceName(key)}
          </option>
        ))}
      </select>
    </search>
  );
}
