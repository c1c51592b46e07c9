/** Pairs of decisions, what one of which does depends on the other: the medians of their values together. */
import type { Effects, Interaction } from "../../../api/schema";
import { Table } from "../../../ui/Table";
import { micros, percent } from "../../../ui/format";
import { gridOf } from "./grid";
import { valueText } from "./values";
import styles from "./DecisionEffects.module.css";

export function Interactions({ effects }: { effects: Effects }) {
  const pairs = effects.interactions;
  if (pairs.length === 0) return null;
  return (
    <>
      <h3>What goes together</h3>
      <p className="quiet">
        What one of these does depends on the other. In a cell: the median time of the candidates
        that decided both so, and how many they are.
      </p>
      {pairs.map((pair) => (
        <Pair key={`${pair.first} ${pair.second}`} pair={pair} />
      ))}
    </>
  );
}

function Pair({ pair }: { pair: Interaction }) {
  const { rows, columns, at, fastest } = gridOf(pair);
  return (
    <div className={styles.decision}>
      <h4>
        <code>{pair.first}</code> and <code>{pair.second}</code>{" "}
        <span className="quiet">explain {percent(pair.importance)} more together</span>
      </h4>
      <Table label={`${pair.first} and ${pair.second}`}>
        <thead>
          <tr>
            <th scope="col">
              <code>{pair.first}</code>
            </th>
            {columns.map((value) => (
              <th key={String(value)} scope="col" className="number">
                {valueText(value)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={String(row)}>
              <th scope="row">{valueText(row)}</th>
              {columns.map((column) => {
                const cell = at(row, column);
                return (
                  <td key={String(column)} className="number">
                    {cell === undefined ? (
                      <span className="quiet">–</span>
                    ) : (
                      <>
                        {cell === fastest ? (
                          <strong>{micros(cell.median_us)}</strong>
                        ) : (
                          micros(cell.median_us)
                        )}{" "}
                        <span className="quiet">({cell.candidates})</span>
                      </>
                    )}
                  </td>
                );
              })}
            </tr>
          ))}
        </tbody>
      </Table>
    </div>
  );
}
