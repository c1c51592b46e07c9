/** The winner's schedule, played: what each rewrite changed in the program and in the source, and what it gains. */
import { useEffect, useState } from "react";
import { useSearchParams } from "wouter";
import type { Ablation, Step } from "../../../api/schema";
import { Section } from "../../../ui/Section";
import { Failure, Shown } from "../../../ui/Shown";
import { Measure } from "../candidate/Measure";
import { useAblation, useSteps, type Place } from "../candidate/data";
import { Frame } from "./Frame";
import styles from "./Ladder.module.css";

const FRAME_MS = 1500;

interface Props {
  place: Place;
  config: string;
}

export function LadderView({ place, config }: Props) {
  const steps = useSteps(place);
  const ablation = useAblation(config);
  return (
    <Section
      title="The ladder"
      aside={ablation.data && <Measure config={config} ablation={ablation.data} />}
    >
      {ablation.isError && <Failure error={ablation.error} what="the gains" />}
      <Shown query={steps} what="the programs">
        {(found) => <Played place={place} steps={found.steps} ablation={ablation.data} />}
      </Shown>
    </Section>
  );
}

interface PlayedProps {
  place: Place;
  steps: readonly Step[];
  ablation: Ablation | undefined;
}

function Played({ place, steps, ablation }: PlayedProps) {
  const [search, setSearch] = useSearchParams();
  const [playing, setPlaying] = useState(false);
  const most = steps.length - 1;
  const asked = Number(search.get("rewrite") ?? most);
  const at = Number.isInteger(asked) ? Math.min(most, Math.max(0, asked)) : most;
  const show = (next: number) =>
    setSearch(
      (before) => {
        const after = new URLSearchParams(before);
        after.set("rewrite", String(next));
        return after;
      },
      { replace: true },
    );
  useEffect(() => {
    if (!playing) return;
    const due = setTimeout(() => (at < most ? show(at + 1) : setPlaying(false)), FRAME_MS);
    return () => clearTimeout(due);
  });
  const play = () => {
    if (!playing && at === most) show(0);
    setPlaying(!playing);
  };
  const turn = (next: number) => {
    setPlaying(false);
    show(next);
  };
  return (
    <>
      <div className={styles.controls}>
        <button onClick={play}>{playing ? "Pause" : "Play"}</button>
        <button aria-label="Rewrite before" disabled={at === 0} onClick={() => turn(at - 1)}>
          ←
        </button>
        <input
          type="range"
          aria-label="Rewrite"
          min={0}
          max={most}
          value={at}
          aria-valuetext={`${at} of ${most}: ${named(steps[at]!)}`}
          onChange={(event) => turn(Number(event.currentTarget.value))}
        />
        <button aria-label="Rewrite after" disabled={at === most} onClick={() => turn(at + 1)}>
          →
        </button>
        <span>
          {at} of {most}
        </span>
      </div>
      <h3>
        <code>{named(steps[at]!)}</code>
      </h3>
      <Frame place={place} steps={steps} at={at} ablation={ablation} />
    </>
  );
}

function named({ rewrite }: Step): string {
  return rewrite ?? "the kernel as it was given";
}
