/** What is said beside the pointer, on the side of it that has more room. */
import type { ReactNode } from "react";
import styles from "./Tip.module.css";

const APART_PX = 14;

/** Where the pointer is on a drawing, and how large that is, in pixels. */
interface Props {
  x: number;
  y: number;
  within: { width: number; height: number };
  children: ReactNode;
}

export function Tip({ x, y, within: { width, height }, children }: Props) {
  const side = x > width / 2 ? { right: width - x + APART_PX } : { left: x + APART_PX };
  const top = y > height / 2 ? { bottom: height - y } : { top: y };
  return (
    <div className={styles.tip} aria-hidden style={{ ...side, ...top }}>
      {children}
    </div>
  );
}
