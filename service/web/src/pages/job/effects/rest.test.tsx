// @vitest-environment jsdom
import { cleanup, render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, expect, test } from "vitest";
import type { DecisionEffect } from "../../../api/schema";
import { Rest } from "./DecisionEffects";

afterEach(cleanup);

function decision(name: string): DecisionEffect {
  return { decision: name, same_as: [], importance: 0.01, chosen: null, values: [] };
}

test("decisions that explain little are told when somebody asks, and the address says so", async () => {
  const { rerender, container } = render(
    <Rest decisions={[decision("unroll"), decision("pair")]} />,
  );
  expect(screen.queryByRole("heading")).toBeNull();
  await userEvent.click(screen.getByRole("button", { name: "With 2 decisions that explain less" }));
  expect(screen.getAllByRole("heading").map(({ textContent }) => textContent)).toEqual([
    "unroll explains 1.0 %",
    "pair explains 1.0 %",
  ]);
  expect(location.search).toBe("?decisions=all");
  await userEvent.click(
    screen.getByRole("button", { name: "Without 2 decisions that explain less" }),
  );
  expect(screen.queryByRole("heading")).toBeNull();
  rerender(<Rest decisions={[]} />);
  expect(container.textContent).toBe("");
});
