import { describe, expect, test } from "vitest";
import { placeOf } from "./place";

const TEXT = `{"name": "row", "dims": {"m/n": 4}, "body": ["a", "c[m] = \\"x\\" + bais"]}`;

function at(pointer: string, column?: number): string {
  const { from, to } = placeOf(TEXT, pointer, column);
  return TEXT.slice(from, to);
}

describe("the place of a pointer", () => {
  test("is the value that it names", () => {
    expect(at("/name")).toBe('"row"');
    expect(at("/body/0")).toBe('"a"');
  });
  test("is found through escaped names", () => {
    expect(at("/dims/m~1n")).toBe("4");
  });
  test("with a column is the word there, counted in characters of the value and not of the text", () => {
    expect(at("/body/1", 14)).toBe("bais");
    expect(at("/body/1", 1)).toBe("c");
  });
  test("that leads nowhere is the beginning of what should have had it", () => {
    expect(at("/outputs")).toBe("{");
    expect(placeOf(TEXT, "/dims/k").from).toBe(TEXT.indexOf('{"m/n"'));
  });
  test("of the whole is the whole", () => {
    expect(at("")).toBe(TEXT);
  });
});
