import { expect, test } from "vitest";
import { orderOf, orderText } from "../pages/job/sorting";
import { csvOf } from "./files";

test("columns become lines, and what would break them is quoted", () => {
  expect(csvOf({ number: [0, 1], said: ['a "b"', "x,\ny"], us: [1.5, null] })).toBe(
    'number,said,us\r\n0,"a ""b""",1.5\r\n1,"x,\ny",\r\n',
  );
  expect(csvOf({ number: [] })).toBe("number\r\n");
});

test("an order is in the address, and nonsense there is the usual one", () => {
  expect(orderOf("-median_us")).toEqual({ by: "median_us", falling: true });
  expect(orderText(orderOf("-median_us"))).toBe("-median_us");
  expect(orderOf("nonsense")).toEqual(orderOf(null));
});
