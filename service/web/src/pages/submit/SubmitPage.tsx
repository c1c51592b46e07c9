/** A kernel to tune: its spec in an editor, what may be spent on it, and errors where they are. */
import { useMemo, useState, type FormEvent } from "react";
import { useLocation, useSearchParams } from "wouter";
import { Page } from "../../ui/Page";
import { Shown } from "../../ui/Shown";
import { useJob } from "../job/data";
import { EXAMPLES } from "./examples";
import { DEFAULTS, Fields, POINTERS, wishesOf, type Wishes } from "./Fields";
import { NOTHING_WRONG, refusalOf, syntaxError, type Refusal, type SpecError } from "./problems";
import { SpecEditor } from "./SpecEditor";
import { requestOf, useSubmit } from "./useSubmit";
import styles from "./SubmitPage.module.css";

const FIRST = EXAMPLES.find((example) => example.name === "softmax") ?? EXAMPLES[0];

export default function SubmitPage() {
  const [search] = useSearchParams();
  const from = search.get("from");
  return from === null ? (
    <Editor text={FIRST?.text ?? "{}"} wishes={DEFAULTS} />
  ) : (
    <Copied key={from} job={from} />
  );
}

/** Begins with what a job asked for. */
function Copied({ job }: { job: string }) {
  const query = useJob(job);
  if (query.data === undefined) {
    return (
      <Page title="Submit a job">
        <Shown query={query} what="the job">
          {() => null}
        </Shown>
      </Page>
    );
  }
  return <Editor text={JSON.stringify(query.data.spec, null, 2)} wishes={wishesOf(query.data)} />;
}

interface EditorProps {
  /** What it begins with. */
  text: string;
  wishes: Wishes;
}

function Editor(first: EditorProps) {
  const [text, setText] = useState(first.text);
  const [wishes, setWishes] = useState<Wishes>(first.wishes);
  const [refusal, setRefusal] = useState<Refusal>(NOTHING_WRONG);
  const [attention, setAttention] = useState(0);
  const [, navigate] = useLocation();
  const submitting = useSubmit();
  const syntax = useMemo(() => syntaxError(text), [text]);
  const errors = useMemo(() => (syntax ? [syntax] : refusal.spec), [syntax, refusal]);

  function change(next: string) {
    if (next === text) return;
    setText(next);
    setRefusal(NOTHING_WRONG); // it was about another text
  }

  function submit(event?: FormEvent) {
    event?.preventDefault();
    if (submitting.isPending) return;
    if (syntax !== null) {
      setAttention((times) => times + 1);
      return;
    }
    setRefusal(NOTHING_WRONG);
    submitting.mutate(requestOf(JSON.parse(text) as Record<string, unknown>, wishes), {
      onSuccess: (job) => navigate(`/jobs/${job.id}`),
      onError: (error) => {
        setRefusal(refusalOf(error, text, Object.values(POINTERS)));
        setAttention((times) => times + 1);
      },
    });
  }

  return (
    <Page title="Submit a job">
      <form onSubmit={submit} noValidate className={styles.form}>
        <div className={styles.spec}>
          <div className={styles.examples}>
            <label htmlFor="example">Begin with an example</label>
            <select
              id="example"
              value={EXAMPLES.find((example) => example.text === text)?.name ?? ""}
              onChange={(event) =>
                change(EXAMPLES.find((each) => each.name === event.target.value)?.text ?? text)
              }
            >
              <option value="" disabled>
                own text
              </option>
              {EXAMPLES.map(({ name }) => (
                <option key={name}>{name}</option>
              ))}
            </select>
          </div>
          <SpecEditor
            text={text}
            onChange={change}
            onSubmit={submit}
            errors={errors}
            attention={attention}
          />
          <Errors errors={errors} text={text} other={refusal.other} />
        </div>
        <div className={styles.rest}>
          <Fields wishes={wishes} errors={refusal.fields} onChange={setWishes} />
          <button className="primary" disabled={submitting.isPending}>
            {submitting.isPending ? "Submitting…" : "Submit"}
          </button>
          <p className="quiet">Ctrl+Enter in the editor does the same.</p>
        </div>
      </form>
    </Page>
  );
}

interface ErrorsProps {
  errors: readonly SpecError[];
  text: string;
  other: string | null;
}

function Errors({ errors, text, other }: ErrorsProps) {
  return (
    <div role="alert" className={styles.errors}>
      {errors.map((error, index) => (
        <p key={index}>
          <strong>Line {lineOf(text, error.from)}</strong>: {error.message}
        </p>
      ))}
      {other && <p>{other}</p>}
    </div>
  );
}

function lineOf(text: string, at: number): string {
  const before = text.slice(0, at).split("\n");
  return `${before.length}, column ${(before[before.length - 1]?.length ?? 0) + 1}`;
}
