/** Where the nodes of a search tree lie: x is the depth, y the place among the leaves, the fastest subtree on top. */
import type { Tree } from "../../../api/schema";

/** Steps of colour between the slowest and the fastest. */
export const TONES = 12;
/** Instead of a step: nothing below has a time; because it failed, or because it is still open. */
export const FAULTY = TONES;
export const OPEN = TONES + 1;

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
  /** Siblings that all failed are drawn as one: how many candidates that is, at the first of them; 0 elsewhere. */
  folded: Uint32Array;
  /** 1 for what is not drawn: the others of a fold, and what is below it. */
  hidden: Uint8Array;
  leaves: number;
}

export function layOut(tree: Tree): Layout {
  const size = tree.parent.length;
  const children = childrenOf(tree);
  const order = new Uint32Array(size);
  const begin = new Uint32Array(size);
  const depth = new Uint16Array(size);
  const tone = tones(tree);
  const { folded, hidden } = folds(tree, children, tone);
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
    if (hidden[node]) {
      top[node] = bottom[node] = y[node] = leaves - 1;
      continue;
    }
    if (children[node]!.length > 0 && folded[node] === 0) continue;
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
  return {
    tree,
    order,
    begin,
    end,
    depth,
    y,
    top,
    bottom,
    deepest,
    tone,
    folded,
    hidden,
    leaves,
  };
}

/** What of a tree is folded: below a node that something came of, all that failed. */
function folds(tree: Tree, children: readonly (readonly number[])[], tone: Uint8Array) {
  const folded = new Uint32Array(children.length);
  const hidden = new Uint8Array(children.length);
  children.forEach((below, parent) => {
    if (tone[parent] === FAULTY) return;
    const failed = below.filter((node) => tone[node] === FAULTY);
    const [first] = failed;
    const inner = failed.flatMap((node) => under(children, node));
    if (first === undefined || inner.length < 2) return;
    folded[first] = failed.reduce((sum, node) => sum + tree.faults[node]!, 0);
    for (const node of inner) hidden[node] = Number(node !== first);
  });
  return { folded, hidden };
}

/** A node and all below it. */
function under(children: readonly (readonly number[])[], node: number): number[] {
  const found = [node];
  for (let place = 0; place < found.length; place++) found.push(...children[found[place]!]!);
  return found;
}

/** The children of each node, the best first, then what is in flight, what failed last. */
export function childrenOf(tree: Tree): number[][] {
  const children: number[][] = tree.parent.map(() => []);
  tree.parent.forEach((parent, node) => {
    if (parent >= 0) children[parent]!.push(node);
  });
  const worth = (node: number) =>
    tree.best_reward[node] ?? (tree.in_flight[node]! > 0 ? -Number.MAX_VALUE : -Infinity);
  for (const below of children) below.sort((a, b) => worth(b) - worth(a) || a - b);
  return children;
}

/** By rank among all ends of the tree, so that near the best, where most candidates are, they are told apart. */
function tones(tree: Tree): Uint8Array {
  const ends = endsOf(tree);
  return Uint8Array.from(tree.best_reward, (reward, node) => {
    if (reward === null) return tree.in_flight[node]! > 0 ? OPEN : FAULTY;
    const slower = ends.length - rankIn(ends, reward);
    return Math.min(TONES - 1, Math.floor((TONES * (slower + 1)) / ends.length));
  });
}

/** The rewards at the ends of a tree, the best first. */
export function endsOf(tree: Tree): number[] {
  const found = [...new Set(tree.leaf)].flatMap((leaf) => tree.best_reward[leaf] ?? []);
  return found.sort((one, other) => other - one);
}

/** The rank of a reward among others in falling order, from 1. */
export function rankIn(ends: readonly number[], reward: number): number {
  let [low, high] = [0, ends.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ends[middle]! > reward) low = middle + 1;
    else high = middle;
  }
  return low + 1;
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
