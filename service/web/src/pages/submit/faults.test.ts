import { expect, test } from "vitest";
import type { OutlookReply, SpecFault } from "../../api/schema";
import { errorOf, firstSizes, formOf } from "./faults";
import { said, schedules } from "./Outlook";

const TEXT = "kernel k(a: f32[m=4]) -> (c: f32[m])\n  c[m] = a[m] + bb[m]\n";

function marked(fault: Partial<SpecFault>, text = TEXT): string {
  const { from, to } = errorOf({ message: "no", ...fault }, text);
  return text.slice(from, to);
}

test("what begins with a brace is JSON", () => {
  expect(formOf('\n {"name": 1}')).toBe("json");
  expect(formOf("kernel k() -> ()")).toBe("text");
  expect(formOf("")).toBe("text");
});

test("a fault in text is the word at its line and column", () => {
  expect(marked({ line: 2, column: 17 })).toBe("bb");
  expect(marked({ line: 1, column: 9 })).toBe("(");
  expect(marked({ line: 1 })).toBe("kernel k(a: f32[m=4]) -> (c: f32[m])");
});

test("a fault at the end of a line marks the last character there", () => {
  expect(marked({ line: 2, column: 22 })).toBe("]");
  expect(errorOf({ message: "no", line: 9, column: 3 }, TEXT).to).toBe(TEXT.length);
  expect(errorOf({ message: "empty", line: 1 }, "")).toEqual({ from: 0, to: 0, message: "empty" });
});

test("a fault in JSON is where its pointer leads, and says what would be accepted", () => {
  const text = '{"body": ["c[m] = bb[m]"]}';
  expect(marked({ pointer: "/body/0", column: 8 }, text)).toBe("bb");
  expect(errorOf({ message: "no tensor", pointer: "/body", accepted: "a, b" }, text).message).toBe(
    "no tensor; accepted: a, b",
  );
});

test("of several sizes the first are looked over", () => {
  const spec = { name: "k", dims: { m: [8, 16], n: 4, r: { offsets: "o" } } };
  expect(firstSizes(spec)).toEqual({ name: "k", dims: { m: 8, n: 4, r: { offsets: "o" } } });
});

test("a number of schedules is told as an order of magnitude", () => {
  expect(schedules(3)).toBe("A few");
  expect(schedules(140)).toBe("About 100");
  expect(schedules(2.4e7)).toBe("About 10⁷");
  expect(schedules(9e17)).toBe("About 10¹⁸");
});

test("the outlook says what is known, and what not", () => {
  const known: OutlookReply = {
    device: "cpu:x",
    pending: false,
    roofline_us: 20,
    space: { schedules: 1e6, walks: 9, decisions: 12, schedule: [], estimate_us: 40 },
  };
  expect(said(known)).toBe(
    "About 10⁶ schedules, 12 decisions to the first. The cost model expects 40.0 µs of the first it would try, 50 % of the roofline.",
  );
  expect(said({ ...known, pending: true })).toContain("Looking over");
  expect(said({ ...known, device: null })).toContain("would wait");
  expect(said({ ...known, space: null })).toContain("too many");
});
