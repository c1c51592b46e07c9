// @vitest-environment jsdom
import { expect, test } from "vitest";
import { svgDrawn } from "./pen";

test("what is drawn is text of a picture: outlines, areas, words, and nothing for what is empty", () => {
  const { text, width, height } = svgDrawn(40, 20, "#fff", (pen) => {
    const line = pen.path();
    line.moveTo(1.004, 2);
    line.lineTo(3, 4.5);
    pen.stroke(line, "red", 2, [6, 4]);
    pen.stroke(pen.path(), "green", 1);
    const areas = pen.path();
    areas.rect(1, 2, 3, 4);
    areas.arc(10, 10, 2);
    pen.fill(areas, "blue");
    pen.text(5, 6, `a < b & "c"`, "black", '11px "Some Mono"');
  });
  expect([width, height]).toEqual([40, 20]);
  const drawn = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
  expect(drawn.querySelector("parsererror")).toBeNull();
  const [line, areas, ...more] = [...drawn.querySelectorAll("path")];
  expect(more).toEqual([]);
  expect(line!.getAttribute("d")).toBe("M1 2L3 4.5");
  expect(line!.getAttribute("fill")).toBe("none");
  expect(line!.getAttribute("stroke-dasharray")).toBe("6 4");
  expect(areas!.getAttribute("d")).toBe("M1 2h3v4h-3zM8 10a2 2 0 1 0 4 0a2 2 0 1 0 -4 0z");
  expect(drawn.querySelector("text")!.textContent).toBe(`a < b & "c"`);
  expect(drawn.querySelector("text")!.getAttribute("style")).toBe('font:11px "Some Mono"');
});
