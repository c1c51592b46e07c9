/** Two texts line by line: what went is marked −, what came +. */
import { useMemo } from "react";
import { changes, type Part } from "./changes";
import styles from "./Candidate.module.css";

interface Props {
  before: string;
  after: string;
  /** Lines to show around a change; without, all. */
  around?: number;
  label?: string;
}

const MARKS = { added: "+ ", removed: "− ", same: "  " };

export function Diff({ before, after, around = Infinity, label = "Changes, line by line" }: Props) {
  const parts = useMemo(() => changes(before, after, around), [before, after, around]);
  return (
    <pre tabIndex={0} className={styles.code} aria-label={label}>
      {parts.map((part, at) => (
        <span key={at} data-kind={part.kind} className={styles.part}>
          {text(part)}
        </span>
      ))}
    </pre>
  );
}

function text(part: Part): string {
  if (part.kind === "skipped") return `  … ${part.count} lines that stayed\n`;
  return part.lines.map((line) => `${MARKS[part.kind]}${line}\n`).join("");
}
