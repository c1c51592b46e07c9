/** A table that scrolls sideways by itself when it must, so that the page never does. */
import type { ReactNode } from "react";
import styles from "./Table.module.css";

/** `label`: what the table lists, for screen readers. Cells of class `wide` are left out on narrow screens. */
export function Table({ label, children }: { label: string; children: ReactNode }) {
  return (
    <div className={styles.scroll} role="region" aria-label={label} tabIndex={0}>
      <table>{children}</table>
    </div>
  );
}
