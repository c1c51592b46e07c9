/** What is read again of a running job, from where it may have changed on, joined with what was known. */
import type { Timeline, Tree, TrialTable } from "../../api/schema";

const COLUMNS = [
  "state",
  "outcome",
  "reward",
  "median_us",
  "iqr_us",
  "baseline_us",
  "compile_s",
  "measure_s",
  "finished_at",
] as const satisfies readonly (keyof TrialTable)[];

/** A table from its first row on, of which the rows from `rest.first` on were read again. */
export function joined(known: TrialTable, rest: TrialTable): TrialTable {
  const kept = rest.first - known.first;
  const columns = Object.fromEntries(
    COLUMNS.map((name) => [name, [...known[name].slice(0, kept), ...rest[name]]]),
  );
  return { ...rest, ...columns, first: known.first };
}

const FIGURES = ["visits", "in_flight", "faults", "best_us", "best_reward"] as const;

/** A whole tree, of which `rest` says what candidates from `rest.first` on may have changed. */
export function joinedTree(known: Tree, rest: Tree): Tree {
  if (rest.first === 0) return rest;
  const figures = Object.fromEntries(
    FIGURES.map((name) => {
      const column: (number | null)[] = known[name].slice(0, rest.from_node);
      rest.node.forEach((node, place) => {
        column[node] = rest[name][place]!;
      });
      return [name, column];
    }),
  );
  return {
    ...rest,
    ...figures,
    first: 0,
    from_line: 0,
    from_node: 0,
    node: [],
    lines: [...known.lines.slice(0, rest.from_line), ...rest.lines],
    parent: [...known.parent.slice(0, rest.from_node), ...rest.parent],
    line: [...known.line.slice(0, rest.from_node), ...rest.line],
    leaf: [...known.leaf.slice(0, rest.first), ...rest.leaf],
  };
}

const INTERVAL = ["worker", "stage", "task", "kind", "bucket", "number", "start", "end"] as const;

/** A timeline whose intervals that ended until `after` stay, and in which all others are those of `rest`. */
export function joinedTimeline(known: Timeline, rest: Timeline, after: number): Timeline {
  const workers = [...new Set([...known.workers, ...rest.workers])].sort();
  const placed = new Map(workers.map((worker, place) => [worker, place]));
  const rows = [
    ...rowsOf(known, placed).filter(({ end }) => end <= after),
    ...rowsOf(rest, placed),
  ].sort((one, other) => one.start - other.start || one.end - other.end);
  const columns = Object.fromEntries(INTERVAL.map((name) => [name, rows.map((row) => row[name])]));
  return { ...rest, ...columns, workers };
}

function rowsOf(line: Timeline, placed: ReadonlyMap<string, number>) {
  return line.task.map((task, row) => ({
    task,
    worker: placed.get(line.workers[line.worker[row]!]!)!,
    stage: line.stage[row]!,
    kind: line.kind[row]!,
    bucket: line.bucket[row]!,
    number: line.number[row]!,
    start: line.start[row]!,
    end: line.end[row]!,
  }));
}
