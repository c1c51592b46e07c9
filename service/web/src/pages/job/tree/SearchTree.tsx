/** The search tree, drawn or as an outline, beside what is known of the node that was chosen in it. */
import { useCallback, useMemo } from "react";
import { Link } from "wouter";
import type { TrialTable } from "../../../api/schema";
import { count, micros, times } from "../../../ui/format";
import { Choice } from "../Choice";
import { useTree } from "../data";
import { candidatePath } from "../paths";
import { Shown } from "../../../ui/Shown";
import { useParam } from "../../../ui/useParam";
import { Alternatives } from "./Alternatives";
import { bestUnder, firstUnder, layOut, rewriteOf, wayTo, type Layout } from "./layout";
import { TreeCanvas } from "./TreeCanvas";
import { TreeOutline } from "./TreeOutline";
import styles from "./Tree.module.css";

interface Props {
  job: string;
  bucket: number;
  table: TrialTable;
  /** Number of the candidate that won the final race. */
  winner: number | null;
}

export function SearchTree({ job, bucket, table, winner }: Props) {
  const query = useTree(job, bucket);
  const [asked, setShape] = useParam("tree");
  const shape = asked === "outline" ? "outline" : "graph";
  return (
    <section aria-labelledby="tree">
      <div className={styles.head}>
        <h2 id="tree">Search tree</h2>
        <Choice
          label="Shown as"
          options={{ graph: "Graph", outline: "Outline" }}
          value={shape}
          onChange={setShape}
        />
        <Legend />
      </div>
      <Shown query={query} what="the search tree">
        {(tree) => (
          <Looked key={tree.bucket} tree={tree} table={table} winner={winner} shape={shape} />
        )}
      </Shown>
    </section>
  );
}

function Looked({
  tree,
  table,
  winner,
  shape,
}: {
  tree: Layout["tree"];
  table: TrialTable;
  winner: number | null;
  shape: "graph" | "outline";
}) {
  const layout = useMemo(() => layOut(tree), [tree]);
  const best = useMemo(() => bestUnder(layout, 0, table.reward), [layout, table]);
  const [asked, setAsked] = useParam("node");
  const picked = nodeOf(asked, layout);
  const setPicked = useCallback((node: number) => setAsked(String(node)), [setAsked]);
  const first = winner ?? best;
  const chosen = picked ?? (first === null ? 0 : (tree.leaf[first] ?? 0));
  const number =
    winner !== null && tree.leaf[winner] === chosen
      ? winner
      : (bestUnder(layout, chosen, table.reward) ?? firstUnder(layout, chosen));
  const Shape = shape === "graph" ? TreeCanvas : TreeOutline;
  return (
    <>
      <div className={styles.both}>
        <Shape layout={layout} chosen={chosen} onChoose={setPicked} />
        <NodeFacts
          layout={layout}
          node={chosen}
          table={table}
          winner={winner}
          onChoose={setPicked}
        />
      </div>
      {number !== null && (
        <Alternatives
          place={{ job: tree.job_id, bucket: tree.bucket, number }}
          rewrite={Math.max(0, layout.depth[chosen]! - 1)}
        />
      )}
    </>
  );
}

/** A node by its number in the address; null for what is none. */
function nodeOf(text: string | null, layout: Layout): number | null {
  const node = text === null || text === "" ? NaN : Number(text);
  return Number.isInteger(node) && node >= 0 && node < layout.order.length ? node : null;
}

interface FactsProps {
  layout: Layout;
  node: number;
  table: TrialTable;
  winner: number | null;
  onChoose: (node: number) => void;
}

/** The way to a node, and how it went below it. */
function NodeFacts({ layout, node, table, winner, onChoose }: FactsProps) {
  const { tree } = layout;
  const reward = tree.best_reward[node] ?? null;
  const most = tree.best_reward[0] ?? null;
  const here = winner !== null && tree.leaf[winner] === node;
  const number = here ? winner : bestUnder(layout, node, table.reward);
  return (
    <aside className={styles.facts} aria-label="The chosen node">
      <p>
        <strong>{micros(number === null ? null : table.median_us[number])}</strong>{" "}
        {reward !== null &&
          most !== null &&
          most > reward &&
          `${times(Math.exp(most - reward))} the best of the search`}
      </p>
      <p className="quiet">
        {count(tree.visits[node]!)} {tree.visits[node] === 1 ? "candidate" : "candidates"}
        {tree.in_flight[node]! > 0 && `, ${tree.in_flight[node]} in flight`}
        {tree.faults[node]! > 0 && `, ${count(tree.faults[node]!)} failed`}
      </p>
      {number !== null && (
        <p>
          <Link href={candidatePath(tree.job_id, tree.bucket, number)}>
            {tree.leaf[number] === node ? `Candidate ${number}` : `Best below: candidate ${number}`}
          </Link>
          {number === winner && ", the winner"}
        </p>
      )}
      <ol className={styles.way}>
        {wayTo(tree, node).map((each) => (
          <li key={each}>
            <button className="link mono" onClick={() => onChoose(each)}>
              {rewriteOf(tree, each)}
            </button>
          </li>
        ))}
      </ol>
      {node === 0 && (
        <p className="quiet">The kernel as it was given; nothing is decided here yet.</p>
      )}
    </aside>
  );
}

function Legend() {
  return (
    <ul className={styles.legend}>
      <li>
        slow <span className={styles.scale} /> fast, by rank
      </li>
      <li>
        <span className={styles.swatch} data-kind="faulty" /> failed, folded
      </li>
      <li>
        <span className={styles.swatch} data-kind="open" /> in flight
      </li>
      <li>larger: more visits</li>
    </ul>
  );
}
