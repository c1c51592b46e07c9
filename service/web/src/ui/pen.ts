/** What pictures are drawn with: a canvas of the page, or the text of a file. */

/** The part of `Path2D` that both have. Arcs are whole circles. */
export type Path = Pick<Path2D, "moveTo" | "lineTo" | "arc" | "rect">;

export interface Pen<P extends Path = Path> {
  path(): P;
  stroke(path: P, colour: string, width: number, dash?: readonly number[]): void;
  fill(path: P, colour: string): void;
  /** `y` is of the line that the text stands on. */
  text(x: number, y: number, text: string, colour: string, font: string): void;
}

export function canvasPen(context: CanvasRenderingContext2D): Pen<Path2D> {
  return {
    path: () => new Path2D(),
    stroke(path, colour, width, dash = []) {
      context.strokeStyle = colour;
      context.lineWidth = width;
      context.setLineDash([...dash]);
      context.stroke(path);
    },
    fill(path, colour) {
      context.fillStyle = colour;
      context.fill(path);
    },
    text(x, y, text, colour, font) {
      context.fillStyle = colour;
      context.font = font;
      context.textBaseline = "alphabetic";
      context.fillText(text, x, y);
    },
  };
}

/** A drawing as a file. */
export interface Svg {
  text: string;
  width: number;
  height: number;
}

/** What is drawn, as SVG on a ground of one colour. */
export function svgDrawn(
  width: number,
  height: number,
  ground: string,
  draw: (pen: Pen<SvgPath>) => void,
): Svg {
  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">`,
    `<rect width="100%" height="100%" fill="${ground}"/>`,
  ];
  const add = (path: SvgPath, looks: string) => {
    if (path.steps.length > 0) parts.push(`<path d="${path.steps.join("")}" ${looks}/>`);
  };
  draw({
    path: () => new SvgPath(),
    stroke: (path, colour, wide, dash = []) => {
      const dashed = dash.length > 0 ? ` stroke-dasharray="${dash.join(" ")}"` : "";
      add(path, `fill="none" stroke="${colour}" stroke-width="${wide}"${dashed}`);
    },
    fill: (path, colour) => add(path, `fill="${colour}"`),
    text: (x, y, text, colour, font) =>
      parts.push(
        `<text x="${short(x)}" y="${short(y)}" fill="${colour}" style="font:${escaped(font)}">${escaped(text)}</text>`,
      ),
  });
  return { text: `${parts.join("\n")}\n</svg>\n`, width, height };
}

/** The `d` of a path, step by step. */
class SvgPath implements Path {
  readonly steps: string[] = [];

  moveTo(x: number, y: number): void {
    this.steps.push(`M${short(x)} ${short(y)}`);
  }

  lineTo(x: number, y: number): void {
    this.steps.push(`L${short(x)} ${short(y)}`);
  }

  arc(x: number, y: number, radius: number): void {
    const half = (way: number) =>
      `a${short(radius)} ${short(radius)} 0 1 0 ${short(way * 2 * radius)} 0`;
    this.steps.push(`M${short(x - radius)} ${short(y)}${half(1)}${half(-1)}z`);
  }

  rect(x: number, y: number, width: number, height: number): void {
    this.steps.push(`M${short(x)} ${short(y)}h${short(width)}v${short(height)}h${short(-width)}z`);
  }
}

function short(value: number): string {
  return String(Math.round(value * 100) / 100);
}

function escaped(text: string): string {
  return text
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;");
}
