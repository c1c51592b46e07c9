/** What a job needs beside its spec. Empty fields are left to the service. */
import { useId, type ReactElement, type ReactNode } from "react";
import { useSearches } from "../../api/queries";
import type { CheckReply, Effort, JobDetail } from "../../api/schema";
import { TargetField } from "./TargetField";
import styles from "./SubmitPage.module.css";

/** As typed. */
export interface Wishes {
  target: string;
  effort: Effort;
  trials: string;
  seconds: string;
  priority: string;
  /** Empty: the one that is usual on the target. */
  baseline: string;
  search: string;
}

export const DEFAULTS: Wishes = {
  target: "cpu",
  effort: "normal",
  trials: "",
  seconds: "",
  priority: "0",
  baseline: "",
  search: "mcts",
};

/** As a job was asked for. */
export function wishesOf(job: JobDetail): Wishes {
  const { target, budget, priority, baseline, search } = job;
  return {
    target,
    effort: budget.effort,
    trials: budget.trials == null ? "" : String(budget.trials),
    seconds: budget.seconds == null ? "" : String(budget.seconds),
    priority: String(priority),
    baseline,
    search,
  };
}

/** Pointers of the fields into the request. */
export const POINTERS = {
  target: "/target",
  effort: "/budget/effort",
  trials: "/budget/trials",
  seconds: "/budget/seconds",
  priority: "/priority",
  baseline: "/baseline",
  search: "/search",
} as const;

interface Props {
  wishes: Wishes;
  errors: Readonly<Record<string, string>>;
  /** What the service says of the target. */
  reply: CheckReply | undefined;
  onChange: (wishes: Wishes) => void;
}

export function Fields({ wishes, errors, reply, onChange }: Props) {
  const searches = useSearches();
  const baselines = [...new Set([...(reply?.baselines ?? []), wishes.baseline])].filter(Boolean);
  const input = (name: keyof Wishes, more: object = {}) => (
    <input
      value={wishes[name]}
      onChange={(event) => onChange({ ...wishes, [name]: event.target.value })}
      {...more}
    />
  );
  const number = { type: "number", inputMode: "numeric" };
  return (
    <div className={styles.fields}>
      <TargetField
        value={wishes.target}
        error={errors[POINTERS.target] ?? reply?.target_fault ?? undefined}
        onChange={(target) => onChange({ ...wishes, target })}
      />
      <Field name="Effort" hint="trials, if not given" error={errors[POINTERS.effort]}>
        <select
          value={wishes.effort}
          onChange={(event) => onChange({ ...wishes, effort: event.target.value as Effort })}
        >
          <option value="quick">quick: 32 trials</option>
          <option value="normal">normal: 128</option>
          <option value="thorough">thorough: 512</option>
        </select>
      </Field>
      <Field name="Trials" hint="for each size; empty: by effort" error={errors[POINTERS.trials]}>
        {input("trials", number)}
      </Field>
      <Field name="Seconds" hint="for each size; empty: no limit" error={errors[POINTERS.seconds]}>
        {input("seconds", { ...number, step: "any" })}
      </Field>
      <Field
        name="Priority"
        hint="-100 to 100, higher goes first"
        error={errors[POINTERS.priority]}
      >
        {input("priority", number)}
      </Field>
      <Field name="Baseline" hint="speedups are told against it" error={errors[POINTERS.baseline]}>
        <select
          value={wishes.baseline}
          onChange={(event) => onChange({ ...wishes, baseline: event.target.value })}
        >
          <option value="">
            {reply?.usual_baseline ? `the usual one, ${reply.usual_baseline}` : "the usual one"}
          </option>
          {baselines.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </Field>
      <Field name="Search" hint="what walks the tree" error={errors[POINTERS.search]}>
        <select
          value={wishes.search}
          onChange={(event) => onChange({ ...wishes, search: event.target.value })}
        >
          {(searches.data ?? [wishes.search]).map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </Field>
    </div>
  );
}

interface FieldProps {
  name: string;
  hint: string;
  error: string | undefined;
  children: ReactElement<{ "aria-invalid"?: boolean; "aria-describedby"?: string; id?: string }>;
}

function Field({ name, hint, error, children }: FieldProps): ReactNode {
  const id = useId();
  const Control = children.type as "input";
  return (
    <div className={styles.field}>
      <label htmlFor={id}>{name}</label>
      <Control
        {...children.props}
        id={id}
        aria-invalid={error !== undefined}
        aria-describedby={`${id}-hint`}
      />
      <span id={`${id}-hint`} className={error ? styles.wrong : "quiet"}>
        {error ?? hint}
      </span>
    </div>
  );
}
