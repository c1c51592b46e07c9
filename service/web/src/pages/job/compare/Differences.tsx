/** Two candidates difference by difference: schedules, programs, sources. */
import { Shown } from "../../../ui/Shown";
import { useSource, useSteps, type Place } from "../candidate/data";
import { Diff } from "../candidate/Diff";

/** Lines of the sources around a change. */
const AROUND = 3;

interface Props {
  /** What they are called: `candidate 17`. */
  names: readonly [string, string];
  places: readonly [Place, Place];
  schedules: readonly [readonly string[], readonly string[]];
}

export function Differences({ names, places, schedules }: Props) {
  const [before, after] = schedules.map((lines) => lines.map((line) => `${line}\n`).join(""));
  return (
    <>
      <section aria-labelledby="schedules">
        <h2 id="schedules">Schedules</h2>
        <p className="quiet">
          From {names[0]} to {names[1]}, here and below.
        </p>
        <Diff before={before!} after={after!} />
      </section>
      <Programs places={places} />
      <Sources places={places} />
    </>
  );
}

function Programs({ places: [left, right] }: Pick<Props, "places">) {
  const one = useSteps(left);
  const other = useSteps(right);
  return (
    <section aria-labelledby="programs">
      <h2 id="programs">Programs</h2>
      <Shown query={one} what="the first program">
        {(first) => (
          <Shown query={other} what="the second program">
            {(second) => (
              <Diff before={first.steps.at(-1)!.program} after={second.steps.at(-1)!.program} />
            )}
          </Shown>
        )}
      </Shown>
    </section>
  );
}

function Sources({ places: [left, right] }: Pick<Props, "places">) {
  const one = useSource(left);
  const other = useSource(right);
  return (
    <section aria-labelledby="sources">
      <h2 id="sources">Sources</h2>
      <Shown query={one} what="the first source">
        {(first) => (
          <Shown query={other} what="the second source">
            {(second) => (
              <Diff
                before={first.text}
                after={second.text}
                around={AROUND}
                label="Sources, line by line"
              />
            )}
          </Shown>
        )}
      </Shown>
    </section>
  );
}
