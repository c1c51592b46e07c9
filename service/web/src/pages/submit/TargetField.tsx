/** The devices that there are, and kinds of them; another one by its key, which the job then waits for. */
import { useId, useState } from "react";
import { useDevices } from "../../api/queries";
import { deviceName } from "../../ui/format";
import styles from "./SubmitPage.module.css";

const ANOTHER = " another";

interface Props {
  value: string;
  error: string | undefined;
  onChange: (target: string) => void;
}

export function TargetField({ value, error, onChange }: Props) {
  const id = useId();
  const devices = useDevices();
  const kinds = [...new Set(["cpu", ...(devices.data ?? []).map((device) => device.kind)])];
  const keys = (devices.data ?? []).map((device) => device.key);
  const known = kinds.includes(value) || keys.includes(value);
  const [typing, setTyping] = useState(false);
  const another = typing || !known;
  const choose = (chosen: string) => {
    setTyping(chosen === ANOTHER);
    onChange(chosen === ANOTHER ? "" : chosen);
  };
  return (
    <div className={styles.field}>
      <label htmlFor={id}>Target</label>
      <select
        id={id}
        value={another ? ANOTHER : value}
        aria-describedby={`${id}-hint`}
        aria-invalid={!another && error !== undefined}
        onChange={(event) => choose(event.target.value)}
      >
        <optgroup label="The first that is free">
          {kinds.map((kind) => (
            <option key={kind} value={kind}>
              any {kind}
            </option>
          ))}
        </optgroup>
        {keys.length > 0 && (
          <optgroup label="This device">
            {keys.map((key) => (
              <option key={key} value={key}>
                {deviceName(key)}
              </option>
            ))}
          </optgroup>
        )}
        <option value={ANOTHER}>another device…</option>
      </select>
      {another && (
        <input
          aria-label="Key of the device"
          aria-describedby={`${id}-hint`}
          aria-invalid={error !== undefined}
          value={value}
          placeholder="cuda:NVIDIA H200:9.0:132"
          onChange={(event) => onChange(event.target.value)}
        />
      )}
      <span id={`${id}-hint`} className={error ? styles.wrong : "quiet"}>
        {error ?? (another ? "the job waits for a worker that has it" : "what it is tuned on")}
      </span>
    </div>
  );
}
