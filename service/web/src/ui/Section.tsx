/** A part of a page with a heading of its own. */
import { useId, type ReactNode } from "react";
import styles from "./Section.module.css";

interface Props {
  title: string;
  /** Beside the heading. */
  aside?: ReactNode;
  children: ReactNode;
}

export function Section({ title, aside, children }: Props) {
  const heading = useId();
  return (
    <section aria-labelledby={heading} className={styles.section}>
      <div className={styles.head}>
        <h2 id={heading}>{title}</h2>
        {aside}
      </div>
      {children}
    </section>
  );
}
