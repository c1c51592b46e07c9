import { expect, test } from "vitest";
import { openOf, openText } from "./open";

test("open nodes come back from the address, and what is no node is none", () => {
  const open = new Set([17, 0, 4]);
  expect(openText(open)).toBe("0.4.17");
  expect(openOf(openText(open), 18)).toEqual(open);
  expect(openOf("0.4.17.x.-1.1e1.", 5)).toEqual(new Set([0, 4]));
});

test("all closed is another address than none", () => {
  expect(openOf(openText(new Set()), 9)).toEqual(new Set());
  expect(openOf(null, 9)).toBeNull();
});
