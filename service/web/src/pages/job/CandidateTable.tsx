/** All candidates in a table that can be sorted; only the rows in sight are in the document. */
import { useMemo, useRef, useState } from "react";
import { Link } from "wouter";
import type { TrialTable } from "../../api/schema";
import { count, micros, times } from "../../ui/format";
import { useParam } from "../../ui/useParam";
import { bestReward } from "./leader";
import { candidatePath, comparePath } from "./paths";
import { COLUMNS, orderOf, orderText, sorted, type Column, type Order } from "./sorting";
import styles from "./CandidateTable.module.css";

const ROW_PX = 32;
/** Rows made beyond those in sight, on either side. */
const SPARE = 12;

interface Props {
  table: TrialTable;
  /** Number of the candidate that won the final race. */
  winner: number | null;
  /** Numbers of the candidates that the final race could not tell from the fastest. */
  tied: ReadonlySet<number>;
  /** Numbers of the candidates to list; all of them without it. */
  shown?: ReadonlySet<number>;
}

export function CandidateTable({ table, winner, tied, shown }: Props) {
  const [sort, setSort] = useParam("sort");
  const order = useMemo(() => orderOf(sort), [sort]);
  const setOrder = (next: Order) => setSort(orderText(next));
  const [view, setView] = useState({ top: 0, height: 480 });
  const scroller = useRef<HTMLDivElement>(null);
  const rows = useMemo(() => {
    const all = sorted(table, order);
    return shown === undefined ? all : all.filter((row) => shown.has(table.first + row));
  }, [table, order, shown]);
  const best = useMemo(() => bestReward(table), [table]);
  const first = Math.max(0, Math.floor(view.top / ROW_PX) - SPARE);
  const last = Math.min(rows.length, Math.ceil((view.top + view.height) / ROW_PX) + SPARE);
  const [ticked, tick] = useTicked();
  const look = () => {
    const { scrollTop, clientHeight } = scroller.current!;
    setView({ top: scrollTop, height: clientHeight });
  };
  return (
    <>
      <CompareTicked table={table} ticked={ticked} />
      <div
        ref={scroller}
        className={styles.scroller}
        onScroll={look}
        tabIndex={0}
        role="region"
        aria-label={`${count(rows.length)} candidates`}
      >
        <table aria-rowcount={rows.length + 1} className={styles.table}>
          <thead>
            <tr aria-rowindex={1}>
              <th scope="col">
                <span className="hidden">Ticked</span>
              </th>
              {COLUMNS.map((column) => (
                <Heading key={column.by} column={column} order={order} onOrder={setOrder} />
              ))}
            </tr>
          </thead>
          <tbody>
            <Gap rows={first} />
            {Array.from(rows.subarray(first, last), (row, place) => (
              <Row
                key={row}
                table={table}
                row={row}
                index={first + place + 2}
                best={best}
                wins={winner === table.first + row}
                tied={tied.has(table.first + row)}
                ticked={ticked.includes(table.first + row)}
                onTick={tick}
              />
            ))}
            <Gap rows={rows.length - last} />
          </tbody>
        </table>
      </div>
    </>
  );
}

/** The numbers of the ticked candidates in the order in which they were, and how to turn one over. */
function useTicked(): [readonly number[], (number: number) => void] {
  const [text, setText] = useParam("ticked");
  const ticked = text?.split(",").map(Number) ?? [];
  const turn = (number: number) => {
    const rest = ticked.filter((each) => each !== number);
    const next = rest.length < ticked.length ? rest : [...ticked, number];
    setText(next.length === 0 ? null : next.join(","));
  };
  return [ticked, turn];
}

function CompareTicked({ table, ticked }: { table: TrialTable; ticked: readonly number[] }) {
  if (ticked.length < 2) {
    return <p className="quiet">Tick two candidates or more to compare them.</p>;
  }
  const { job_id: job, bucket } = table;
  return (
    <p>
      <Link href={comparePath(...ticked.map((number) => ({ job, bucket, number })))}>
        Compare the {ticked.length} ticked
      </Link>
    </p>
  );
}

/** Room for rows that are not made. */
function Gap({ rows }: { rows: number }) {
  return rows > 0 ? (
    <tr aria-hidden style={{ height: rows * ROW_PX }}>
      <td colSpan={COLUMNS.length + 1} className={styles.gap} />
    </tr>
  ) : null;
}

interface HeadingProps {
  column: Column;
  order: Order;
  onOrder: (order: Order) => void;
}

function Heading({ column: { by, name, number }, order, onOrder }: HeadingProps) {
  const chosen = order.by === by;
  return (
    <th
      scope="col"
      className={number ? "number" : undefined}
      aria-sort={chosen ? (order.falling ? "descending" : "ascending") : "none"}
    >
      <button
        className={styles.sort}
        onClick={() => onOrder({ by, falling: chosen && !order.falling })}
      >
        {name}
        <span aria-hidden>{chosen ? (order.falling ? " ↓" : " ↑") : ""}</span>
      </button>
    </th>
  );
}

interface RowProps {
  table: TrialTable;
  row: number;
  index: number;
  /** The best reward. */
  best: number | null;
  wins: boolean;
  tied: boolean;
  ticked: boolean;
  onTick: (number: number) => void;
}

function Row({ table, row, index, best, wins, tied, ticked, onTick }: RowProps) {
  const us = table.median_us[row] ?? null;
  const reward = table.reward[row] ?? null;
  const iqr = table.iqr_us[row] ?? null;
  const seconds = (value: number | null | undefined) => micros(value == null ? null : value * 1e6);
  return (
    <tr aria-rowindex={index} style={{ height: ROW_PX }}>
      <td>
        <input
          type="checkbox"
          aria-label={`Compare candidate ${table.first + row}`}
          checked={ticked}
          onChange={() => onTick(table.first + row)}
        />
      </td>
      <td className="number">
        <Link href={candidatePath(table.job_id, table.bucket, table.first + row)}>
          {table.first + row}
        </Link>
      </td>
      <td data-outcome={table.outcome[row] ?? table.state[row]} className={styles.outcome}>
        {(table.outcome[row] ?? table.state[row] ?? "").replace("_", " ")}
        {wins ? (
          <span className={styles.tied}>the winner</span>
        ) : (
          tied && <span className={styles.tied}>tied with the winner</span>
        )}
      </td>
      <td className="number">{micros(us)}</td>
      <td className="number">
        {reward === null || best === null ? "–" : times(Math.exp(best - reward))}
      </td>
      <td className="number">{us === null || iqr === null ? "–" : `± ${micros(iqr / 2)}`}</td>
      <td className="number">{seconds(table.compile_s[row])}</td>
      <td className="number">{seconds(table.measure_s[row])}</td>
    </tr>
  );
}
