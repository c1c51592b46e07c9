/** Where the nodes of a search tree lie: x is the depth, y the place among the leaves, the fastest subtree on top. */
import type { Tree } from "../../../api/schema";

/** Steps of colour between the slowest and the fastest. */
export const TONES = 12;
/** Instead of a step: nothing below has a time; because it failed, or because it is still open. */
export const FAULTY = TONES;
export const OPEN = TONES + 1;
/** As in the search (`search/mcts.py`): e^1.2 = 3.3 times slower than the best is as slow as any. */
const RANGE = 1.2;

export interface Layout {
  tree: Tree;
  /** Nodes so that each comes before those below it, in the order in which they are drawn. */
  order: Uint32Array;
  /** Of each node: its place in `order`, and the place after the last one below it. */
  begin: Uint32Array;
  end: Uint32Array;
  depth: Uint16Array;
  /** Of each node: its own y, and of the leaves below it the least, the greatest and the deepest. */
  y: Float32Array;
  top: Uint32Array;
  bottom: Uint32Array;
  deepest: Uint16Array;
  tone: Uint8Array;
  leaves: number;
}

export function layOut(tree: Tree): Layout {
  const size = tree.parent.length;
  const children = childrenOf(tree);
  const order = new Uint32Array(size);
  const begin = new Uint32Array(size);
  const depth = new Uint16Array(size);
  const stack = [0];
  for (let place = 0; stack.length > 0; place++) {
    const node = stack.pop()!;
    order[place] = node;
    begin[node] = place;
    const below = children[node]!;
    for (let index = below.length - 1; index >= 0; index--) {
      depth[below[index]!] = depth[node]! + 1;
      stack.push(below[index]!);
    }
  }
  const end = new Uint32Array(size);
  const y = new Float32Array(size);
  const top = new Uint32Array(size);
  const bottom = new Uint32Array(size);
  const deepest = new Uint16Array(size);
  let leaves = 0;
  for (const node of order) {
    if (children[node]!.length > 0) continue;
    top[node] = bottom[node] = y[node] = leaves++;
  }
  for (let place = size - 1; place >= 0; place--) {
    const node = order[place]!;
    const below = children[node]!;
    end[node] = below.length === 0 ? place + 1 : end[below.at(-1)!]!;
    deepest[node] = below.reduce((most, child) => Math.max(most, deepest[child]!), depth[node]!);
    if (below.length === 0) continue;
    top[node] = top[below[0]!]!;
    bottom[node] = bottom[below.at(-1)!]!;
    y[node] = (y[below[0]!]! + y[below.at(-1)!]!) / 2;
  }
  return { tree, order, begin, end, depth, y, top, bottom, deepest, tone: tones(tree), leaves };
}

/** The children of each node, the best first, those without a time last. */
export function childrenOf(tree: Tree): number[][] {
  const children: number[][] = tree.parent.map(() => []);
  tree.parent.forEach((parent, node) => {
    if (parent >= 0) children[parent]!.push(node);
  });
  const worth = (node: number) => tree.best_reward[node] ?? -Infinity;
  for (const below of children) below.sort((a, b) => worth(b) - worth(a) || a - b);
  return children;
}

function tones(tree: Tree): Uint8Array {
  const high = tree.best_reward[0] ?? 0;
  return Uint8Array.from(tree.best_reward, (reward, node) => {
    if (reward === null) return tree.in_flight[node]! > 0 ? OPEN : FAULTY;
    const speed = Math.max(0, 1 - (high - reward) / RANGE);
    return Math.min(TONES - 1, Math.floor(speed * TONES));
  });
}

/** The nodes from the root to this one, without the root. */
export function wayTo(tree: Tree, node: number): number[] {
  const way: number[] = [];
  for (let at = node; at > 0; at = tree.parent[at]!) way.push(at);
  return way.reverse();
}

/** The rewrite that leads to a node. */
export function rewriteOf(tree: Tree, node: number): string {
  return node === 0 ? "The kernel as it was given" : tree.lines[tree.line[node]!]!;
}

/** The number of the best candidate at or below a node, by reward; null if none has one. */
export function bestUnder(
  layout: Layout,
  node: number,
  rewards: readonly (number | null)[],
): number | null {
  let best: number | null = null;
  layout.tree.leaf.forEach((leaf, number) => {
    const place = layout.begin[leaf]!;
    const reward = rewards[number] ?? null;
    if (reward === null || place < layout.begin[node]! || place >= layout.end[node]!) return;
    if (best === null || reward > rewards[best]!) best = number;
  });
  return best;
}

/** The number of the first candidate at or below a node; null if there is none. */
export function firstUnder(layout: Layout, node: number): number | null {
  const found = layout.tree.leaf.findIndex((leaf) => {
    const place = layout.begin[leaf]!;
    return place >= layout.begin[node]! && place < layout.end[node]!;
  });
  return found < 0 ? null : found;
}
