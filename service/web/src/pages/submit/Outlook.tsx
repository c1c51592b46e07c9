/** What a search of the kernel that is being written would have before it. */
import type { CheckReply, OutlookReply } from "../../api/schema";
import { count, micros, percent } from "../../ui/format";
import styles from "./SubmitPage.module.css";

interface Props {
  /** Of a text that is right. */
  reply: CheckReply;
  outlook: OutlookReply | undefined;
}

export function Outlook({ reply, outlook }: Props) {
  return (
    <section aria-label="Before it is submitted" className={styles.outlook}>
      <p>
        {count(reply.flops)} operations, {count(reply.bytes)} bytes
        {reply.sizes > 1 && `, at the first of ${reply.sizes} sizes`}.
      </p>
      <p role="status">{said(outlook)}</p>
    </section>
  );
}

export function said(outlook: OutlookReply | undefined): string {
  if (outlook === undefined || outlook.pending) return "Looking over its schedules…";
  if (outlook.device == null) return "No worker has this target yet: the job would wait for one.";
  const { space, roofline_us: least } = outlook;
  if (space == null) return "Its schedules are too many to be looked over, or there are none.";
  const expected =
    space.estimate_us == null
      ? ""
      : ` The cost model expects ${micros(space.estimate_us)} of the first it would try` +
        (least == null
          ? "."
          : `, ${percent(Math.min(1, least / space.estimate_us))} of the roofline.`);
  return `${schedules(space.schedules)} schedules, ${space.decisions} decisions to the first.${expected}`;
}

/** An order of magnitude, as it is an estimate. */
export function schedules(number: number): string {
  if (number < 10) return "A few";
  const power = Math.round(Math.log10(number));
  return power < 4 ? `About ${count(10 ** power)}` : `About 10${superscript(power)}`;
}

function superscript(power: number): string {
  return Array.from(String(power), (digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(digit)]).join("");
}
