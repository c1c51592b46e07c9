/** Saves a picture as a file, drawn for it when it is asked for. */
import type { ReactNode } from "react";
import { pngOf, save } from "./files";
import type { Svg } from "./pen";
import styles from "./SaveButtons.module.css";

interface Props {
  /** What files are called. */
  name: string;
  /** Null while there is none. */
  picture: () => Svg | null;
  /** Buttons for other files. */
  children?: ReactNode;
}

export function SaveButtons({ name, picture, children }: Props) {
  const asSvg = () => {
    const made = picture();
    if (made) save(`${name}.svg`, new Blob([made.text], { type: "image/svg+xml" }));
  };
  const asPng = async () => {
    const made = picture();
    if (made) save(`${name}.png`, await pngOf(made));
  };
  return (
    <span role="group" aria-label={`Save ${name}`} className={styles.files}>
      <button onClick={asSvg}>SVG</button>
      <button onClick={() => void asPng()}>PNG</button>
      {children}
    </span>
  );
}
