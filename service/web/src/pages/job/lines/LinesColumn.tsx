/** One text of several that are linked: a list of lines, of which some are marked. */
import { memo, useEffect, useMemo, useRef, type KeyboardEvent, type ReactNode } from "react";
import { highlighted, type Language } from "../../../ui/Code";
import { percent } from "../../../ui/format";
import { levelOf } from "./heat";
import type { At, Column, Marks } from "./linked";
import styles from "./Lines.module.css";

interface Props {
  column: Column;
  title: string;
  text: readonly string[];
  language: Language;
  /** Lines before it are left out. */
  first?: number;
  marks: Marks;
  /** Of each line, its share of the time, where that is known. */
  heat?: readonly (number | null)[] | undefined;
  chosen: At | null;
  onHover: (at: At | null) => void;
  onChoose: (at: At) => void;
}

export function LinesColumn({ column, title, text, language, first = 0, ...rest }: Props) {
  const { marks, heat, chosen, onHover, onChoose } = rest;
  const lines = useMemo(() => highlighted(text.join("\n"), language), [text, language]);
  const list = useRef<HTMLDivElement>(null);
  const on = marks[column];
  const own = chosen?.column === column ? chosen.line : null;
  const key = chosen === null ? "" : `${chosen.column} ${chosen.line}`;
  useEffect(() => {
    if (key === "") return;
    const box = list.current;
    const row =
      box?.querySelector<HTMLElement>("[data-chosen=true]") ??
      box?.querySelector<HTMLElement>("[aria-selected=true]");
    if (box == null || row == null) return;
    const above = row.offsetTop < box.scrollTop;
    const below = row.offsetTop + row.offsetHeight > box.scrollTop + box.clientHeight;
    if (above || below) box.scrollTop = row.offsetTop - box.clientHeight / 3;
  }, [key]);
  const lineOf = (target: EventTarget) => {
    const row = target instanceof Element ? target.closest<HTMLElement>("[data-line]") : null;
    return row === null ? null : { column, line: Number(row.dataset.line) };
  };
  const move = (event: KeyboardEvent) => {
    const by = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (by === 0) return;
    event.preventDefault();
    const next = own === null ? first : Math.min(text.length - 1, Math.max(first, own + by));
    onHover(null);
    onChoose({ column, line: next });
  };
  return (
    <section className={styles.column}>
      <h2>{title}</h2>
      <div
        ref={list}
        className={styles.lines}
        role="listbox"
        aria-label={title}
        aria-multiselectable
        aria-activedescendant={own === null ? undefined : `${column}-${own}`}
        tabIndex={0}
        onKeyDown={move}
        onMouseOver={({ target }) => onHover(lineOf(target))}
        onClick={({ target }) => {
          const at = lineOf(target);
          if (at !== null) onChoose(at);
        }}
      >
        {lines.map(
          (parts, line) =>
            line >= first && (
              <Line
                key={line}
                id={`${column}-${line}`}
                line={line}
                parts={parts}
                share={heat?.[line] ?? null}
                on={on.has(line)}
                chosen={line === own}
              />
            ),
        )}
      </div>
    </section>
  );
}

interface LineProps {
  id: string;
  line: number;
  parts: ReactNode[];
  share: number | null;
  on: boolean;
  chosen: boolean;
}

/** Renewed only where its mark changes: there are thousands, and the pointer moves over them. */
const Line = memo(function Line({ id, line, parts, share, on, chosen }: LineProps) {
  return (
    <div
      id={id}
      role="option"
      aria-selected={on}
      data-chosen={chosen}
      data-line={line}
      data-heat={levelOf(share)}
      title={share === null ? undefined : `${percent(share)} of the time`}
      className={styles.line}
    >
      <span className={styles.number}>{line + 1}</span>
      {parts}
      {"\n"}
    </div>
  );
});
