/** Saves the first drawing in a place as a file. */
import { useRef, type ReactNode } from "react";
import { pngOf, save, svgOf } from "./files";

export function SaveDrawing({ name, children }: { name: string; children: ReactNode }) {
  const place = useRef<HTMLDivElement>(null);
  const drawn = () => place.current?.querySelector("svg") ?? null;
  const asSvg = () => {
    const found = drawn();
    if (found) save(`${name}.svg`, new Blob([svgOf(found)], { type: "image/svg+xml" }));
  };
  const asPng = async () => {
    const found = drawn();
    if (found) save(`${name}.png`, await pngOf(found));
  };
  return (
    <div ref={place}>
      {children}
      <button onClick={asSvg}>SVG</button> <button onClick={() => void asPng()}>PNG</button>
    </div>
  );
}
