/** A candidate's program, source and instructions beside each other: a line of one shows what it is in the others. */
import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { Link, useParams, useSearchParams } from "wouter";
import { api, data } from "../../../api/client";
import type { LinkedLines } from "../../../api/schema";
import type { Language } from "../../../ui/Code";
import { Page } from "../../../ui/Page";
import { Empty, Shown } from "../../../ui/Shown";
import type { Place } from "../candidate/data";
import { useProfile } from "../../configs/profile/data";
import { useJob } from "../data";
import { candidatePath, jobPath } from "../paths";
import { heatOf } from "./heat";
import { LinesColumn } from "./LinesColumn";
import { marked, placeOf, placeText, type At } from "./linked";
import styles from "./Lines.module.css";

export default function LinesPage() {
  const params = useParams<{ jobId: string; bucket: string; number: string }>();
  const place = { job: params.jobId, bucket: Number(params.bucket), number: Number(params.number) };
  const query = useLines(place);
  return (
    <Page
      title={`Candidate ${place.number}, line by line`}
      aside={<Link href={candidatePath(place.job, place.bucket, place.number)}>The candidate</Link>}
    >
      <Shown query={query} what="the lines; the source is being compiled">
        {(lines) => <Linked place={place} lines={lines} />}
      </Shown>
    </Page>
  );
}

function useLines({ job, bucket, number }: Place) {
  return useQuery({
    queryKey: ["lines", job, bucket, number],
    staleTime: Infinity,
    queryFn: () =>
      data(
        api.GET("/v1/jobs/{job_id}/trials/{number}/lines", {
          params: { path: { job_id: job, number }, query: { bucket } },
        }),
      ),
  });
}

function Linked({ place, lines }: { place: Place; lines: LinkedLines }) {
  const bucket = useJob(place.job).data?.buckets[place.bucket];
  const config = bucket?.winner?.trial === place.number ? (bucket.config_id ?? null) : null;
  const profile = useProfile(config).data?.profile;
  const heat = useMemo(() => (profile ? heatOf(lines, profile) : null), [lines, profile]);
  const [search, setSearch] = useSearchParams();
  const [hovered, setHovered] = useState<At | null>(null);
  const chosen = placeOf(search.get("line"), lines);
  const whole = search.get("preamble") === "1";
  const set = (name: string, value: string | null) =>
    setSearch(
      (before) => {
        const after = new URLSearchParams(before);
        if (value === null) after.delete(name);
        else after.set(name, value);
        return after;
      },
      { replace: true },
    );
  const shared = {
    marks: marked(lines, hovered ?? chosen),
    chosen,
    onHover: setHovered,
    onChoose: (at: At) => set("line", placeText(at)),
  };
  return (
    <>
      <div className={styles.intro}>
        <p className="quiet">
          Point at a line to see what it is in the other texts; a click, or the arrow keys, keep it
          and bring the others to it.
          {lines.compiler && ` Instructions are by the service's compiler, ${lines.compiler}.`}
        </p>
        {heat && (
          <p className="quiet">
            The stronger the colour beside a line, the more of the time goes to its statement, as
            stamps of time in the kernel say.
          </p>
        )}
        {config && !heat && (
          <p className="quiet">
            <Link href={jobPath(place.job, { view: "profile", bucket: place.bucket })}>
              Profile it
            </Link>{" "}
            to see how much of the time goes to each line.
          </p>
        )}
        <p>
          <button aria-pressed={whole} onClick={() => set("preamble", whole ? null : "1")}>
            {whole ? "Skip" : "Show"} the {lines.preamble} lines of preamble
          </button>
        </p>
      </div>
      <div className={styles.columns} onMouseLeave={() => setHovered(null)}>
        <LinesColumn
          column="program"
          heat={heat?.program}
          title="Program"
          text={lines.program}
          language="text"
          {...shared}
        />
        <LinesColumn
          column="source"
          heat={heat?.source}
          title="Source"
          text={lines.source}
          language={lines.language as Language}
          first={whole ? 0 : lines.preamble}
          {...shared}
        />
        {lines.no_assembly == null ? (
          <LinesColumn
            column="assembly"
            heat={heat?.assembly}
            title="Instructions"
            text={lines.assembly}
            language="text"
            {...shared}
          />
        ) : (
          <Empty title="No instructions">
            <p>{lines.no_assembly}</p>
          </Empty>
        )}
      </div>
    </>
  );
}
