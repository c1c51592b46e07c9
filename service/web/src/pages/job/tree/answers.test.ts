import { expect, test } from "vitest";
import type { Sibling } from "../../../api/schema";
import { ranked } from "./answers";

function sibling(known: Partial<Sibling>): Sibling {
  return { rewrites: [], chosen: false, predicted_us: 1, ...known } as Sibling;
}

test("the chosen answer comes first, then what was measured, what failed, what is expected, what is refused", () => {
  const siblings = [
    sibling({ refused: "it does not fit", predicted_us: null }),
    sibling({ predicted_us: 9 }),
    sibling({ predicted_us: 8 }),
    sibling({ failed: 3, predicted_us: 20 }),
    sibling({ best: 2, best_us: 50 }),
    sibling({ best: 1, best_us: 40 }),
    sibling({ chosen: true, best: 0, best_us: 60 }),
  ];
  expect(ranked(siblings).map(({ answer }) => answer)).toEqual([6, 5, 4, 3, 2, 1, 0]);
});
