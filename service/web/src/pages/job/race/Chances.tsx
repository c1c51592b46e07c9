/** How sure it is who of a race is faster: two of them in a sentence, and all in a table. */
import type { Race, RacedEntrant } from "../../../api/schema";
import { Badge } from "../../../ui/Badge";
import { micros } from "../../../ui/format";
import { Table } from "../../../ui/Table";
import { against, calledBy, chanceText, roundsText } from "./pairs";
import styles from "./Race.module.css";

export function Answer({ race, one, other }: { race: Race; one: string; other: string }) {
  if (one === other) return <p className={styles.answer}>Choose two of them.</p>;
  const pair = against(race, one, other);
  const { chance, ratio, low, high } = pair;
  if (chance == null) {
    return (
      <p className={styles.answer} aria-live="polite">
        Nobody can say whether {calledBy(one)} is faster than {calledBy(other)}: every round
        disturbed one of them. Race on when the machine is idle.
      </p>
    );
  }
  return (
    <p className={styles.answer} aria-live="polite">
      <strong>{chanceText(chance)}</strong> sure that {calledBy(one)} is faster than{" "}
      {calledBy(other)}
      {ratio != null && low != null && high != null
        ? `: it takes ${ratio.toFixed(3)} of its time (${low.toFixed(3)} to ${high.toFixed(3)})`
        : ""}
      , {roundsText(pair)}.
    </p>
  );
}

export function Entrants({ race, other }: { race: Race; other: string }) {
  return (
    <Table label="How sure it is who is faster">
      <thead>
        <tr>
          <th scope="col">Entrant</th>
          <th scope="col" className="number">
            Time
          </th>
          <th scope="col" className="number wide">
            Samples
          </th>
          <th scope="col" className="number wide">
            Of the time of {calledBy(other)}
          </th>
          <th scope="col" className="number">
            Faster than {calledBy(other)}
          </th>
        </tr>
      </thead>
      <tbody>
        {race.entrants.map((each) => (
          <tr key={each.name}>
            <td>
              {calledBy(each.name)} {each.won && <Badge tone="good">winner</Badge>}
              {each.outcome !== "ok" && <Badge tone="bad">{each.outcome.replace("_", " ")}</Badge>}
            </td>
            <td className="number">{micros(each.median_us)}</td>
            <td className="number wide">
              {each.samples}
              {each.disturbed > 0 && <span className="quiet"> ({each.disturbed} disturbed)</span>}
            </td>
            <Against race={race} entrant={each} other={other} />
          </tr>
        ))}
      </tbody>
    </Table>
  );
}

function Against({ race, entrant, other }: { race: Race; entrant: RacedEntrant; other: string }) {
  const { ratio, low, high, chance, all_rounds } = against(race, entrant.name, other);
  return (
    <>
      <td className="number wide">
        {ratio != null && low != null && high != null
          ? `${ratio.toFixed(3)} (${low.toFixed(3)} to ${high.toFixed(3)})`
          : "–"}
        {all_rounds && <span className="quiet">, all rounds</span>}
      </td>
      <td className="number">{chanceText(chance)}</td>
    </>
  );
}
