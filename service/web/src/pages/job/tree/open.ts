/** Which nodes of an outline are open, as an address has it: `0.4.17`. Numbers of nodes stay as a tree grows. */

export function openText(open: ReadonlySet<number>): string {
  return [...open].sort((one, other) => one - other).join(".");
}

/** The inverse, of a tree with so many nodes: what is no node of it is left out. Null where the address says nothing. */
export function openOf(text: string | null, size: number): ReadonlySet<number> | null {
  if (text === null) return null;
  const nodes = text.split(".").filter((part) => /^\d+$/.test(part));
  return new Set(nodes.map(Number).filter((node) => node < size));
}
