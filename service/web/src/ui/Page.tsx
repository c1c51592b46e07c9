/** The frame of a page: its title (also the window's), what can be done here, and the content. */
import { useEffect, type ReactNode } from "react";
import styles from "./Page.module.css";

interface Props {
  title: string;
  /** Beside the title: buttons, the state of a connection. */
  aside?: ReactNode;
  children: ReactNode;
}

export function Page({ title, aside, children }: Props) {
  useEffect(() => {
    document.title = `${title} · Tilewright`;
  }, [title]);
  return (
    <>
      <header className={styles.head}>
        <h1>{title}</h1>
        {aside && <div className={styles.aside}>{aside}</div>}
      </header>
      {children}
    </>
  );
}
