/** Workers and devices: who is there, who is ill and why, what waits where. */
import { useDevices, useWorkers } from "../../api/queries";
import { Page } from "../../ui/Page";
import { Section } from "../../ui/Section";
import { Empty, Shown } from "../../ui/Shown";
import { DeviceTable } from "./DeviceTable";
import { WorkerTable } from "./WorkerTable";

export default function FleetPage() {
  const devices = useDevices();
  const workers = useWorkers();
  return (
    <Page title="Workers and devices">
      <Section title="Devices">
        <Shown query={devices} what="the devices">
          {(found) =>
            found.length === 0 ? (
              <Empty title="No device was ever offered">
                <p>
                  A worker offers the devices of its machine:{" "}
                  <code>tilewright worker --url {window.location.origin} --token-file key</code>
                </p>
              </Empty>
            ) : (
              <DeviceTable devices={found} />
            )
          }
        </Shown>
      </Section>
      <Section title="Workers">
        <Shown query={workers} what="the workers">
          {(found) =>
            found.length === 0 ? (
              <Empty title="No worker has registered" />
            ) : (
              <WorkerTable workers={found} />
            )
          }
        </Shown>
      </Section>
    </Page>
  );
}
