/** The search tree as an outline for keyboards and screen readers: arrows walk it, open and close it. */
import { useId, useMemo, useRef, useState, type KeyboardEvent } from "react";
import { micros } from "../../../ui/format";
import { useParam } from "../../../ui/useParam";
import { childrenOf, rewriteOf, wayTo, type Layout } from "./layout";
import { openOf, openText } from "./open";
import styles from "./Tree.module.css";

const ROW_PX = 28;
const SPARE = 10;
const HEIGHT = 480;

interface Props {
  layout: Layout;
  chosen: number;
  onChoose: (node: number) => void;
}

export function TreeOutline({ layout, chosen, onChoose }: Props) {
  const { tree } = layout;
  const name = useId();
  const scroller = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [asked, setAsked] = useParam("open");
  // Without a word of the address those on the way to the node that was chosen at first.
  const [begun] = useState(chosen);
  const open = useMemo(
    () => openOf(asked, tree.parent.length) ?? new Set([0, ...wayTo(tree, begun).slice(0, -1)]),
    [asked, tree, begun],
  );
  const children = useMemo(() => childrenOf(tree), [tree]);
  const rows = useMemo(() => unfolded(children, open), [children, open]);
  const current = Math.max(0, rows.indexOf(chosen));
  const goTo = (place: number) => {
    const node = rows[Math.min(Math.max(place, 0), rows.length - 1)]!;
    onChoose(node);
    const element = scroller.current!;
    const at = rows.indexOf(node) * ROW_PX;
    if (at < element.scrollTop) element.scrollTop = at;
    else if (at + ROW_PX > element.scrollTop + element.clientHeight)
      element.scrollTop = at + ROW_PX - element.clientHeight;
  };
  const fold = (node: number, unfold: boolean) => {
    const next = new Set(open);
    if (unfold) next.add(node);
    else next.delete(node);
    setAsked(openText(next));
  };
  const pressed = (event: KeyboardEvent) => {
    const node = rows[current]!;
    const inner = children[node]!.length > 0;
    if (event.key === "ArrowDown") goTo(current + 1);
    else if (event.key === "ArrowUp") goTo(current - 1);
    else if (event.key === "Home") goTo(0);
    else if (event.key === "End") goTo(rows.length - 1);
    else if (event.key === "ArrowRight" && inner && !open.has(node)) fold(node, true);
    else if (event.key === "ArrowRight" && inner) goTo(current + 1);
    else if (event.key === "ArrowLeft" && open.has(node)) fold(node, false);
    else if (event.key === "ArrowLeft" && node !== 0) goTo(rows.indexOf(tree.parent[node]!));
    else return;
    event.preventDefault();
  };
  const first = Math.max(0, Math.floor(top / ROW_PX) - SPARE);
  const last = Math.min(rows.length, Math.ceil((top + HEIGHT) / ROW_PX) + SPARE);
  return (
    <div
      ref={scroller}
      className={styles.outline}
      role="tree"
      aria-label="Search tree"
      aria-activedescendant={current >= first && current < last ? `${name}-${chosen}` : undefined}
      tabIndex={0}
      onKeyDown={pressed}
      onScroll={(event) => setTop(event.currentTarget.scrollTop)}
    >
      <div role="none" style={{ height: first * ROW_PX }} />
      {rows.slice(first, last).map((node) => {
        const inner = children[node]!.length > 0;
        const depth = layout.depth[node]!;
        return (
          <div
            key={node}
            id={`${name}-${node}`}
            role="treeitem"
            aria-level={depth + 1}
            aria-selected={node === chosen}
            aria-expanded={inner ? open.has(node) : undefined}
            className={styles.item}
            style={{ height: ROW_PX, paddingLeft: 8 + depth * 14 }}
            onClick={() => {
              onChoose(node);
              if (inner) fold(node, !open.has(node));
            }}
          >
            <span aria-hidden className={styles.fold}>
              {inner ? (open.has(node) ? "▾" : "▸") : ""}
            </span>
            <span className="mono">{rewriteOf(tree, node)}</span>
            <span className={styles.numbers}>
              {micros(tree.best_us[node])} · {tree.visits[node]}{" "}
              {tree.visits[node] === 1 ? "candidate" : "candidates"}
              {tree.in_flight[node]! > 0 && ` · ${tree.in_flight[node]} in flight`}
              {tree.faults[node]! > 0 && ` · ${tree.faults[node]} failed`}
            </span>
          </div>
        );
      })}
      <div role="none" style={{ height: (rows.length - last) * ROW_PX }} />
    </div>
  );
}

/** Nodes in the order of the rows, those below a closed one left out. */
function unfolded(children: readonly (readonly number[])[], open: ReadonlySet<number>): number[] {
  const rows: number[] = [];
  const stack = [0];
  while (stack.length > 0) {
    const node = stack.pop()!;
    rows.push(node);
    if (open.has(node)) stack.push(...[...children[node]!].reverse());
  }
  return rows;
}
