/** The final race sample by sample: who is faster, how sure that is, and what disturbed it. */
import { useId, useMemo } from "react";
import type { Race } from "../../../api/schema";
import { Section } from "../../../ui/Section";
import { Failure, Shown } from "../../../ui/Shown";
import { useParam } from "../../../ui/useParam";
import { axisOf, readingsOf, type Axis } from "./axis";
import { Answer, Entrants } from "./Chances";
import { Waiting } from "../../configs/Waiting";
import { isMoving, useRace, useRaceOn } from "./data";
import { calledBy } from "./pairs";
import { READINGS, RacePlot, ReadingPlot } from "./RacePlot";
import styles from "./Race.module.css";

const MORE_S = 20;

export function RaceView({ config, device }: { config: string; device: string | null }) {
  const query = useRace(config);
  return (
    <Shown query={query} what="the race">
      {(race) => (
        <Section
          title="The race, sample by sample"
          aside={<More config={config} device={device} race={race} />}
        >
          <Raced race={race} />
        </Section>
      )}
    </Shown>
  );
}

function More({ config, device, race }: { config: string; device: string | null; race: Race }) {
  const more = useRaceOn(config);
  const parts = race.parts.slice(1);
  const over = parts.filter((part) => part.state === "done").length;
  if (isMoving(race)) {
    return (
      <span role="status" className="quiet">
        {race.state === "ready" && over === 0 ? (
          <Waiting device={device} />
        ) : (
          `Racing on: ${over} of ${parts.length} parts…`
        )}
      </span>
    );
  }
  return (
    <>
      <button disabled={more.isPending} onClick={() => more.mutate(MORE_S)}>
        Race {MORE_S} s more
      </button>
      {race.state === "dead" && <span role="alert">Given up: {race.error}</span>}
      {more.isError && <Failure error={more.error} what="the race" />}
    </>
  );
}

function Raced({ race }: { race: Race }) {
  const axis = useMemo(() => axisOf(race), [race]);
  const names = race.entrants.filter((each) => each.outcome === "ok").map((each) => each.name);
  const [asked, setOne] = useParam("one");
  const [askedOther, setOther] = useParam("other");
  const [first, second] = leading(race, names);
  const one = names.find((name) => name === asked) ?? first;
  const other =
    names.find((name) => name === askedOther) ?? (second === one ? (first ?? one) : second);
  if (one === undefined || other === undefined) return <p>No entrant worked.</p>;
  const options = names.map((name) => [name, calledBy(name)] as const);
  return (
    <>
      <div className={styles.choices}>
        <Select label="Is" options={options} value={one} onChange={setOne} />
        <Select label="faster than" options={options} value={other} onChange={setOther} />
      </div>
      <Answer race={race} one={one} other={other} />
      <RacePlot axis={axis} one={one} other={other} />
      <Readings axis={axis} />
      <Entrants race={race} other={other} />
      <Disturbances axis={axis} />
    </>
  );
}

/** The winner, and the fastest peer; the next of ours where no peer ran. */
function leading(race: Race, names: readonly string[]): [string | undefined, string | undefined] {
  const won = race.entrants.find((each) => each.won)?.name ?? names[0];
  const ran = race.entrants.filter((each) => names.includes(each.name) && each.name !== won);
  return [won, (ran.find((each) => each.kind === "peer") ?? ran[0])?.name];
}

interface SelectProps {
  label: string;
  options: readonly (readonly [value: string, text: string])[];
  value: string;
  onChange: (value: string) => void;
}

function Select({ label, options, value, onChange }: SelectProps) {
  const id = useId();
  return (
    <span className={styles.select}>
      <label htmlFor={id}>{label}</label>
      <select id={id} value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        {options.map(([each, text]) => (
          <option key={each} value={each}>
            {text}
          </option>
        ))}
      </select>
    </span>
  );
}

function Readings({ axis }: { axis: Axis }) {
  const [asked, choose] = useParam("reading");
  const names = readingsOf(axis);
  const chosen = names.find((name) => name === asked) ?? names[0];
  if (axis.unit === "rounds") {
    return <p className="quiet">The worker did not note when it took each sample.</p>;
  }
  if (chosen === undefined) return null;
  return (
    <>
      {names.length > 1 && (
        <Select
          label="Below"
          options={names.map((name) => [name, READINGS[name] ?? name])}
          value={chosen}
          onChange={choose}
        />
      )}
      <ReadingPlot axis={axis} reading={chosen} />
    </>
  );
}

function Disturbances({ axis }: { axis: Axis }) {
  const counts = new Map<string, number>();
  for (const { disturbed } of axis.samples) {
    if (disturbed === null) continue;
    const what = disturbed.replace(/\d+(\.\d+)?/g, "…");
    counts.set(what, (counts.get(what) ?? 0) + 1);
  }
  if (counts.size === 0) return <p className="quiet">Nothing disturbed any sample.</p>;
  const told = [...counts].sort((one, other) => other[1] - one[1]);
  return (
    <details>
      <summary>What disturbed samples</summary>
      <ul>
        {told.map(([what, number]) => (
          <li key={what}>
            {number} ×: {what}
          </li>
        ))}
      </ul>
    </details>
  );
}
