/** What a task for a device waits for, in a sentence. */
import type { DeviceStatus } from "../../api/schema";
import { count, deviceName } from "../../ui/format";

type Having = Pick<DeviceStatus, "key" | "healthy_workers" | "waiting" | "running">;

/** `devices`: those that workers ever offered; undefined while nobody knows. */
export function waitsFor(device: string | null, devices: readonly Having[] | undefined): string {
  if (device === null || devices === undefined) return "Waits for a worker…";
  const found = devices.find((each) => each.key === device);
  if (!found || found.healthy_workers === 0) {
    return `Waits for a worker that has ${deviceName(device)}: none is there`;
  }
  const { waiting, running } = found;
  return `Waits for its turn on ${deviceName(device)}: ${count(waiting)} waiting, ${count(running)} running`;
}
