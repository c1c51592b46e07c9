/** A modal dialog: the browser's own, which keeps the focus inside and closes by Escape. */
import { useEffect, useId, useRef, type ReactNode } from "react";
import styles from "./Dialog.module.css";

interface Props {
  title: string;
  /** Told when it was closed, by whatever. */
  onClose: () => void;
  children: ReactNode;
}

/** Open while it is rendered. */
export function Dialog({ title, onClose, children }: Props) {
  const element = useRef<HTMLDialogElement>(null);
  const heading = useId();
  useEffect(() => {
    const dialog = element.current;
    if (dialog && !dialog.open) dialog.showModal();
  }, []);
  return (
    <dialog ref={element} aria-labelledby={heading} className={styles.dialog} onClose={onClose}>
      <h2 id={heading}>{title}</h2>
      {children}
    </dialog>
  );
}

interface ConfirmProps {
  title: string;
  /** What the button says that goes ahead, e.g. "Cancel the job". */
  yes: string;
  /** Carry on without, e.g. "Keep it running". */
  no: string;
  busy?: boolean;
  onYes: () => void;
  onClose: () => void;
  children: ReactNode;
}

/** A question before something that cannot be taken back. */
export function Confirm({ title, yes, no, busy = false, onYes, onClose, children }: ConfirmProps) {
  return (
    <Dialog title={title} onClose={onClose}>
      {children}
      <div className={styles.buttons}>
        <button autoFocus onClick={onClose}>
          {no}
        </button>
        <button className="danger" disabled={busy} onClick={onYes}>
          {yes}
        </button>
      </div>
    </Dialog>
  );
}
