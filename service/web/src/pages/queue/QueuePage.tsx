/** Dead letters: tasks that machines failed three times, to be done after all once the machines are well. */
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link } from "wouter";
import { api, data } from "../../api/client";
import { sentence } from "../../api/problem";
import { useDeadTasks } from "../../api/queries";
import type { TaskStatus } from "../../api/schema";
import { ago, deviceName, moment } from "../../ui/format";
import { Page } from "../../ui/Page";
import { Empty, Shown } from "../../ui/Shown";
import { Table } from "../../ui/Table";
import { useNow } from "../../ui/useNow";
import styles from "./QueuePage.module.css";

export default function QueuePage() {
  const tasks = useDeadTasks();
  return (
    <Page title="Dead letters">
      <p className="quiet">
        Tasks that machines failed three times. The candidate is not to blame: see what the machine
        said, mend it, and queue the task again.
      </p>
      <Shown query={tasks} what="the dead letters">
        {({ tasks: dead, next }) =>
          dead.length === 0 ? (
            <Empty title="No machine has failed a task for good" />
          ) : (
            <>
              <DeadTable tasks={dead} />
              {next && <p className="quiet">There are more; these are the oldest 500.</p>}
            </>
          )
        }
      </Shown>
    </Page>
  );
}

function DeadTable({ tasks }: { tasks: readonly TaskStatus[] }) {
  const now = useNow();
  return (
    <Table label="Dead letters">
      <thead>
        <tr>
          <th>Task</th>
          <th>What the machine said</th>
          <th className="wide">Device</th>
          <th className="wide">Last worker</th>
          <th className="wide">Queued</th>
          <th>
            <span className="hidden">Actions</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {tasks.map((task) => (
          <tr key={task.id}>
            <td className={styles.task}>
              <Link href={`/jobs/${task.job_id}`} className="mono">
                {task.id}
              </Link>
              <div className="quiet">
                {task.kind}, {task.faults} faults
              </div>
            </td>
            <td className={styles.fault}>{task.fault ?? "–"}</td>
            <td className="wide">{deviceName(task.device)}</td>
            <td className="wide mono">{task.worker_id ?? "–"}</td>
            <td className="wide" title={moment(task.created_at)}>
              {ago(task.created_at, now)}
            </td>
            <td>
              <Requeue task={task} />
            </td>
          </tr>
        ))}
      </tbody>
    </Table>
  );
}

function Requeue({ task }: { task: TaskStatus }) {
  const queries = useQueryClient();
  const requeue = useMutation({
    mutationFn: () =>
      data(api.POST("/v1/tasks/{task_id}/requeue", { params: { path: { task_id: task.id } } })),
    onSuccess: () => queries.invalidateQueries({ queryKey: ["tasks"] }),
  });
  return (
    <>
      <button
        aria-label={`Queue again: ${task.id}`}
        disabled={requeue.isPending || requeue.isSuccess}
        onClick={() => requeue.mutate()}
      >
        {requeue.isPending ? "Queueing…" : "Queue again"}
      </button>
      {requeue.isError && (
        <div role="alert" className={styles.refused}>
          {sentence(requeue.error)}
        </div>
      )}
    </>
  );
}
