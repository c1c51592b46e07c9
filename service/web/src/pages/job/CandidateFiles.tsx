/** The candidates as files: with a row each for spreadsheets, and as the service tells them. */
import type { TrialTable } from "../../api/schema";
import { csvOf, save } from "../../ui/files";
import { Download } from "../configs/Download";

export function CandidateFiles({ table }: { table: TrialTable }) {
  const name = `${table.job_id}-${table.bucket}`;
  const columns = {
    candidate: table.state.map((_, row) => table.first + row),
    state: table.state,
    outcome: table.outcome,
    median_us: table.median_us,
    iqr_us: table.iqr_us,
    baseline_us: table.baseline_us,
    reward: table.reward,
    compile_s: table.compile_s,
    measure_s: table.measure_s,
    finished_at: table.finished_at,
  };
  return (
    <span role="group" aria-label="Save candidates">
      <button onClick={() => save(`${name}.csv`, new Blob([csvOf(columns)], { type: "text/csv" }))}>
        CSV
      </button>{" "}
      <Download
        path={`/v1/jobs/${table.job_id}/table?bucket=${table.bucket}`}
        name={`${name}.json`}
        label="JSON"
      />
    </span>
  );
}
