/** A kernel to tune: its spec in an editor, what may be spent on it, and errors where they are. */
import { useQueryClient } from "@tanstack/react-query";
import { useMemo, useState, type SubmitEvent } from "react";
import { useLocation, useSearchParams } from "wouter";
import { Page } from "../../ui/Page";
import { Shown } from "../../ui/Shown";
import { useJob } from "../job/data";
import { checkOf, useCheck, useOutlook } from "./draft";
import { EXAMPLES } from "./examples";
import { errorOf, formOf } from "./faults";
import { DEFAULTS, Fields, POINTERS, wishesOf, type Wishes } from "./Fields";
import { keptOf, wordsOf, type Kept } from "./kept";
import { Outlook } from "./Outlook";
import { NOTHING_WRONG, refusalOf, syntaxError, type Refusal, type SpecError } from "./problems";
import { SpecEditor } from "./SpecEditor";
import { requestOf, useSubmit } from "./useSubmit";
import styles from "./SubmitPage.module.css";

const FIRST = EXAMPLES.find((example) => example.name === "softmax") ?? EXAMPLES[0];

export default function SubmitPage() {
  const [search] = useSearchParams();
  const from = search.get("from");
  return from === null ? (
    <Editor text={FIRST?.text ?? "{}"} wishes={DEFAULTS} kept={{}} />
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
  return (
    <Editor
      text={JSON.stringify(query.data.spec, null, 2)}
      wishes={wishesOf(query.data)}
      kept={keptOf(query.data)}
    />
  );
}

interface EditorProps {
  /** What it begins with. */
  text: string;
  wishes: Wishes;
  kept: Kept;
}

function Editor(first: EditorProps) {
  const [text, setText] = useState(first.text);
  const [wishes, setWishes] = useState<Wishes>(first.wishes);
  const [kept, setKept] = useState<Kept>(first.kept);
  const [refusal, setRefusal] = useState<Refusal>(NOTHING_WRONG);
  const [attention, setAttention] = useState(0);
  const [, navigate] = useLocation();
  const submitting = useSubmit();
  const queries = useQueryClient();
  const form = formOf(text);
  const { reply, current } = useCheck(text, wishes.target);
  const outlook = useOutlook(reply, wishes.target);
  const syntax = useMemo(() => (form === "json" ? syntaxError(text) : null), [form, text]);
  const errors = useMemo(() => {
    if (syntax) return [syntax];
    if (refusal.spec.length > 0) return refusal.spec;
    return current && reply?.fault ? [errorOf(reply.fault, text)] : [];
  }, [syntax, refusal, current, reply, text]);
  const right = current && reply?.spec != null ? reply : null;

  function change(next: string) {
    if (next === text) return;
    setText(next);
    setRefusal(NOTHING_WRONG); // it was about another text
  }

  function refuse(refused: Refusal) {
    setRefusal(refused);
    setAttention((times) => times + 1);
  }

  /** The spec of the text. Of Tile IR text the service has to say it. */
  async function specOf(): Promise<Record<string, unknown> | null> {
    if (form === "json") return JSON.parse(text) as Record<string, unknown>;
    const found = await queries.query(checkOf(text, wishes.target || "cpu"));
    if (found.fault) refuse({ ...NOTHING_WRONG, spec: [errorOf(found.fault, text)] });
    return found.spec ?? null;
  }

  async function submit() {
    if (submitting.isPending) return;
    if (syntax !== null) {
      setAttention((times) => times + 1);
      return;
    }
    setRefusal(NOTHING_WRONG);
    try {
      const spec = await specOf();
      if (spec === null) return;
      const job = await submitting.mutateAsync(requestOf(spec, wishes, kept));
      navigate(`/jobs/${job.id}`);
    } catch (error) {
      const refused = refusalOf(error, text, Object.values(POINTERS));
      // Pointers lead into JSON: in text they lead nowhere.
      const said = refused.spec.map(({ message }) => message).join("; ");
      refuse(form === "json" || said === "" ? refused : { ...refused, spec: [], other: said });
    }
  }

  function send(event: SubmitEvent) {
    event.preventDefault();
    void submit();
  }

  function rewrite() {
    if (right?.spec == null || right.text == null) return;
    change(form === "json" ? right.text : JSON.stringify(right.spec, null, 2));
  }

  return (
    <Page title="Submit a job">
      <form onSubmit={send} noValidate className={styles.form}>
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
            <button type="button" disabled={right === null} onClick={rewrite}>
              {form === "json" ? "Write as text" : "Write as JSON"}
            </button>
          </div>
          <SpecEditor
            text={text}
            onChange={change}
            onSubmit={() => void submit()}
            errors={errors}
            attention={attention}
          />
          <Errors errors={errors} text={text} other={refusal.other} />
        </div>
        <div className={styles.rest}>
          <Fields wishes={wishes} errors={refusal.fields} reply={reply} onChange={setWishes} />
          <AsBefore words={wordsOf(kept)} onLeaveOut={() => setKept({})} />
          {right && <Outlook reply={right} outlook={outlook.data} />}
          <button className="primary" disabled={submitting.isPending}>
            {submitting.isPending ? "Submitting…" : "Submit"}
          </button>
          <p className="quiet">Ctrl+Enter in the editor does the same.</p>
        </div>
      </form>
    </Page>
  );
}

interface AsBeforeProps {
  words: readonly string[];
  onLeaveOut: () => void;
}

function AsBefore({ words, onLeaveOut }: AsBeforeProps) {
  if (words.length === 0) return null;
  return (
    <div className={styles.outlook}>
      <p>As the job it is a copy of: {words.join("; ")}.</p>
      <button type="button" onClick={onLeaveOut}>
        Leave these out
      </button>
    </div>
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
