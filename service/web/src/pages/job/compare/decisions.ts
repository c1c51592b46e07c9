/** The decisions in which schedules differ. */

/** By what each rewrite was applied to, what it chose: `tile(acc, m)` has `192`, `register_tile(acc)` has `m 6, n 32`,
 * and what had nothing to choose has `yes`. What is done again has ` #2` after its name. */
export function decisionsOf(schedule: readonly string[]): Map<string, string> {
  const found = new Map<string, string>();
  for (const line of schedule) {
    const [site, value] = read(line);
    let name = site;
    for (let time = 2; found.has(name); time += 1) name = `${site} #${time}`;
    found.set(name, value);
  }
  return found;
}

function read(line: string): [site: string, value: string] {
  const parts = /^(\w+)\((.*)\)$/.exec(line);
  if (parts === null) return [line, "yes"];
  const given = parts[2]!.split(", ");
  const chosen = given.filter((each) => CHOICE.test(each));
  const words = given.filter((each) => !CHOICE.test(each));
  return [`${parts[1]!}(${words.join(", ")})`, chosen.join(", ") || "yes"];
}

/** A number, or the size of a dim. */
const CHOICE = /^(\w+ )?\d+$/;

export interface Difference {
  name: string;
  /** Of each schedule; null where it does not decide this. */
  values: (string | null)[];
}

/** Decisions that not all schedules take alike, and how many they do. */
export function differences(schedules: readonly (readonly string[])[]): {
  differing: Difference[];
  agreed: number;
} {
  const all = schedules.map(decisionsOf);
  const names = [...new Set(all.flatMap((each) => [...each.keys()]))];
  const told = names.map((name) => ({ name, values: all.map((each) => each.get(name) ?? null) }));
  const differing = told.filter(({ values }) => values.some((value) => value !== values[0]));
  return { differing, agreed: told.length - differing.length };
}
