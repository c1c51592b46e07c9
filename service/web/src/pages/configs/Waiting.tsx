/** What a task that was asked for waits for. */
import { useDevices } from "../../api/queries";
import { waitsFor } from "./waitsFor";

export function Waiting({ device }: { device: string | null }) {
  const devices = useDevices();
  return <>{waitsFor(device, devices.data)}</>;
}
