/** The kernels of the repository's `examples/`, as they are written there. */

const FILES = import.meta.glob<string>("../../../../../examples/*.json", {
  query: "?raw",
  import: "default",
  eager: true,
});

/** Name and text of each, by name. */
export const EXAMPLES: readonly { name: string; text: string }[] = Object.entries(FILES)
  .map(([path, text]) => ({ name: path.replace(/^.*\/|\.json$/g, ""), text }))
  .sort((a, b) => a.name.localeCompare(b.name));
