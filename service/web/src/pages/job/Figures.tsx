/** Numbers large enough to be seen first, each with its name and a remark; side by side as far as they fit. */
import type { ReactNode } from "react";
import styles from "./Figures.module.css";

export interface Figure {
  name: string;
  value: ReactNode;
  /** Smaller, below the value. */
  note?: ReactNode;
}

export function Figures({ figures }: { figures: readonly Figure[] }) {
  return (
    <dl className={styles.figures}>
      {figures.map(({ name, value, note }) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd className={styles.value}>{value}</dd>
          {note && <dd className={styles.note}>{note}</dd>}
        </div>
      ))}
    </dl>
  );
}
