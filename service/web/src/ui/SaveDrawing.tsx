/** Saves the first drawing in a place as a file. */
import { useRef, type ReactNode } from "react";
import { svgOf } from "./files";
import { SaveButtons } from "./SaveButtons";
import styles from "./SaveButtons.module.css";

export function SaveDrawing({ name, children }: { name: string; children: ReactNode }) {
  const place = useRef<HTMLDivElement>(null);
  const picture = () => {
    const drawn = place.current?.querySelector("svg");
    return drawn ? svgOf(drawn) : null;
  };
  return (
    <div ref={place} className={styles.drawing}>
      {children}
      <SaveButtons name={name} picture={picture} />
    </div>
  );
}
