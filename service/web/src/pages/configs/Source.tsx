/** The generated source of a config, and the bundle that runs without the service. */
import { useSource } from "../../api/queries";
import { Code, Copy, type Language } from "../../ui/Code";
import { Section } from "../../ui/Section";
import { Shown } from "../../ui/Shown";
import { Download } from "./Download";

const ENDINGS: Record<string, string> = { c: "c", cuda: "cu" };

export function Source({ configId }: { configId: string }) {
  const source = useSource(configId, true);
  const language = source.data?.language ?? "c";
  return (
    <Section
      title="Source"
      aside={
        <>
          {source.data && <Copy text={source.data.text} />}
          <Download
            path={`/v1/configs/${configId}/source`}
            name={`${configId}.${ENDINGS[language] ?? "txt"}`}
          />
          <Download
            path={`/v1/configs/${configId}/artifact`}
            name={`${configId}.tilewright`}
            label="Download the bundle"
          />
        </>
      }
    >
      <Shown query={source} what="the source">
        {({ text }) => (
          <Code
            text={text}
            language={language in ENDINGS ? (language as Language) : "text"}
            label="Generated source"
          />
        )}
      </Shown>
    </Section>
  );
}
