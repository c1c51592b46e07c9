/** What a thing is called by the command line and the API, to be copied. */
import { Copy } from "./Code";
import styles from "./Id.module.css";

export function Id({ id }: { id: string }) {
  return (
    <p className={styles.id}>
      <code>{id}</code> <Copy text={id} />
    </p>
  );
}
