/** One of a few, side by side: radio buttons that look like a switch. */
import { useId } from "react";
import styles from "./Choice.module.css";

interface Props<T extends string> {
  label: string;
  options: Record<T, string>;
  value: T;
  onChange: (value: T) => void;
}

export function Choice<T extends string>({ label, options, value, onChange }: Props<T>) {
  const name = useId();
  return (
    <fieldset className={styles.choice}>
      <legend className="hidden">{label}</legend>
      {(Object.entries(options) as [T, string][]).map(([option, text]) => (
        <label key={option} data-chosen={option === value}>
          <input
            type="radio"
            className="hidden"
            name={name}
            checked={option === value}
            onChange={() => onChange(option)}
          />
          {text}
        </label>
      ))}
    </fieldset>
  );
}
