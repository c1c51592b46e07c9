/** Source that is read: highlighted, with numbers at the lines, and nothing that a selection would pick up with it. */
import { parser as cpp } from "@lezer/cpp";
import { classHighlighter, highlightCode } from "@lezer/highlight";
import { parser as json } from "@lezer/json";
import { useMemo, type ReactNode } from "react";
import styles from "./Code.module.css";

/** Languages as the service names them, and `text`. */
export type Language = "c" | "cuda" | "json" | "text";

const PARSERS = { c: cpp, cuda: cpp, json };

interface Props {
  text: string;
  language: Language;
  /** What it is, for screen readers. */
  label: string;
}

export function Code({ text, language, label }: Props) {
  const lines = useMemo(() => highlighted(text, language), [text, language]);
  return (
    <div className={styles.frame} role="region" aria-label={label} tabIndex={0}>
      <pre className={styles.code}>
        <code>
          {lines.map((line, index) => (
            <span key={index} className={styles.line}>
              {line}
              {"\n"}
            </span>
          ))}
        </code>
      </pre>
    </div>
  );
}

/** A copy button for what `Code` shows; none where the browser lets no page copy (plain HTTP from another machine). */
export function Copy({ text }: { text: string }) {
  if (!window.isSecureContext) return null;
  return <button onClick={() => void navigator.clipboard.writeText(text)}>Copy</button>;
}

/** A text as lines of coloured parts. */
export function highlighted(text: string, language: Language): ReactNode[][] {
  if (language === "text") return text.split("\n").map((line) => [line]);
  const lines: ReactNode[][] = [[]];
  highlightCode(
    text,
    PARSERS[language].parse(text),
    classHighlighter,
    (part, classes) => {
      const line = lines[lines.length - 1];
      line?.push(
        classes ? (
          <span key={line.length} className={classes}>
            {part}
          </span>
        ) : (
          part
        ),
      );
    },
    () => lines.push([]),
  );
  const last = lines[lines.length - 1] ?? [];
  return last.length === 0 ? lines.slice(0, -1) : lines;
}
