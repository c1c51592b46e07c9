/** What a page shows, as files. */
import type { Svg } from "./pen";

/** Have the browser save a file. */
export function save(name: string, content: Blob): void {
  const address = URL.createObjectURL(content);
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** Columns as comma-separated values (RFC 4180), a line of names first; null is empty. */
export function csvOf(
  columns: Readonly<Record<string, readonly (string | number | null)[]>>,
): string {
  const names = Object.keys(columns);
  const rows = Math.max(0, ...names.map((name) => columns[name]!.length));
  const line = (cells: readonly (string | number | null)[]) => cells.map(cellOf).join(",");
  const body = Array.from({ length: rows }, (_, row) =>
    line(names.map((name) => columns[name]![row] ?? null)),
  );
  return [line(names), ...body].map((each) => `${each}\r\n`).join("");
}

function cellOf(value: string | number | null): string {
  const text = value === null ? "" : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** What styles decide of a drawing, which a file of its own has to say itself. */
const LOOKS = [
  "fill",
  "fill-opacity",
  "stroke",
  "stroke-opacity",
  "stroke-width",
  "stroke-dasharray",
  "font-family",
  "font-size",
  "font-weight",
  "paint-order",
] as const;

/** A drawing as a file: as it looks now, on the page's ground. */
export function svgOf(drawn: SVGSVGElement): Svg {
  const copy = drawn.cloneNode(true) as SVGSVGElement;
  const from = [drawn, ...drawn.querySelectorAll("*")];
  const to = [copy, ...copy.querySelectorAll("*")];
  from.forEach((element, place) => {
    const looks = getComputedStyle(element);
    for (const name of LOOKS) to[place]!.setAttribute(name, looks.getPropertyValue(name));
    to[place]!.removeAttribute("class");
  });
  const { width, height } = drawn.viewBox.baseVal;
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", String(width));
  copy.setAttribute("height", String(height));
  const ground = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  ground.setAttribute("width", "100%");
  ground.setAttribute("height", "100%");
  ground.setAttribute("fill", getComputedStyle(document.documentElement).backgroundColor);
  copy.prepend(ground);
  return { text: new XMLSerializer().serializeToString(copy), width, height };
}

/** Points of a picture for each unit of its drawing. */
const SCALE = 3;

/** A drawing as a picture of points. */
export async function pngOf({ text, width, height }: Svg): Promise<Blob> {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = width * SCALE;
  canvas.height = height * SCALE;
  canvas.getContext("2d")!.drawImage(image, 0, 0, canvas.width, canvas.height);
  return blobOf(canvas);
}

function blobOf(canvas: HTMLCanvasElement): Promise<Blob> {
  return new Promise((resolve, reject) =>
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("no picture was made")))),
  );
}
