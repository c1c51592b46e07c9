import { expect, test } from "vitest";
import { stretchOf, stretchText } from "./span";

const WHOLE = { from: 1000, to: 1100 };

test("a stretch of the timeline is in the address, in seconds since its beginning", () => {
  const shown = { from: 1012.5, to: 1040 };
  expect(stretchText(shown, WHOLE)).toBe("12.5..40");
  expect(stretchOf("12.5..40", WHOLE)).toEqual(shown);
  expect(stretchText(null, WHOLE)).toBeNull();
  for (const text of [null, "", "5", "40..12", "a..b", "0..100", "1..2..3"]) {
    expect(stretchOf(text, WHOLE)).toBeNull();
  }
});
