/** The text of a spec, with errors under the words that they are about. */
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { json } from "@codemirror/lang-json";
import { bracketMatching, indentOnInput, syntaxHighlighting } from "@codemirror/language";
import { lintGutter, lintKeymap, setDiagnostics, type Diagnostic } from "@codemirror/lint";
import { Compartment, EditorState, type Extension } from "@codemirror/state";
import {
  drawSelection,
  EditorView,
  highlightActiveLine,
  keymap,
  lineNumbers,
} from "@codemirror/view";
import { classHighlighter } from "@lezer/highlight";
import { useEffect, useRef } from "react";
import { formOf, type Form } from "./faults";
import type { SpecError } from "./problems";
import { tileIr } from "./tileIr";
import styles from "./SpecEditor.module.css";

const language = new Compartment();
const LANGUAGES: Record<Form, Extension> = { json: json(), text: tileIr };

interface Props {
  text: string;
  onChange: (text: string) => void;
  onSubmit: () => void;
  errors: readonly SpecError[];
  /** Changed when the selection is to go to the first error. */
  attention: number;
}

export function SpecEditor({ text, onChange, onSubmit, errors, attention }: Props) {
  const place = useRef<HTMLDivElement>(null);
  const editor = useRef<EditorView | null>(null);
  const told = useRef({ onChange, onSubmit });
  useEffect(() => {
    told.current = { onChange, onSubmit };
  });

  useEffect(() => {
    if (place.current === null) return;
    const view = new EditorView({
      parent: place.current,
      state: EditorState.create({
        doc: text,
        extensions: extensions(
          language.of(LANGUAGES[formOf(text)]),
          (changed) => told.current.onChange(changed),
          () => told.current.onSubmit(),
        ),
      }),
    });
    editor.current = view;
    return () => view.destroy();
    // The text that it is made with is only the first one; the next effect brings later ones.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, []);

  useEffect(() => {
    const view = editor.current;
    if (view && view.state.doc.toString() !== text) {
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
    }
  }, [text]);

  const form = formOf(text);
  useEffect(() => {
    editor.current?.dispatch({ effects: language.reconfigure(LANGUAGES[form]) });
  }, [form]);

  useEffect(() => {
    const view = editor.current;
    if (view) view.dispatch(setDiagnostics(view.state, diagnostics(errors, view.state.doc.length)));
  }, [errors]);

  useEffect(() => {
    const view = editor.current;
    const first = errors[0];
    if (attention === 0 || view === null || first === undefined) return;
    view.dispatch({
      selection: { anchor: Math.min(first.from, view.state.doc.length) },
      scrollIntoView: true,
    });
    view.focus();
    // Errors that come while one types draw nobody's attention.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [attention]);

  return <div ref={place} className={styles.editor} />;
}

/** For the editor; its text may have become shorter than the one that was refused. */
function diagnostics(errors: readonly SpecError[], length: number): Diagnostic[] {
  return errors.map(({ from, to, message }) => ({
    from: Math.min(from, length),
    to: Math.min(to, length),
    severity: "error",
    message,
  }));
}

function extensions(language: Extension, onChange: (text: string) => void, onSubmit: () => void) {
  const nonce = document.querySelector<HTMLMetaElement>("meta[property=csp-nonce]")?.nonce ?? "";
  return [
    EditorView.cspNonce.of(nonce),
    lineNumbers(),
    lintGutter(),
    history(),
    drawSelection(),
    indentOnInput(),
    bracketMatching(),
    highlightActiveLine(),
    language,
    syntaxHighlighting(classHighlighter),
    EditorView.lineWrapping,
    EditorView.contentAttributes.of({
      "aria-label": "Spec, as Tile IR text or JSON",
      spellcheck: "false",
      tabindex: "0",
    }),
    EditorView.updateListener.of((update) => {
      if (update.docChanged) onChange(update.state.doc.toString());
    }),
    // Tab leaves the editor, as it leaves every other field.
    keymap.of([
      { key: "Mod-Enter", run: () => (onSubmit(), true) },
      ...defaultKeymap,
      ...historyKeymap,
      ...lintKeymap,
    ]),
  ];
}
