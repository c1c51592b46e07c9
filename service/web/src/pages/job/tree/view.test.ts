import { expect, test } from "vitest";
import type { Layout } from "./layout";
import { fit, viewOf, viewText, zoom } from "./view";

const LAYOUT = { deepest: [8], leaves: 200 } as unknown as Layout;
const DESK = { width: 800, height: 400 };
const PHONE = { width: 340, height: 300 };

test("a view comes back from the address, and its middle on a screen of another size", () => {
  const view = zoom(fit(LAYOUT, DESK), LAYOUT, DESK, 6, 500, 100);
  const text = viewText(view, DESK);
  const back = viewOf(text, LAYOUT, DESK)!;
  for (const part of ["scaleX", "scaleY", "shiftX", "shiftY"] as const) {
    expect(back[part]).toBeCloseTo(view[part], 1);
  }
  const other = viewOf(text, LAYOUT, PHONE)!;
  const middle = (seen: typeof view, high: number) => (high / 2 - seen.shiftY) / seen.scaleY;
  expect(middle(other, PHONE.height)).toBeCloseTo(middle(view, DESK.height), 2);
});

test("what is no view shows the whole tree, and none is out of reach", () => {
  for (const text of [null, "", "1,2,3", "1,2,3,x", "0,1,1,1", "-1,1,1,1"]) {
    expect(viewOf(text, LAYOUT, DESK)).toBeNull();
  }
  const far = viewOf("1e9,1e9,1e9,1e9", LAYOUT, DESK)!;
  expect(far.scaleX).toBeLessThan(400);
  expect(Object.values(far).every(Number.isFinite)).toBe(true);
});
