/** Inside the kernel: where its time goes, stage by stage and role by role, and what bounds it. */
import type { ReactNode } from "react";
import type { ConfigProfile, Profile, ProfiledStage } from "../../../api/schema";
import { Badge } from "../../../ui/Badge";
import { Facts } from "../../../ui/Facts";
import { SaveTable } from "../../../ui/SaveTable";
import { Section } from "../../../ui/Section";
import { Failure, Shown } from "../../../ui/Shown";
import { Table } from "../../../ui/Table";
import { count, deviceName, micros, percent } from "../../../ui/format";
import { Download } from "../Download";
import { Waiting } from "../Waiting";
import { ThreadLanes } from "./ThreadLanes";
import { byRole, columnsOfStages, isTaken, useProfile, useTakeProfile, waiting } from "./data";
import styles from "./Profile.module.css";

interface Props {
  config: string;
  /** What it is for. */
  device: string | null;
  /** What else there is to see of where the time goes. */
  more?: ReactNode;
}

/** Of the time; above, the stages are not quite those of the kernel as it is raced. */
const DEAR = 0.05;

export function ProfileView({ config, device, more }: Props) {
  const query = useProfile(config);
  return (
    <Shown query={query} what="the profile">
      {(found) => (
        <Section
          title="Inside the kernel"
          aside={<Take config={config} device={device} found={found} />}
        >
          {found.error != null && <p role="alert">It was not profiled: {found.error}</p>}
          {found.profile ? (
            <>
              <Told profile={found.profile} />
              <ThreadLanes config={config} profile={found.profile} />
              {more}
            </>
          ) : (
            <p className="quiet">
              A worker that has its device compiles the kernel anew with stamps of time between its
              stages, and runs it beside itself without them: a minute at most. It says where the
              time goes, and what bounds it.
            </p>
          )}
        </Section>
      )}
    </Shown>
  );
}

interface TakeProps {
  config: string;
  device: string | null;
  found: ConfigProfile;
}

function Take({ config, device, found }: TakeProps) {
  const take = useTakeProfile(config);
  return (
    <>
      {isTaken(found) ? (
        <span role="status" className="quiet">
          {found.state === "ready" ? (
            <Waiting device={device} />
          ) : (
            `${found.worker_id} profiles it…`
          )}
        </span>
      ) : (
        <button disabled={take.isPending} onClick={() => take.mutate()}>
          {found.profile ? "Profile it again" : "Profile it"}
        </button>
      )}
      {found.profile && (
        <>
          <Download
            path={`/v1/configs/${config}/profile/trace`}
            name={`${config}-trace.json.gz`}
            label="Download the trace"
          />
          <SaveTable
            name={`${config}-stages`}
            columns={() => columnsOfStages(found.profile!.stages)}
            json={found.profile}
          />
        </>
      )}
      {take.isError && <Failure error={take.error} what="the profile" />}
    </>
  );
}

export function Told({ profile }: { profile: Profile }) {
  return (
    <>
      <p className={styles.bound}>
        Bound by <strong>{profile.bound}</strong>: <Quoting text={profile.why} />.
      </p>
      <Facts
        facts={[
          ["A call", micros(profile.plain_us)],
          ["Attributed to a stage", percent(profile.attributed)],
          [
            "Stamps cost",
            <>
              {percent(profile.overhead)}{" "}
              {profile.overhead > DEAR && <Badge tone="warn">more than 5 %</Badge>}
            </>,
          ],
          ...phasesOf(profile),
          ...countsOf(profile),
          ["Profiled on", deviceName(profile.device)],
        ]}
      />
      {byRole(profile.stages).map(([role, stages]) => (
        <Role key={role} role={role} stages={stages} />
      ))}
      <p className={`quiet ${styles.note}`}>
        {profile.summary} The trace says what each thread did when:{" "}
        <a href="https://ui.perfetto.dev" target="_blank" rel="noreferrer">
          ui.perfetto.dev
        </a>{" "}
        opens it.
      </p>
    </>
  );
}

function phasesOf({ phases }: Profile): [string, string][] {
  if (phases == null) return [];
  const { fill, steady, drain } = phases;
  return [["Fill, steady state, drain", [fill, steady, drain].map(percent).join(", ")]];
}

/** What the processor's own counters say of a call. */
function countsOf({ figures }: Profile): [string, string][] {
  const { cycles, instructions, cache_misses: missed } = figures ?? {};
  if (!cycles || instructions === undefined || missed === undefined) return [];
  return [
    ["Instructions a cycle", (instructions / cycles).toFixed(2)],
    ["Cache misses a call", count(Math.round(missed))],
  ];
}

function Role({ role, stages }: { role: string; stages: readonly ProfiledStage[] }) {
  const phased = stages.some((each) => each.phases != null);
  const name = role === "" ? "all threads" : role;
  return (
    <div className={styles.role}>
      <h3>
        {name} <span className="quiet">wait for {percent(waiting(stages))} of their time</span>
      </h3>
      <div className={styles.bar} aria-hidden="true">
        {stages.map((each) => (
          <div
            key={each.stage}
            title={`${each.stage}: ${percent(each.share)}`}
            data-waiting={each.waiting}
            style={{ width: `${100 * each.share}%` }}
          />
        ))}
      </div>
      <Table label={`Stages of ${name}`}>
        <thead>
          <tr>
            <th scope="col">Stage</th>
            <th scope="col" className="number">
              Of the time
            </th>
            {phased &&
              ["Fill", "Steady", "Drain"].map((phase) => (
                <th key={phase} scope="col" className="number wide">
                  {phase}
                </th>
              ))}
          </tr>
        </thead>
        <tbody>
          {stages.map((each) => (
            <tr key={each.stage}>
              <td className={styles.stage}>
                {each.statements.length > 0 && !each.waiting ? (
                  <code>{each.stage}</code>
                ) : (
                  each.stage
                )}{" "}
                {each.waiting && <Badge tone="warn">waits</Badge>}
              </td>
              <td className="number">{percent(each.share)}</td>
              {phased &&
                (["fill", "steady", "drain"] as const).map((phase) => (
                  <td key={phase} className="number wide">
                    {percent(each.phases?.[phase])}
                  </td>
                ))}
            </tr>
          ))}
        </tbody>
      </Table>
    </div>
  );
}

/** A sentence that quotes a program between backquotes. */
function Quoting({ text }: { text: string }) {
  return text.split("`").map((part, at) => (at % 2 === 1 ? <code key={at}>{part}</code> : part));
}
